/* score.h: one query row against one block of keys: from q·k to softmax weights. Keys are counted
 * from the first one of the block; a span that vectors walk begins and ends at a multiple of
 * SCORE_STEP, two vectors, which share the latency of the exponential's long chain. */
#ifndef FC_CPU_SCORE_H
#define FC_CPU_SCORE_H

#include "core/random.h"
#include "cpu/load.h"
#include "cpu/vec_math.h"

#define LOG2_E 1.44269504088896340736
#define LN_2 0.69314718055994530942

enum { SCORE_STEP = 2 * VEC_LANES };

typedef struct key_span {
    int64_t first, end;
} key_span;

/* A query row on its way. The weights of its keys are 2^(score · log2 e - top); top is the largest
 * exponent so far, less what the largest weight's own shall be (lift), sum that of all weights. */
typedef struct query_row {
    int64_t head;
    int64_t row; /* within the sequence */
    int64_t position;
    int64_t first_key, end_key;
    float top;
    float sum;
} query_row;

typedef struct score_rules {
    const fc_attention *problem;
    const fc_buffers *buffers;
    bool adjusts;         /* more than a positive scale stands between q·k and the score */
    float exponent_scale; /* from what adjust_scores leaves to the exponent of 2 */
    uint64_t keep_from;   /* dropout: smallest random number that keeps a weight */
    float kept_factor;
} score_rules;

static inline score_rules score_rules_of(const fc_attention *p, const fc_buffers *b)
{
    const bool adjusts =
        p->softcap > 0 || p->has_alibi || p->has_bias || p->has_mask || p->scale < 0;
    return (score_rules){.problem = p,
                         .buffers = b,
                         .adjusts = adjusts,
                         .exponent_scale = (float)(LOG2_E * (adjusts ? 1 : (double)p->scale)),
                         .keep_from = (uint64_t)ceil((double)p->dropout_p * 4294967296.0),
                         .kept_factor = (float)(1 / (1 - (double)p->dropout_p))};
}

static inline query_row query_row_at(const fc_attention *p, const fc_sequence *s, int64_t head,
                                     int64_t row)
{
    const int64_t position = fc_position(p, s, row);
    return (query_row){.head = head,
                       .row = row,
                       .position = position,
                       .first_key = fc_first_key(p, position),
                       .end_key = fc_end_key(p, s, position),
                       .top = -INFINITY};
}

/* The keys that any of these rows may see. */
static inline key_span keys_of_rows(const query_row *rows, int64_t count)
{
    key_span span = {.first = INT64_MAX, .end = 0};
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].first_key >= rows[i].end_key)
            continue;
        span.first = rows[i].first_key < span.first ? rows[i].first_key : span.first;
        span.end = rows[i].end_key > span.end ? rows[i].end_key : span.end;
    }
    return span;
}

static inline key_span span_in_block(int64_t first_key, int64_t end_key, int64_t block,
                                     int64_t block_keys)
{
    const int64_t first = first_key - block, end = end_key - block;
    return (key_span){.first = first > 0 ? first : 0, .end = end < block_keys ? end : block_keys};
}

static inline void scale_scores(const fc_attention *p, key_span span, float *scores)
{
    const vec scale = vec_set(p->scale), cap = vec_set(p->softcap);
    for (int64_t j = span.first; j < span.end; j += VEC_LANES) {
        vec score = vec_mul(vec_load(scores + j), scale);
        if (p->softcap > 0)
            score = vec_mul(cap, vec_tanh(vec_div(score, cap)));
        vec_store(scores + j, score);
    }
}

static inline void add_alibi(const score_rules *rules, const fc_sequence *s, const query_row *row,
                             int64_t block, key_span span, float *scores)
{
    const int64_t stride = rules->problem->alibi_batch_stride;
    const vec slope = vec_set(-rules->buffers->alibi[s->batch * stride + row->head]);
    float lanes[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        lanes[i] = (float)i;
    for (int64_t j = span.first; j < span.end; j += VEC_LANES) {
        const vec ahead = vec_set((float)(row->position - block - j));
        const vec distance = vec_abs(vec_sub(ahead, vec_load(lanes)));
        vec_store(scores + j, vec_fma(slope, distance, vec_load(scores + j)));
    }
}

static inline int64_t broadcast_index(const fc_sequence *s, const query_row *row,
                                      const fc_broadcast *strides, int64_t key)
{
    return s->batch * strides->batch + row->head * strides->head + row->row * strides->row +
           key * strides->key;
}

/* A bias of -inf hides the key, also where its score is NaN. */
static inline void add_bias(const score_rules *rules, const fc_sequence *s, const query_row *row,
                            int64_t block, key_span mine, float *scores)
{
    const fc_broadcast *strides = &rules->problem->bias_strides;
    const vec hidden = vec_set(-INFINITY);
    float bias[VEC_LANES];
    for (int64_t j = mine.first; j < mine.end; j += VEC_LANES) {
        const int64_t count = mine.end - j < VEC_LANES ? mine.end - j : VEC_LANES;
        load_floats(rules->problem->bias_type, rules->buffers->bias,
                    broadcast_index(s, row, strides, block + j), strides->key, count, 1, bias);
        for (int64_t i = count; i < VEC_LANES; i++)
            bias[i] = 0;
        const vec add = vec_load(bias);
        const vec sum = vec_add(vec_load(scores + j), add);
        vec_store(scores + j, vec_where_equal(add, hidden, hidden, sum));
    }
}

static inline void hide_masked(const score_rules *rules, const fc_sequence *s, const query_row *row,
                               int64_t block, key_span mine, float *scores)
{
    const fc_broadcast *strides = &rules->problem->mask_strides;
    const uint8_t *mask = rules->buffers->mask + broadcast_index(s, row, strides, block);
    for (int64_t j = mine.first; j < mine.end; j++)
        if (!mask[j * strides->key])
            scores[j] = -INFINITY;
}

/* From q·k to the score, -inf for every key of `span` that the row does not see. span is whole
 * vectors, mine what causal and window limits leave of it. */
static void adjust_scores(const score_rules *rules, const fc_sequence *s, const query_row *row,
                          int64_t block, key_span span, key_span mine, float *scores)
{
    const fc_attention *p = rules->problem;
    if (rules->adjusts) {
        scale_scores(p, span, scores);
        if (p->has_alibi)
            add_alibi(rules, s, row, block, span, scores);
        if (p->has_bias)
            add_bias(rules, s, row, block, mine, scores);
        if (p->has_mask)
            hide_masked(rules, s, row, block, mine, scores);
    }
    const int64_t first = mine.first < span.end ? mine.first : span.end;
    for (int64_t j = span.first; j < first; j++)
        scores[j] = -INFINITY;
    for (int64_t j = mine.end > first ? mine.end : first; j < span.end; j++)
        scores[j] = -INFINITY;
}

/* What dropout leaves of each weight in the span. A block's first key is a multiple of four. */
static void dropout_factors(const score_rules *rules, const fc_sequence *s, const query_row *row,
                            int64_t block, key_span span, float *factors)
{
    const fc_buffers *b = rules->buffers;
    const uint32_t key0 = (uint32_t)b->dropout_seed;
    const uint32_t key1 = (uint32_t)(b->dropout_seed >> 32) ^ (uint32_t)(b->dropout_offset >> 32);
    const int64_t plane = s->batch * rules->problem->q_heads + row->head;
    for (int64_t j = span.first / 4 * 4; j < span.end; j += 4) {
        const fc_philox_block counter = {{(uint32_t)((block + j) / 4), (uint32_t)row->row,
                                          (uint32_t)plane, (uint32_t)b->dropout_offset}};
        const fc_philox_block random = fc_philox(counter, key0, key1);
        for (int i = 0; i < 4; i++)
            factors[j + i] = random.word[i] >= rules->keep_from ? rules->kept_factor : 0;
    }
}

/* Takes the span's scores into the row's top and returns by what its older sums shrink. */
static inline float raise_top(query_row *row, key_span span, float scale, float lift,
                              const float *scores)
{
    vec high[2] = {vec_set(-INFINITY), vec_set(-INFINITY)};
    for (int64_t j = span.first; j < span.end; j += SCORE_STEP) {
        high[0] = vec_max(high[0], vec_load(scores + j));
        high[1] = vec_max(high[1], vec_load(scores + j + VEC_LANES));
    }
    const float old = row->top, highest = vec_highest(vec_max(high[0], high[1])) * scale - lift;
    if (!(highest > old))
        return 1;
    const float shrink = exp2f(old - highest);
    row->top = highest;
    row->sum *= shrink;
    return shrink;
}

/* Scores to weights, which may take the scores' place; factors are NULL or multiply the weights,
 * but not their sum. Returns by what the row's older sums of values shrink. */
static inline float weigh_scores(query_row *row, key_span span, float scale, float lift,
                                 const float *factors, const float *scores, float *weights)
{
    const float shrink = raise_top(row, span, scale, lift, scores);
    const vec scales = vec_set(scale);
    const vec base = vec_set(row->top == -INFINITY ? 0 : -row->top);
    vec sum[2] = {vec_zero(), vec_zero()};
    for (int64_t j = span.first; j < span.end; j += SCORE_STEP) {
        FC_UNROLL
        for (int64_t i = 0; i < 2; i++) {
            const int64_t at = j + i * VEC_LANES;
            vec weight = vec_exp2(vec_fma(vec_load(scores + at), scales, base));
            sum[i] = vec_add(sum[i], weight);
            if (factors)
                weight = vec_mul(weight, vec_load(factors + at));
            vec_store(weights + at, weight);
        }
    }
    row->sum += vec_sum(vec_add(sum[0], sum[1]));
    return shrink;
}

typedef struct row_result {
    double lse;
    double factor; /* of the sums of weighted values */
} row_result;

/* The sink is one more key, without a value. */
static inline row_result finish_row(const score_rules *rules, const query_row *row)
{
    const double none = -(double)INFINITY, sum = (double)row->sum;
    const double factor = sum == 0 ? 0 : 1 / sum;
    if (!rules->problem->has_sinks && !rules->buffers->lse)
        return (row_result){.factor = factor};
    const double keys = sum == 0 ? none : ((double)row->top + log2(sum)) * LN_2;
    if (!rules->problem->has_sinks)
        return (row_result){.lse = keys, .factor = factor};
    const double sink = (double)rules->buffers->sinks[row->head];
    const double high = keys > sink ? keys : sink;
    if (high == none && keys == none)
        return (row_result){.lse = none};
    const double lse = high + log(exp(keys - high) + exp(sink - high));
    return (row_result){.lse = lse, .factor = exp(keys - lse) * factor};
}

static inline void store_row(const score_rules *rules, const fc_sequence *s, const query_row *row,
                             const float *values)
{
    const fc_attention *p = rules->problem;
    const fc_buffers *b = rules->buffers;
    const row_result result = finish_row(rules, row);
    store_floats(p->out_type, b->out, fc_q_index(p, &p->out_strides, s, row->head, row->row),
                 p->out_strides.dim, p->value_dim, (float)result.factor, values);
    if (b->lse)
        b->lse[fc_q_index(p, &p->lse_strides, s, row->head, row->row)] = (float)result.lse;
}

#endif
