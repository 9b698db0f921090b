/* case_random.c: cases that nobody thought of. Everything about one follows from its number. */
#include "case_draft.h"
#include "values.h"

#include <inttypes.h>

/* Products of Q·Kᵀ and P·V of a case at most, so that the reference takes milliseconds and the
 * emulator seconds. */
enum { MOST_PRODUCTS = 1 << 23 };

/* 1. Drawing. */

typedef struct dice {
    uint64_t number, rolls;
} dice;

static int64_t between(dice *d, int64_t least, int64_t most)
{
    return least + (int64_t)(lab_hash(d->number, d->rolls++) % (uint64_t)(most - least + 1));
}

static bool one_in(dice *d, int64_t n)
{
    return between(d, 1, n) == 1;
}

#define DRAW(d, choices) \
    ((choices)[between(d, 0, (int64_t)(sizeof(choices) / sizeof *(choices)) - 1)])

/* None; few; any; or about as many as are whole tiles of some kernel. */
static int64_t draw_length(dice *d)
{
    static const int64_t tiles[] = {16, 32, 64, 128};
    if (one_in(d, 40))
        return 0;
    if (one_in(d, 4))
        return between(d, 1, 16);
    if (one_in(d, 3))
        return between(d, 1, 600);
    const int64_t tile = DRAW(d, tiles);
    return tile * between(d, 1, 512 / tile) + between(d, -1, 1);
}

static int64_t draw_dim(dice *d)
{
    static const int64_t usual[] = {64, 64, 128};
    if (one_in(d, 2))
        return DRAW(d, usual);
    return one_in(d, 4) ? between(d, 1, 576) : 8 * between(d, 1, 32);
}

/* 2. What a case has. */

/* No feature, because fast kernels have variants of their own for plain problems; one or two; or of
 * every fourth axis one of its features. Sizes are drawn for themselves. */
static void draw_features(dice *d, case_draft *draft)
{
    static const int64_t one_axis_in[] = {1000, 12, 4};
    const int64_t rarity = DRAW(d, one_axis_in);
    size_t count;
    for (size_t first = 0; first < case_feature_count; first += count) {
        const char *axis = case_features[first].axis;
        for (count = 1; first + count < case_feature_count; count++)
            if (strcmp(case_features[first + count].axis, axis) != 0)
                break;
        if (strcmp(axis, "shape") == 0 || strcmp(axis, "dims") == 0 || !one_in(d, rarity))
            continue;
        const case_feature *feature =
            &case_features[first + (size_t)between(d, 0, (int64_t)count - 1)];
        feature->apply(draft);
        draft_name(draft, "%s", feature->name);
    }
}

static int64_t products(const fc_attention *p)
{
    return p->batch * p->q_heads * p->q_length * p->kv_length *
           (p->head_dim + (p->value_dim ? p->value_dim : p->head_dim));
}

/* Sequences go first, then heads, then rows. */
static void bound_work(fc_attention *p)
{
    while (products(p) > MOST_PRODUCTS)
        if (p->batch > 1)
            p->batch--;
        else if (p->q_heads > p->kv_heads)
            p->q_heads = p->kv_heads;
        else if (p->q_heads > 1)
            p->q_heads = p->kv_heads = 1;
        else if (p->q_length > p->kv_length)
            p->q_length /= 2;
        else
            p->kv_length /= 2;
}

static void draw_sizes(dice *d, fc_case *c)
{
    static const int64_t groups[] = {1, 1, 1, 2, 3, 4, 8, 16};
    fc_attention *p = &c->problem;
    p->batch = one_in(d, 2) ? 1 : between(d, 2, 5);
    p->kv_heads = one_in(d, 2) ? 1 : between(d, 2, 3);
    p->q_heads = p->kv_heads * DRAW(d, groups);
    p->head_dim = draw_dim(d);
    p->value_dim = one_in(d, 4) ? draw_dim(d) : 0;
    p->kv_length = draw_length(d);
    p->q_length = one_in(d, 3) ? p->kv_length : draw_length(d);
    bound_work(p);
    if (c->layout == CASE_QKV)
        p->q_length = p->kv_length;
}

/* Where the problem lets them differ; one of three sequences is as long as can be. */
static void draw_lengths(dice *d, case_draft *draft)
{
    fc_case *c = &draft->c;
    draft->has_lengths = true;
    for (int i = 0; i < CASE_LENGTHS; i++) {
        c->q_lengths[i] = one_in(d, 3) ? c->problem.q_length : between(d, 0, c->problem.q_length);
        c->kv_lengths[i] =
            one_in(d, 3) ? c->problem.kv_length : between(d, 0, c->problem.kv_length);
    }
    draft->unused_rows = one_in(d, 3) ? between(d, 1, 70) : 0;
}

/* Numbers that the features have one of. */
static void draw_numbers(dice *d, case_draft *draft)
{
    static const int64_t page_sizes[] = {1, 7, 16, 64, 64, 128, 256};
    fc_attention *p = &draft->c.problem;
    const int64_t far = p->kv_length + p->q_length;
    if (p->has_window) {
        p->window_left = between(d, -1, far);
        p->window_right = p->causal ? between(d, -1, 0) : between(d, -1, far);
    }
    if (p->scale != 0)
        p->scale = (float)between(d, 1, 20) * (one_in(d, 4) ? -0.05f : 0.05f);
    if (p->softcap > 0)
        p->softcap = (float)between(d, 1, 100) * 0.5f;
    if (p->dropout_p > 0)
        p->dropout_p = (float)between(d, 1, 9) * 0.1f;
    if (p->paged)
        p->page_size = DRAW(d, page_sizes);
    if (draft->scale_block_rows > 0)
        draft->scale_block_rows = between(d, 1, 150);
    if (p->has_mask && one_in(d, 2))
        draft->c.mask = (case_mask)between(d, CASE_MASK_RANDOM, CASE_MASK_KEYS);
    p->dependent_launch = one_in(d, 8);
}

/* Those that are made of particular scores want the default scale. An infinite value wants weights
 * that do not vanish in FP16, which ALiBi's may: 0 times infinity is NaN. */
static void draw_values(dice *d, fc_case *c)
{
    static const case_values strange[] = {CASE_HUGE,      CASE_LOW,      CASE_HIGH,
                                          CASE_RISING,    CASE_ONE_HOT,  CASE_NAN_KEY,
                                          CASE_NAN_VALUE, CASE_INF_VALUE};
    const bool holds_infinity = c->problem.q_type != FC_F8_E4M3 && c->problem.kv_type != FC_F8_E4M3;
    if (one_in(d, 4) && holds_infinity && c->problem.scale == 0)
        c->values = DRAW(d, strange);
    if (c->values == CASE_INF_VALUE && c->problem.has_alibi)
        c->values = CASE_NAN_VALUE;
    /* Of few elements an unfused gradient may be right by luck. */
    c->backward = one_in(d, 3) && c->values == CASE_NORMAL && c->problem.q_length >= 16 &&
                  c->problem.kv_length >= 16;
    c->without_lse = !c->backward && one_in(d, 4); /* the backward direction reads it */
    c->seed = d->number;
}

static case_draft draw(uint64_t number, uint64_t attempt)
{
    dice d = {.number = lab_hash(number, attempt)};
    case_draft draft = draft_make("random", 1, 1, 1, 1, 64);
    fc_attention *p = &draft.c.problem;
    draft_name(&draft, CASE_RANDOM "%" PRIu64, number);
    draw_features(&d, &draft);
    if (p->q_type == FC_F16 && one_in(&d, 3)) {
        p->q_type = FC_BF16;
        draft_name(&draft, "bf16");
    }
    draw_sizes(&d, &draft.c);
    draft_name(&draft, "q%d-kv%d-d%d", (int)p->q_length, (int)p->kv_length, (int)p->head_dim);
    draw_lengths(&d, &draft);
    draw_numbers(&d, &draft);
    draw_values(&d, &draft.c);
    draft_finish(&draft);
    return draft;
}

/* Contradictory ones are drawn again. */
void case_random(uint64_t number, fc_case *out)
{
    case_draft draft = draw(number, 0);
    for (uint64_t attempt = 1; case_is_contradictory(&draft.c.problem); attempt++)
        draft = draw(number, attempt);
    *out = draft.c;
}
