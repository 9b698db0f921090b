/* case_kinds.c: the cases that differ in what they hold: values, hidden rows and keys, sequences of
 * different lengths. */
#include "case_draft.h"

/* ---- Values ---- */

/* Where the middle key is strange there are as many rows as keys: with a causal limit, half of them
 * do not see it. */
static void add_values(const char *name, case_values values, bool backward)
{
    const bool strange =
        values == CASE_NAN_KEY || values == CASE_NAN_VALUE || values == CASE_INF_VALUE;
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16, FC_F8_E4M3};
    for (size_t type = 0; type < 4; type++)
        for (int causal = 0; causal < 2; causal++) {
            if (values == CASE_INF_VALUE && types[type] == FC_F8_E4M3)
                continue; /* E4M3 has no infinity */
            case_draft d = draft_make("values", 2, 2, strange ? 71 : 21, 71, 64);
            d.c.values = values;
            d.c.problem.q_type = types[type];
            d.c.problem.causal = causal;
            d.c.backward = backward;
            draft_name(&d, "%s", name);
            if (causal)
                draft_name(&d, "causal");
            draft_name(&d, "%s", fc_type_name(types[type]));
            case_add(&d);
        }
}

static void add_negative_scale(fc_type type)
{
    case_draft d = draft_make("values", 2, 2, 21, 71, 64);
    d.c.problem.q_type = type;
    d.c.problem.scale = -0.2f;
    d.c.backward = true;
    draft_name(&d, "negative_scale-%s", fc_type_name(type));
    case_add(&d);
}

/* Few keys have nearly all the weight, and they may lie in any of a kernel's tiles. */
static void add_peaked(int64_t kv_length, int64_t head_dim, float scale, bool causal)
{
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16};
    for (size_t type = 0; type < 3; type++) {
        case_draft d = draft_make("values", 2, 2, 130, kv_length, head_dim);
        d.c.problem.q_type = types[type];
        d.c.problem.scale = scale;
        d.c.problem.causal = causal;
        draft_name(&d, "peaked%g-kv%d-d%d", (double)scale, (int)kv_length, (int)head_dim);
        if (causal)
            draft_name(&d, "causal");
        draft_name(&d, "%s", fc_type_name(types[type]));
        case_add(&d);
    }
}

/* Over several tiles of keys, whatever the kernel's tiles are. */
static void add_rising(int64_t q_length, int64_t kv_length, int64_t head_dim, bool causal)
{
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16};
    for (size_t type = 0; type < 3; type++) {
        case_draft d = draft_make("values", 1, 2, q_length, kv_length, head_dim);
        d.c.values = CASE_RISING;
        d.c.problem.q_type = types[type];
        d.c.problem.causal = causal;
        draft_name(&d, "rising_logits-d%d", (int)head_dim);
        if (kv_length % 128 == 0)
            draft_name(&d, "whole_tiles");
        if (causal)
            draft_name(&d, "causal");
        draft_name(&d, "%s", fc_type_name(types[type]));
        case_add(&d);
    }
}

/* Rows that see few keys, or ALiBi: what rounding takes from weights counts there, and times
 * infinity it is NaN or the other infinity. All rows see whole tiles of keys. */
static void add_infinite_value(int64_t kv_length, int64_t head_dim, float softcap, bool alibi)
{
    static const fc_type types[] = {FC_F16, FC_BF16};
    for (size_t type = 0; type < 2; type++) {
        case_draft d = draft_make("values", 2, 2, 71, kv_length, head_dim);
        d.c.values = CASE_INF_VALUE;
        d.c.problem.q_type = types[type];
        d.c.problem.softcap = softcap;
        d.c.problem.has_alibi = alibi;
        draft_name(&d, "inf_value-kv%d-d%d", (int)kv_length, (int)head_dim);
        if (softcap > 0)
            draft_name(&d, "softcap");
        if (alibi)
            draft_name(&d, "alibi");
        draft_name(&d, "%s", fc_type_name(types[type]));
        case_add(&d);
    }
}

static void add_all_values(void)
{
    add_values("normal", CASE_NORMAL, true);
    add_values("huge_logits", CASE_HUGE, true);
    add_values("low_logits", CASE_LOW, true);
    add_values("high_logits", CASE_HIGH, true);
    add_values("subnormal", CASE_SUBNORMAL, false);
    add_values("constant", CASE_CONSTANT, true);
    add_values("one_hot", CASE_ONE_HOT, true);
    add_values("offset", CASE_OFFSET, true);
    add_values("heavy_tailed", CASE_HEAVY, true);
    add_values("nan_key", CASE_NAN_KEY, false);
    add_values("nan_value", CASE_NAN_VALUE, false);
    add_values("inf_value", CASE_INF_VALUE, false);
    add_infinite_value(48, 256, 0, false);
    add_infinite_value(48, 256, 20, false);
    add_infinite_value(48, 320, 0, false);
    add_infinite_value(128, 64, 0, true);
    add_infinite_value(128, 128, 0, true);
    add_negative_scale(FC_F32);
    add_negative_scale(FC_F16);
    add_negative_scale(FC_BF16);
    add_peaked(128, 64, 0.3f, false);
    add_peaked(330, 64, 0.3f, true);
    add_peaked(512, 64, 1.0f, false);
    add_peaked(512, 128, 0.3f, false);
    add_peaked(330, 128, 0.2f, true);
    add_peaked(330, 256, 0.2f, true);
    add_rising(250, 600, 64, false);
    add_rising(250, 600, 64, true);
    add_rising(70, 600, 128, false);
    add_rising(70, 600, 256, false);
    add_rising(250, 640, 64, false);
    add_rising(70, 640, 128, false);
    add_rising(70, 640, 256, false);
    add_rising(120, 1030, 256, true);
}

/* ---- Rows and keys that are hidden ---- */

static void add_masked(const char *name, case_mask mask, int64_t q_length, int64_t kv_length,
                       case_values values)
{
    for (int sinks = 0; sinks < 2; sinks++)
        for (int causal = 0; causal < 2; causal++) {
            case_draft d = draft_make("masked", 2, 2, q_length, kv_length, 64);
            d.c.problem.has_mask = 1;
            d.c.problem.has_sinks = sinks;
            d.c.problem.causal = causal;
            d.c.mask = mask;
            d.c.values = values;
            d.c.backward = true;
            d.mask_axes = DRAFT_BATCH | DRAFT_ROW;
            draft_name(&d, "%s-q%d-kv%d", name, (int)q_length, (int)kv_length);
            if (causal)
                draft_name(&d, "causal");
            if (sinks)
                draft_name(&d, "sinks");
            case_add(&d);
        }
}

static void add_blind_window(const char *name, int64_t q_length, int64_t kv_length, int64_t left,
                             int64_t right, fc_diagonal diagonal)
{
    case_draft d = draft_make("masked", 1, 2, q_length, kv_length, 64);
    d.c.problem.has_window = 1;
    d.c.problem.window_left = left;
    d.c.problem.window_right = right;
    d.c.problem.diagonal = diagonal;
    d.c.backward = true;
    draft_name(&d, "%s", name);
    case_add(&d);
}

static void add_all_masked(void)
{
    static const struct {
        const char *name;
        case_mask mask;
    } masks[] = {{"leading_rows", CASE_MASK_LEADING},
                 {"trailing_rows", CASE_MASK_TRAILING},
                 {"all_rows", CASE_MASK_ALL},
                 {"last_keys", CASE_MASK_KEYS},
                 {"random", CASE_MASK_RANDOM}};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        add_masked(masks[i].name, masks[i].mask, 17, 40, CASE_NORMAL);
        add_masked(masks[i].name, masks[i].mask, 20, 9, CASE_NORMAL);
    }
    /* A last tile that is half full, and weights that vanish in FP32 next to a maximum of 0. */
    add_masked("low_last_keys", CASE_MASK_KEYS, 6, 192, CASE_LOW);
    add_masked("low_random", CASE_MASK_RANDOM, 6, 64, CASE_LOW);
    add_blind_window("window_past_the_end", 30, 10, 3, 3, FC_TOP_LEFT);
    add_blind_window("window_before_the_start", 30, 10, 3, 3, FC_BOTTOM_RIGHT);
    add_blind_window("window_of_one", 25, 25, 0, 0, FC_BOTTOM_RIGHT);
    add_blind_window("window_wider_than_all", 12, 31, 1000, 1000, FC_BOTTOM_RIGHT);
    add_blind_window("window_of_one_top_left", 12, 31, 0, 0, FC_TOP_LEFT);
}

/* ---- Calls and batches ---- */

static void add_ragged(const char *name, bool packed_q, bool paged, fc_type type, bool invariant)
{
    case_draft d = draft_make("ragged", 4, 2, 23, 77, 64);
    fc_attention *p = &d.c.problem;
    p->q_heads = 4;
    p->q_type = type;
    p->packed_q = packed_q;
    p->paged = paged;
    p->page_size = paged ? 8 : 0;
    p->packed_kv = !paged;
    p->has_kv_lengths = paged;
    p->causal = 1;
    p->batch_invariant = invariant;
    d.c.backward = true;
    draft_name(&d, "ragged-%s", name);
    if (invariant)
        draft_name(&d, "invariant");
    draft_name(&d, "%s", fc_type_name(type));
    case_add(&d);
}

/* Rows of packed tensors that belong to no sequence: some, or with q_length = 0 all of the
 * queries'. */
static void add_unused_rows(const char *name, int64_t q_length, bool invariant)
{
    case_draft d = draft_make("ragged", 3, 2, q_length, 30, 64);
    d.c.problem.packed_q = d.c.problem.packed_kv = 1;
    d.c.problem.batch_invariant = invariant;
    d.unused_rows = 4;
    d.c.backward = true;
    draft_name(&d, "ragged-packed-%s", name);
    case_add(&d);
}

static void add_all_ragged(void)
{
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16, FC_F8_E5M2};
    for (size_t type = 0; type < 4; type++)
        for (int invariant = 0; invariant < 2; invariant++) {
            add_ragged("packed", true, false, types[type], invariant);
            add_ragged("paged", false, true, types[type], invariant);
            add_ragged("packed_paged", true, true, types[type], invariant);
        }
    add_unused_rows("unused_rows", 12, false);
    add_unused_rows("unused_rows-of_no_sequence", 0, true);
}

static void add_decode(int64_t kv_length, int64_t page_size, fc_type type)
{
    case_draft d = draft_make("decode", 3, 2, 1, kv_length, 128);
    d.c.problem.q_heads = 8;
    d.c.problem.q_type = type;
    d.c.problem.paged = 1;
    d.c.problem.page_size = page_size;
    d.c.problem.has_kv_lengths = 1;
    d.c.problem.batch_invariant = kv_length % 2 != 0;
    d.c.without_lse = page_size == 1;
    draft_name(&d, "kv%d-page%d-%s", (int)kv_length, (int)page_size, fc_type_name(type));
    case_add(&d);
}

static void add_all_decode(void)
{
    static const int64_t lengths[] = {1, 64, 129, 300};
    static const int64_t pages[] = {1, 16, 64};
    static const fc_type types[] = {FC_F16, FC_BF16};
    for (size_t i = 0; i < 4; i++)
        for (size_t page = 0; page < 3; page++)
            for (size_t type = 0; type < 2; type++)
                add_decode(lengths[i], pages[page], types[type]);
}

/* A kernel that starts while the one before it ends: each runs behind itself. */
static void add_dependent(int64_t sequences, int64_t q_length, int64_t kv_length, int64_t head_dim,
                          bool ragged)
{
    case_draft d = draft_make("dependent", sequences, sequences, q_length, kv_length, head_dim);
    fc_attention *p = &d.c.problem;
    p->dependent_launch = 1;
    p->q_type = head_dim > 64 ? FC_BF16 : FC_F16;
    p->causal = p->packed_q = p->packed_kv = ragged;
    draft_name(&d, "dependent-q%d-kv%d-d%d", (int)q_length, (int)kv_length, (int)head_dim);
    if (ragged)
        draft_name(&d, "packed");
    case_add(&d);
}

static void add_all_dependent(void)
{
    add_dependent(2, 100, 257, 64, false);
    add_dependent(2, 100, 257, 64, true);
    add_dependent(2, 70, 130, 128, false);
    add_dependent(2, 1, 300, 128, false);
    add_dependent(1, 64, 300, 64, false);
}

void case_add_kinds(void)
{
    add_all_values();
    add_all_masked();
    add_all_ragged();
    add_all_decode();
    add_all_dependent();
}
