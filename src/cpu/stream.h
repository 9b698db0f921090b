/* stream.h: scores and weighted sums of few query rows, with K and V read straight from where they
 * lie. Each step is written once for any type and number of rows, and inlined with constants. */
#ifndef FC_CPU_STREAM_H
#define FC_CPU_STREAM_H

#include "cpu/load.h"

enum {
    STREAM_KEYS = 64, /* a block: scored, then added, while K and V are in the cache */
    STREAM_STRIDE = STREAM_KEYS + 16, /* floats from row to row of the scores */
    STREAM_TOGETHER = 4               /* rows, and keys, that share a load */
};

/* The elements from `at` on that fill no vector, with zeros behind them. */
static inline vec stream_load_rest(fc_type type, const uint8_t *row, int64_t at, int64_t dim)
{
    uint8_t bytes[VEC_LANES * sizeof(float)] = {0};
    const size_t size = (size_t)element_bytes(type);
    memcpy(bytes, row + (size_t)at * size, (size_t)(dim - at) * size);
    return vec_load_as(type, bytes);
}

static inline vec stream_load(fc_type type, const uint8_t *row, int64_t at, int64_t dim)
{
    return at + VEC_LANES <= dim ? vec_load_as(type, row + at * element_bytes(type))
                                 : stream_load_rest(type, row, at, dim);
}

FC_SPECIALISED void stream_accumulate(int rows, int keys, vec weight[STREAM_TOGETHER][4],
                                      const vec value[4], float *out, int64_t out_stride)
{
    vec sum[STREAM_TOGETHER];
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        sum[row] = vec_load(out + row * out_stride);
    FC_UNROLL
    for (int i = 0; i < keys; i++)
        FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        sum[row] = vec_fma(weight[row][i], value[i], sum[row]);
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        vec_store(out + row * out_stride, sum[row]);
}

FC_SPECIALISED void stream_add_floats(fc_type type, int rows, int keys, const float *weights,
                                      const uint8_t *const *values, int64_t dim, float *out,
                                      int64_t out_stride)
{
    const int64_t size = element_bytes(type);
    const uint8_t *from[4]; /* a copy, which writing out can't change */
    vec weight[STREAM_TOGETHER][4], value[4];
    int64_t at = 0;
    FC_UNROLL
    for (int i = 0; i < keys; i++)
        from[i] = values[i];
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        FC_UNROLL
    for (int i = 0; i < keys; i++)
        weight[row][i] = vec_set(weights[row * STREAM_STRIDE + i]);
    for (; at + VEC_LANES <= dim; at += VEC_LANES) {
        FC_UNROLL
        for (int i = 0; i < keys; i++)
            value[i] = vec_load_as(type, from[i] + at * size);
        stream_accumulate(rows, keys, weight, value, out + at, out_stride);
    }
    if (at < dim) {
        FC_UNROLL
        for (int i = 0; i < keys; i++)
            value[i] = stream_load_rest(type, from[i], at, dim);
        stream_accumulate(rows, keys, weight, value, out + at, out_stride);
    }
}

/* How four keys are scored, or up to four values added, to some rows. */
#if defined(FC_STREAM_FHM)
#include "cpu/stream_fhm.h"
#else
#include "cpu/stream_f32.h"
#endif

/* The query rows. dims are padded to whole steps; q with zeros. */
typedef struct stream_queries {
    int64_t row_count;
    const stream_element *q;
    int64_t q_stride;
    float *scores; /* [row_count][STREAM_STRIDE], then the weights */
    float *out;
    int64_t out_stride;
} stream_queries;

/* Rows of K or V of one block of keys. */
typedef struct stream_rows {
    fc_type type; /* as they are to be read */
    int64_t dim;
    int64_t first, end; /* of the block's keys, those that are wanted */
    const uint8_t *row[STREAM_KEYS];
    float scale[STREAM_KEYS];
    bool scaled;
} stream_rows;

/* Rows whose elements are not neighbours are copied; all others are read where they are. */
static void stream_find(const key_rows *r, int64_t block, int64_t first, int64_t end,
                        stream_element *staging, stream_rows *found)
{
    const fc_type type = r->problem->kv_type;
    const bool neighbours = r->strides->dim == 1;
    int64_t index[STREAM_KEYS] = {0};
    find_rows(r, block + first, end - first, index + first);
    found->type = neighbours ? type : stream_copy_type;
    found->dim = r->dim;
    found->first = first;
    found->end = end;
    found->scaled = r->scales != NULL;
    for (int64_t key = first; key < end; key++) {
        stream_element *copy = staging + key * r->dim;
        found->scale[key] = key_scale(r, block + key);
        found->row[key] = (const uint8_t *)copy;
        if (neighbours)
            found->row[key] = element_at(type, r->base, index[key]);
        else
            stream_copy_row(type, r->base, index[key], r->strides->dim, r->dim, 1, copy);
    }
}

/* Asks for four keys' rows of what is wanted next: with few operations per byte it is the waiting
 * for memory that counts. */
static inline void stream_prefetch(const stream_rows *next, int64_t key)
{
    const int64_t bytes = next->dim * element_bytes(next->type);
    for (int64_t i = key; i < key + 4; i++)
        for (int64_t at = 0; i >= next->first && i < next->end && at < bytes; at += 64)
            __builtin_prefetch(next->row[i] + at);
}

/* Where fewer than four keys are left the last one is scored again, past the end. */
FC_SPECIALISED void stream_score_rows(fc_type type, const stream_queries *s,
                                      const stream_rows *keys, const stream_rows *next, int64_t row,
                                      int rows)
{
    const int64_t last = keys->end - 1;
    for (int64_t key = keys->first; key < keys->end; key += 4) {
        if (row == 0)
            stream_prefetch(next, key);
        const uint8_t *four[4];
        for (int i = 0; i < 4; i++)
            four[i] = keys->row[key + i < last ? key + i : last];
        stream_score_four(type, rows, s->q + row * s->q_stride, s->q_stride, four, keys->dim,
                          s->scores + row * STREAM_STRIDE + key);
    }
}

FC_SPECIALISED void stream_add_rows(fc_type type, const stream_queries *s,
                                    const stream_rows *values, const stream_rows *next, int64_t row,
                                    int rows)
{
    const float *weights = s->scores + row * STREAM_STRIDE;
    float *out = s->out + row * s->out_stride;
    int64_t key = values->first;
    for (; key + 4 <= values->end; key += 4) {
        if (row == 0)
            stream_prefetch(next, key);
        stream_add_some(type, rows, 4, weights + key, values->row + key, values->dim, out,
                        s->out_stride);
    }
    for (; key < values->end; key++)
        stream_add_some(type, rows, 1, weights + key, values->row + key, values->dim, out,
                        s->out_stride);
}

FC_SPECIALISED void stream_score_typed(fc_type type, const stream_queries *s,
                                       const stream_rows *keys, const stream_rows *next)
{
    int64_t row = 0;
    for (; row + STREAM_TOGETHER <= s->row_count; row += STREAM_TOGETHER)
        stream_score_rows(type, s, keys, next, row, STREAM_TOGETHER);
    for (; row < s->row_count; row++)
        stream_score_rows(type, s, keys, next, row, 1);
}

FC_SPECIALISED void stream_add_typed(fc_type type, const stream_queries *s,
                                     const stream_rows *values, const stream_rows *next)
{
    int64_t row = 0;
    for (; row + STREAM_TOGETHER <= s->row_count; row += STREAM_TOGETHER)
        stream_add_rows(type, s, values, next, row, STREAM_TOGETHER);
    for (; row < s->row_count; row++)
        stream_add_rows(type, s, values, next, row, 1);
}

/* scores = q · k; next is prefetched. */
static void stream_score(const stream_queries *s, const stream_rows *keys, const stream_rows *next)
{
    switch (stream_read_type(keys->type)) {
    case FC_F16: stream_score_typed(FC_F16, s, keys, next); break;
    case FC_BF16: stream_score_typed(FC_BF16, s, keys, next); break;
    case FC_F8_E4M3: stream_score_typed(FC_F8_E4M3, s, keys, next); break;
    case FC_F8_E5M2: stream_score_typed(FC_F8_E5M2, s, keys, next); break;
    default: stream_score_typed(FC_F32, s, keys, next);
    }
    for (int64_t row = 0; keys->scaled && row < s->row_count; row++)
        for (int64_t key = keys->first; key < keys->end; key++)
            s->scores[row * STREAM_STRIDE + key] *= keys->scale[key];
}

/* out += weight · v; the scales of v are already in the weights. */
static void stream_add(const stream_queries *s, const stream_rows *values, const stream_rows *next)
{
    switch (stream_read_type(values->type)) {
    case FC_F16: stream_add_typed(FC_F16, s, values, next); break;
    case FC_BF16: stream_add_typed(FC_BF16, s, values, next); break;
    case FC_F8_E4M3: stream_add_typed(FC_F8_E4M3, s, values, next); break;
    case FC_F8_E5M2: stream_add_typed(FC_F8_E5M2, s, values, next); break;
    default: stream_add_typed(FC_F32, s, values, next);
    }
}

/* The same for one row and one key, e.g. where other rows must not see the key. */
static void stream_add_one(const stream_queries *s, const stream_rows *values, int64_t row,
                           int64_t key)
{
    for (int64_t at = 0; at < values->dim; at += VEC_LANES) {
        float *out = s->out + row * s->out_stride + at;
        const vec value = stream_load(values->type, values->row[key], at, values->dim);
        const vec weight = vec_set(s->scores[row * STREAM_STRIDE + key]);
        vec_store(out, vec_fma(weight, value, vec_load(out)));
    }
}

/* Whether 0 times any of them is 0. */
static bool stream_is_tame(const stream_rows *values)
{
    vec zeros = vec_zero();
    for (int64_t key = values->first; key < values->end; key++)
        for (int64_t at = 0; at < values->dim; at += VEC_LANES)
            zeros = vec_fma(stream_load(values->type, values->row[key], at, values->dim),
                            vec_zero(), zeros);
    return vec_sum(zeros) == 0;
}

#endif
