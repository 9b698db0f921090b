/* cases.c: the list. Most cases are tiny, so that the slow reference walks through it in minutes;
 * head_dim is 64 where nothing else is wanted, because that is what fast kernels serve first. */
#include "cases.h"

#include "case_draft.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    fc_case *cases;
    size_t count, room;
    size_t contradictions;
    fc_context *context; /* whom to ask what is contradictory */
} list;

static void give_up(const char *why)
{
    fprintf(stderr, "the list of cases can't be made: %s\n", why);
    exit(EXIT_FAILURE);
}

static void append(const fc_case *c)
{
    if (list.count == list.room) {
        list.room = list.room ? 2 * list.room : 1024;
        list.cases = realloc(list.cases, list.room * sizeof *list.cases);
        if (!list.cases)
            give_up("out of memory");
    }
    list.cases[list.count++] = *c;
}

void case_add(case_draft *draft)
{
    draft_finish(draft);
    append(&draft->c);
}

static void add_features_alone(void)
{
    for (size_t i = 0; i < case_feature_count; i++)
        for (int without_lse = 0; without_lse < 2; without_lse++) {
            case_draft d = draft_make("features", 2, 2, 18, 70, 64);
            case_features[i].apply(&d);
            d.c.backward = !without_lse;
            d.c.without_lse = without_lse;
            d.c.seed = 2 + (uint64_t)without_lse;
            draft_name(&d, "%s", case_features[i].name);
            if (without_lse)
                draft_name(&d, "without_lse");
            case_add(&d);
        }
}

/* Keys that can be shifted without rounding, beside everything that a shift must not disturb. */
static void add_features_with_coarse_keys(void)
{
    for (size_t i = 0; i < case_feature_count; i++) {
        case_draft d = draft_make("shifted", 2, 2, 18, 70, 64);
        case_features[i].apply(&d);
        d.c.values = CASE_COARSE;
        d.c.seed = 4;
        draft_name(&d, "coarse_keys-%s", case_features[i].name);
        case_add(&d);
    }
}

static const case_feature *find_feature(const char *name)
{
    for (size_t i = 0; i < case_feature_count; i++)
        if (strcmp(case_features[i].name, name) == 0)
            return &case_features[i];
    give_up(name);
    return NULL;
}

/* More keys than a tile of any kernel holds, in all dims that they have; pages of the size that
 * fast kernels take. */
static void add_features_in_tiles(void)
{
    static const char *const names[] = {"causal", "softcap",   "alibi",      "bias",
                                        "mask",   "dropout",   "kv_lengths", "paged",
                                        "gqa3",   "packed_kv", "out_f32",    "smaller_values"};
    static const int64_t dims[] = {64, 128, 192, 256};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t j = 0; j < 4; j++) {
            case_draft d = draft_make("tiles", 1, 1, 20, 210, dims[j]);
            d.c.problem.q_type = (i + j) % 2 ? FC_F16 : FC_BF16;
            find_feature(names[i])->apply(&d);
            if (d.c.problem.paged)
                d.c.problem.page_size = 64;
            draft_name(&d, "%s-q20-kv210-d%d", names[i], (int)dims[j]);
            case_add(&d);
        }
}

static void add_rows_of_heads(const char *feature, int64_t batch, int64_t heads, int64_t q_length,
                              int64_t kv_length, int64_t head_dim)
{
    case_draft d = draft_make("rows", batch, heads, q_length, kv_length, head_dim);
    find_feature(feature)->apply(&d);
    draft_name(&d, "%s-b%d", feature, (int)batch);
    if (heads > 1)
        draft_name(&d, "h%d", (int)heads);
    draft_name(&d, "q%d-kv%d", (int)q_length, (int)kv_length);
    case_add(&d);
}

static void add_rows(const char *feature, int64_t batch, int64_t q_length, int64_t kv_length,
                     int64_t head_dim)
{
    add_rows_of_heads(feature, batch, 1, q_length, kv_length, head_dim);
}

/* More query rows than a tile of 128 holds, of as many sequences as make a kernel take larger ones:
 * on the emulator's few multiprocessors, or on a GPU's many. */
static void add_rows_in_tiles(void)
{
    static const char *const names[] = {"sinks",       "causal",          "window",
                                        "window_left", "packed_q",        "packed_kv",
                                        "kv_lengths",  "batch_invariant", "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_rows(names[i], 2, 250, 260, 64);
    add_rows("sinks", 5, 250, 100, 64);
    add_rows("causal_top_left", 5, 250, 100, 64);
    add_rows("sinks", 67, 140, 70, 16);
    add_rows("causal", 67, 140, 140, 16);
    add_rows("smaller_values", 67, 140, 128, 16);
    add_rows("causal", 265, 20, 20, 16); /* more than a GPU holds at once */
}

/* Whole tiles of keys, more than are under way at once; a tile of rows for each multiprocessor. */
static void add_one_round(void)
{
    add_rows("smaller_values", 3, 250, 512, 64);
    add_rows("bf16", 3, 250, 512, 64);
    add_rows("smaller_values", 3, 120, 384, 128);
    add_rows("bf16", 3, 120, 384, 128);
}

/* Short sequences, as many as make a kernel put four blocks on a multiprocessor: on the emulator's
 * few, or on a GPU's many. */
static void add_short_sequences(void)
{
    add_rows("smaller_values", 4, 120, 128, 64);
    add_rows("bf16", 4, 128, 90, 64);
    add_rows("smaller_values", 4, 128, 200, 64);
    add_rows("causal", 4, 128, 128, 64);
    add_rows("causal_top_left", 4, 128, 200, 64);
    add_rows("smaller_values", 134, 70, 100, 16);
    add_rows("bf16", 134, 70, 128, 16);
    add_rows("causal", 134, 70, 128, 16);
}

/* One tile of up to 256 keys, for 64 rows a block or for 128, and up to 512 that two blocks of 128
 * rows share; two heads a block. Of the emulator's multiprocessors, or of a GPU's. Some rows are
 * not there, of 128 the first 64 see few keys, or of two blocks' one half alone. */
static void add_one_tile(void)
{
    static const char *const limits[] = {"smaller_values", "causal", "causal_top_left"};
    static const int64_t shapes[][3] = {{3, 64, 256},  {3, 40, 200}, {3, 120, 256},
                                        {3, 128, 130}, {3, 70, 200}, {1, 120, 512},
                                        {1, 128, 400}, {1, 70, 460}, {1, 128, 385}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 3; i++) {
        const int64_t *shape = shapes[i / 3];
        add_rows(limits[i % 3], shape[0], shape[1], shape[2], 64);
    }
    add_rows("bf16", 3, 128, 256, 64);
    add_rows("bf16", 1, 128, 512, 64);
    case_draft part = draft_make("rows", 1, 1, 128, 400, 64);
    part.c.problem.has_window = 1;
    part.c.problem.window_left = -1;
    part.c.problem.window_right = 150;
    part.c.problem.diagonal = FC_TOP_LEFT;
    draft_name(&part, "window_right-b1-q128-kv400");
    case_add(&part);
    add_rows("smaller_values", 70, 60, 256, 16);
    add_rows("causal", 70, 60, 200, 16);
    add_rows("smaller_values", 100, 70, 256, 16);
    add_rows("bf16", 100, 70, 200, 16);
    add_rows("causal", 100, 70, 150, 16);
    add_rows("smaller_values", 40, 70, 512, 16);
    add_rows("causal", 40, 70, 400, 16);
    add_rows_of_heads("smaller_values", 3, 2, 120, 128, 64);
    add_rows_of_heads("bf16", 3, 4, 64, 128, 64);
    add_rows_of_heads("gqa3", 1, 2, 70, 128, 64);
    add_rows_of_heads("smaller_values", 51, 4, 70, 128, 16);
}

static void add_far(const char *name, case_values values, int64_t batch, int64_t q_length,
                    int64_t kv_length, int64_t head_dim, bool causal)
{
    case_draft d = draft_make("rows", batch, 1, q_length, kv_length, head_dim);
    d.c.values = values;
    draft_name(&d, "%s", name);
    if (causal) {
        find_feature("causal")->apply(&d);
        draft_name(&d, "causal");
    }
    draft_name(&d, "b%d-q%d-kv%d", (int)batch, (int)q_length, (int)kv_length);
    case_add(&d);
}

/* Scores far from 0, where a kernel might take them as they are: in short sequences as above, and
 * in tiles of 64 rows of which each multiprocessor has one, of the emulator's few or of a GPU's
 * many. */
static void add_far_scores(void)
{
    static const struct {
        const char *name;
        case_values values;
    } kinds[] = {{"huge_logits", CASE_HUGE},
                 {"low_logits", CASE_LOW},
                 {"high_logits", CASE_HIGH},
                 {"rising_logits", CASE_RISING},
                 {"nan_key", CASE_NAN_KEY}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        add_far(kinds[i].name, kinds[i].values, 4, 120, 128, 64, false);
        add_far(kinds[i].name, kinds[i].values, 3, 64, 128, 64, false);
        add_far(kinds[i].name, kinds[i].values, 3, 64, 66, 64, true);
        add_far(kinds[i].name, kinds[i].values, 3, 64, 256, 64, false);
        add_far(kinds[i].name, kinds[i].values, 3, 120, 256, 64, false);
        add_far(kinds[i].name, kinds[i].values, 3, 120, 130, 64, true);
    }
    add_far("low_logits", CASE_LOW, 67, 64, 128, 16, false);
    add_far("high_logits", CASE_HIGH, 67, 64, 66, 16, true);
}

/* Keys that two blocks share, on whatever GPU: with batch_invariant that is not up to how busy it
 * is. Some end in the middle of a block's part; of 130 the first rows of a causal tile see few, the
 * last ones more than a piece of 64. */
static void add_shared_keys(void)
{
    static const int64_t lengths[][2] = {{70, 66},   {100, 130}, {64, 200}, {130, 256},
                                         {100, 300}, {100, 460}, {64, 512}, {64, 700}};
    static const char *const limits[] = {NULL, "causal", "causal_top_left"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] * 3; i++) {
        const int64_t *length = lengths[i / 3];
        case_draft d = draft_make("rows", 1, 2, length[0], length[1], 64);
        find_feature("batch_invariant")->apply(&d);
        draft_name(&d, "batch_invariant");
        if (limits[i % 3]) {
            find_feature(limits[i % 3])->apply(&d);
            draft_name(&d, "%s", limits[i % 3]);
        }
        draft_name(&d, "q%d-kv%d", (int)length[0], (int)length[1]);
        case_add(&d);
    }
}

/* The same, of which the first rows see few: rounding a result of row 8 to f16 takes nearly all the
 * error that is allowed. */
static void add_few_shared_keys(int length)
{
    case_draft d = draft_make("rows", 1, 4, length, length, 64);
    find_feature("batch_invariant")->apply(&d);
    find_feature("causal")->apply(&d);
    d.c.seed = 18;
    draft_name(&d, "batch_invariant-causal-h4-q%d-kv%d", length, length);
    case_add(&d);
}

/* Blocks of 80 rows on a GPU of three multiprocessors, which the emulated one has: smaller ones
 * would need more than two rounds. */
static void add_tall_blocks(void)
{
    add_rows("smaller_values", 1, 230, 512, 64);
    add_rows("bf16", 1, 240, 512, 64);
    add_rows("smaller_values", 1, 230, 500, 64);
    add_rows("causal", 1, 230, 400, 64);
    add_rows("window", 1, 200, 512, 64);
    add_rows("bf16", 1, 239, 385, 64);
}

static void add_large(const char *feature, int64_t batch, int64_t q_length, int64_t kv_length)
{
    case_draft d = draft_make("large_dims", batch, 1, q_length, kv_length, 256);
    find_feature(feature)->apply(&d);
    draft_name(&d, "%s-b%d-q%d-kv%d-d256", feature, (int)batch, (int)q_length, (int)kv_length);
    case_add(&d);
}

/* The key in the middle is hidden from most rows. */
static void add_strange_key(const char *name, case_values values, fc_type type, int64_t q_length,
                            int64_t window_left)
{
    case_draft d = draft_make("large_dims", 1, 1, q_length, 1030, 256);
    d.c.problem.q_type = type;
    d.c.problem.has_window = 1;
    d.c.problem.window_left = window_left;
    d.c.problem.window_right = 0;
    d.c.values = values;
    draft_name(&d, "%s-window%d-q%d-kv1030-d256", name, (int)window_left, (int)q_length);
    case_add(&d);
}

/* So many rows and keys of 256 dims that sm80_prefill takes larger blocks where there is room. */
static void add_large_dims(void)
{
    static const char *const names[] = {"bf16", "sinks", "packed_q", "packed_kv", "kv_lengths"};
    static const char *const limits[] = {"causal", "causal_top_left", "window", "window_left"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_large(names[i], 2, 120, 330);
    add_large("smaller_values", 1, 250, 320);
    add_large("bf16", 1, 250, 320);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        add_large(limits[i], 1, 120, 1030);
    add_strange_key("nan_value", CASE_NAN_VALUE, FC_F16, 120, 430);
    add_strange_key("inf_value", CASE_INF_VALUE, FC_BF16, 510, 30);
}

static void open_context(void)
{
    fc_context_options options = fc_context_options_init();
    options.kernel = "reference,reference_backward"; /* whatever the environment forces */
    if (fc_context_create(&options, &list.context) != FC_OK)
        give_up(fc_last_error());
}

bool case_is_contradictory(const fc_attention *problem)
{
    fc_plan *plan = NULL;
    if (!list.context)
        open_context();
    const fc_status status = fc_plan_create(list.context, problem, &plan);
    fc_plan_destroy(plan);
    return status == FC_ERROR_INVALID;
}

static void add_pair(size_t i, size_t j)
{
    case_draft d = draft_make("pairs", 2, 2, 11, 45, (i + j) % 2 ? 64 : 32);
    case_features[i].apply(&d);
    case_features[j].apply(&d);
    d.c.seed = 1000 + i * case_feature_count + j;
    d.c.backward = (i + j) % 3 == 0;
    draft_name(&d, "%s", case_features[i].name);
    draft_name(&d, "%s", case_features[j].name);
    draft_finish(&d);
    if (case_is_contradictory(&d.c.problem))
        list.contradictions++;
    else
        append(&d.c);
}

static void add_pairs(void)
{
    for (size_t i = 0; i < case_feature_count; i++)
        for (size_t j = i + 1; j < case_feature_count; j++)
            if (strcmp(case_features[i].axis, case_features[j].axis) != 0)
                add_pair(i, j);
}

static void make_list(void)
{
    case_add_shapes();
    case_add_kinds();
    add_features_alone();
    add_features_with_coarse_keys();
    add_pairs();
    add_features_in_tiles();
    add_rows_in_tiles();
    add_one_round();
    add_short_sequences();
    add_one_tile();
    add_far_scores();
    add_shared_keys();
    add_few_shared_keys(70);
    add_few_shared_keys(170);
    add_few_shared_keys(330);
    add_tall_blocks();
    add_large_dims();
}

size_t case_count(void)
{
    if (!list.count)
        make_list();
    return list.count;
}

void case_get(size_t index, fc_case *out)
{
    if (index < case_count())
        *out = list.cases[index];
}

size_t case_contradictions(void)
{
    case_count();
    return list.contradictions;
}

void case_from_problem(const fc_attention *problem, fc_case *out)
{
    *out = (fc_case){.group = "problem", .problem = *problem, .seed = 1, .with_scales = true};
    snprintf(out->name, sizeof out->name, "problem");
    for (int i = 0; i < CASE_LENGTHS; i++) {
        out->q_lengths[i] = problem->q_length;
        out->kv_lengths[i] = problem->kv_length;
    }
}
