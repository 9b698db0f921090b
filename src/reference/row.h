/* row.h: one query row of one head, and the score of a key for it, as flashcore.h writes them. */
#ifndef FC_REFERENCE_ROW_H
#define FC_REFERENCE_ROW_H

#include "core/convert.h"
#include "core/internal.h"
#include "core/random.h"
#include "core/sequence.h"

#include <math.h>

typedef struct fc_row {
    const fc_attention *problem;
    const fc_buffers *buffers;
    fc_sequence sequence;
    int64_t head; /* query head */
    int64_t kv_head;
    int64_t row; /* within the sequence */
    int64_t position;
    int64_t first_key, end_key; /* what causal and window limits leave */
    double q[FC_MAX_DIM];
} fc_row;

typedef struct fc_score {
    double value; /* -inf: the key is not visible */
    double slope; /* d value / d (q · k) */
} fc_score;

static inline void fc_load_all(fc_type type, const void *base, int64_t index, int64_t stride,
                               int64_t count, double scale, double *values)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = scale * fc_load(type, base, index + i * stride);
}

/* The type is asked for before the loop and not in it: most of a check's time is spent here. */
static inline void fc_load_vector(fc_type type, const void *base, int64_t index, int64_t stride,
                                  int64_t count, double scale, double *values)
{
    switch (type) {
    case FC_F64: fc_load_all(FC_F64, base, index, stride, count, scale, values); break;
    case FC_F32: fc_load_all(FC_F32, base, index, stride, count, scale, values); break;
    case FC_F16: fc_load_all(FC_F16, base, index, stride, count, scale, values); break;
    case FC_BF16: fc_load_all(FC_BF16, base, index, stride, count, scale, values); break;
    default: fc_load_all(type, base, index, stride, count, scale, values); break;
    }
}

static inline void fc_store_vector(fc_type type, void *base, int64_t index, int64_t stride,
                                   int64_t count, const double *values)
{
    for (int64_t i = 0; i < count; i++)
        fc_store(type, base, index + i * stride, values[i]);
}

/* Four sums: an addition need not wait for the one before it. */
static inline double fc_dot(const double *a, const double *b, int64_t count)
{
    double sums[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

static inline void fc_add_scaled(double *sum, double factor, const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += factor * values[i];
}

static inline double fc_f8_scale(const float *scales, const fc_scaling *s, int64_t batch,
                                 int64_t head, int64_t row)
{
    if (!scales)
        return 1;
    const int64_t block = s->block_rows ? row / s->block_rows : 0;
    return (double)scales[batch * s->batch + head * s->head + block * s->block];
}

static inline void fc_load_key(const fc_row *r, int64_t key, double *k)
{
    const fc_attention *p = r->problem;
    const fc_buffers *b = r->buffers;
    fc_load_vector(p->kv_type, b->k,
                   fc_kv_index(p, b, &p->k_strides, &r->sequence, r->kv_head, key),
                   p->k_strides.dim, p->head_dim,
                   fc_f8_scale(b->k_scale, &p->k_scaling, r->sequence.batch, r->kv_head, key), k);
}

static inline void fc_load_value(const fc_row *r, int64_t key, double *v)
{
    const fc_attention *p = r->problem;
    const fc_buffers *b = r->buffers;
    fc_load_vector(p->kv_type, b->v,
                   fc_kv_index(p, b, &p->v_strides, &r->sequence, r->kv_head, key),
                   p->v_strides.dim, p->value_dim,
                   fc_f8_scale(b->v_scale, &p->v_scaling, r->sequence.batch, r->kv_head, key), v);
}

static inline void fc_load_dout(const fc_row *r, const fc_gradients *g, double *dout)
{
    const fc_attention *p = r->problem;
    fc_load_vector(p->out_type, g->dout,
                   fc_q_index(p, &p->dout_strides, &r->sequence, r->head, r->row),
                   p->dout_strides.dim, p->value_dim, 1, dout);
}

static inline void fc_load_row(fc_row *r, const fc_attention *p, const fc_buffers *b,
                               fc_sequence sequence, int64_t head, int64_t row)
{
    r->problem = p;
    r->buffers = b;
    r->sequence = sequence;
    r->head = head;
    r->kv_head = head / (p->q_heads / p->kv_heads);
    r->row = row;
    r->position = fc_position(p, &sequence, row);
    r->first_key = fc_first_key(p, r->position);
    r->end_key = fc_end_key(p, &sequence, r->position);
    fc_load_vector(p->q_type, b->q, fc_q_index(p, &p->q_strides, &sequence, head, row),
                   p->q_strides.dim, p->head_dim,
                   fc_f8_scale(b->q_scale, &p->q_scaling, sequence.batch, head, row), r->q);
}

/* Index of (row, key) in a mask or bias. */
static inline int64_t fc_broadcast_index(const fc_row *r, const fc_broadcast *s, int64_t key)
{
    return r->sequence.batch * s->batch + r->head * s->head + r->row * s->row + key * s->key;
}

static inline double fc_bias(const fc_row *r, int64_t key)
{
    const fc_attention *p = r->problem;
    return fc_load(p->bias_type, r->buffers->bias, fc_broadcast_index(r, &p->bias_strides, key));
}

/* Says whether causal and window limits, the mask and the bias leave the key to the row. */
static inline bool fc_is_visible(const fc_row *r, int64_t key)
{
    const fc_attention *p = r->problem;
    if (key < r->first_key || key >= r->end_key)
        return false;
    if (p->has_mask && !r->buffers->mask[fc_broadcast_index(r, &p->mask_strides, key)])
        return false;
    return !p->has_bias || fc_bias(r, key) != -(double)INFINITY;
}

/* cap(scale · q·k) + alibi + bias. A key that is not visible is not read. */
static inline fc_score fc_score_key(const fc_row *r, int64_t key)
{
    const fc_attention *p = r->problem;
    if (!fc_is_visible(r, key))
        return (fc_score){.value = -(double)INFINITY};
    double k[FC_MAX_DIM];
    fc_load_key(r, key, k);
    fc_score score = {.value = (double)p->scale * fc_dot(r->q, k, p->head_dim),
                      .slope = (double)p->scale};
    if (p->softcap > 0) {
        const double capped = tanh(score.value / (double)p->softcap);
        score.value = (double)p->softcap * capped;
        score.slope *= 1 - capped * capped;
    }
    if (p->has_alibi) {
        const int64_t slope = r->sequence.batch * p->alibi_batch_stride + r->head;
        score.value -= (double)r->buffers->alibi[slope] * fabs((double)(r->position - key));
    }
    if (p->has_bias)
        score.value += fc_bias(r, key);
    return score;
}

/* What dropout multiplies the weight of (row, key) with. */
static inline double fc_dropout(const fc_row *r, int64_t key)
{
    const fc_attention *p = r->problem;
    if (p->dropout_p == 0)
        return 1;
    const bool kept = fc_dropout_keeps(p, r->buffers->dropout_seed, r->buffers->dropout_offset,
                                       r->sequence.batch, r->head, r->row, key);
    return kept ? 1 / (1 - (double)p->dropout_p) : 0;
}

/* Scores of the keys first_key … end_key - 1 into scores[0…]; returns lse, the sink included:
 * -inf when there is nothing visible and no sink. */
static inline double fc_score_row(const fc_row *r, fc_score *scores)
{
    const double sink =
        r->problem->has_sinks ? (double)r->buffers->sinks[r->head] : -(double)INFINITY;
    double largest = sink;
    for (int64_t key = r->first_key; key < r->end_key; key++) {
        const fc_score score = fc_score_key(r, key);
        scores[key - r->first_key] = score;
        if (score.value > largest || isnan(score.value))
            largest = score.value;
    }
    if (largest == -(double)INFINITY)
        return largest;
    double sum = exp(sink - largest);
    for (int64_t key = r->first_key; key < r->end_key; key++)
        sum += exp(scores[key - r->first_key].value - largest);
    return largest + log(sum);
}

/* A key that is not visible weighs exactly 0, also where lse is -inf. */
static inline double fc_weight(fc_score score, double lse)
{
    return score.value == -(double)INFINITY ? 0 : exp(score.value - lse);
}

#endif
