/* softmax.h: the online softmax of a strip of rows against one block of keys. Rows go in step where
 * each alone would wait: for the largest of its scores, and for what that makes of its older sums.
 */
#ifndef FC_CPU_SOFTMAX_H
#define FC_CPU_SOFTMAX_H

#include "cpu/operand.h"
#include "cpu/score.h"

/* One strip. tops and shrink have room for whole vectors of rows. */
typedef struct softmax_strip {
    int64_t row_count;
    key_span span;
    float scale;   /* from scores to exponents of 2 */
    float *scores; /* [row_count][stride] */
    int64_t stride;
    operand *weights; /* [row_count][weights_stride]; may take the scores' place */
    int64_t weights_stride;
    float *tops;   /* [row_count]: the largest exponent so far */
    float *sums;   /* [row_count][VEC_LANES]: of the weights so far, lane by lane */
    float *shrink; /* [row_count]: what this block makes of older sums */
} softmax_strip;

static inline vec highest_scores(const float *scores, key_span span)
{
    vec high[2] = {vec_set(-INFINITY), vec_set(-INFINITY)};
    for (int64_t j = span.first; j < span.end; j += SCORE_STEP) {
        high[0] = vec_max(high[0], vec_load(scores + j));
        high[1] = vec_max(high[1], vec_load(scores + j + VEC_LANES));
    }
    return vec_max(high[0], high[1]);
}

/* Takes the block's scores into the tops of the rows. */
static inline void raise_tops(const softmax_strip *s)
{
    const vec none = vec_set(-INFINITY);
    for (int64_t first = 0; first < s->row_count; first += VEC_LANES) {
        vec high[VEC_LANES];
        FC_UNROLL
        for (int64_t i = 0; i < VEC_LANES; i++)
            high[i] = first + i < s->row_count
                          ? highest_scores(s->scores + (first + i) * s->stride, s->span)
                          : none;
        vec_transpose(high);
        FC_UNROLL
        for (int64_t i = 1; i < VEC_LANES; i++)
            high[0] = vec_max(high[0], high[i]);
        const vec old = vec_load(s->tops + first), new = vec_mul(high[0], vec_set(s->scale));
        const vec top = vec_where_less(old, new, new, old);
        /* Where nothing was seen yet -inf - 0 is as good as -inf - -inf is not. */
        const vec base = vec_where_equal(top, none, vec_zero(), top);
        vec_store(s->tops + first, top);
        vec_store(s->shrink + first, vec_exp2(vec_sub(old, base)));
    }
}

/* Scores of `rows` rows from row i on to weights; factors are NULL or multiply the weights of the
 * one row, but not their sum. */
FC_SPECIALISED void weigh_rows(const softmax_strip *s, int64_t i, int64_t rows,
                               const float *factors)
{
    const vec scale = vec_set(s->scale);
    vec base[2], sum[4], weight[4];
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++) {
        const float top = s->tops[i + row];
        base[row] = vec_set(top == -INFINITY ? 0 : -top);
        sum[2 * row] =
            vec_mul(vec_load(s->sums + (i + row) * VEC_LANES), vec_set(s->shrink[i + row]));
        sum[2 * row + 1] = vec_zero();
    }
    const float *scores = s->scores + i * s->stride;
    operand *weights = s->weights + i * s->weights_stride;
    for (int64_t j = s->span.first; j < s->span.end; j += SCORE_STEP) {
        FC_UNROLL
        for (int64_t part = 0; part < 2 * rows; part++)
            weight[part] =
                vec_fma(vec_load(scores + part / 2 * s->stride + j + part % 2 * VEC_LANES), scale,
                        base[part / 2]);
        vec_exp2_each(weight, 2 * rows);
        FC_UNROLL
        for (int64_t part = 0; part < 2 * rows; part++) {
            sum[part] = vec_add(sum[part], weight[part]);
            if (factors)
                weight[part] = vec_mul(weight[part], vec_load(factors + j + part * VEC_LANES));
        }
        FC_UNROLL
        for (int64_t row = 0; row < rows; row++)
            operand_store_two(weights + row * s->weights_stride + j, weight[2 * row],
                              weight[2 * row + 1]);
    }
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        vec_store(s->sums + (i + row) * VEC_LANES, vec_add(sum[2 * row], sum[2 * row + 1]));
}

/* Where there are registers for it: one row alone waits for its exponentials. */
static __attribute__((noinline)) void weigh_row_pair(const softmax_strip *s, int64_t i)
{
    weigh_rows(s, i, 2, NULL);
}

static __attribute__((noinline)) void weigh_strip_row(const softmax_strip *s, int64_t i,
                                                      const float *factors)
{
    weigh_rows(s, i, 1, factors);
}

#endif
