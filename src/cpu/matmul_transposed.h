/* matmul_transposed.h: C += Aᵀ · B, where A and B are row-major floats: sums over query rows, for
 * which neither the weights nor the rows are packed. TRANSPOSED_ROWS rows of C, which are columns
 * of A, go together, with MATMUL_COLUMNS columns. Every element is summed over k in its order. */
#ifndef FC_CPU_MATMUL_TRANSPOSED_H
#define FC_CPU_MATMUL_TRANSPOSED_H

#include "cpu/matmul.h"

/* AVX-512 has registers for 14, but 128 keys are no multiple of that. */
#if defined(FC_VEC_NEON) || defined(FC_VEC_AVX512)
enum { TRANSPOSED_ROWS = 8 };
#else
enum { TRANSPOSED_ROWS = 6 };
#endif

typedef struct transposed_step {
    const float *a;
    int64_t a_stride;
    const float *b;
    int64_t b_stride;
    int64_t depth;
    int64_t columns; /* of C: a multiple of MATMUL_COLUMNS */
    float *c;
    int64_t c_stride;
} transposed_step;

#if defined(FC_VEC_NEON)
#define TRANSPOSED_LANE(row, left, lane)                        \
    sum[row][0] = vfmaq_laneq_f32(sum[row][0], b0, left, lane); \
    sum[row][1] = vfmaq_laneq_f32(sum[row][1], b1, left, lane)
#endif

FC_SPECIALISED void transposed_multiply(const float *a, vec b0, vec b1, vec sum[TRANSPOSED_ROWS][2])
{
#if defined(FC_VEC_NEON)
    const vec low = vec_load(a), high = vec_load(a + VEC_LANES);
    TRANSPOSED_LANE(0, low, 0);
    TRANSPOSED_LANE(1, low, 1);
    TRANSPOSED_LANE(2, low, 2);
    TRANSPOSED_LANE(3, low, 3);
    TRANSPOSED_LANE(4, high, 0);
    TRANSPOSED_LANE(5, high, 1);
    TRANSPOSED_LANE(6, high, 2);
    TRANSPOSED_LANE(7, high, 3);
#else
    FC_UNROLL
    for (int row = 0; row < TRANSPOSED_ROWS; row++) {
        const vec left = vec_set(a[row]);
        sum[row][0] = vec_fma(left, b0, sum[row][0]);
        sum[row][1] = vec_fma(left, b1, sum[row][1]);
    }
#endif
}

#undef TRANSPOSED_LANE

FC_SPECIALISED void transposed_block(transposed_step s, int64_t column)
{
    vec sum[TRANSPOSED_ROWS][2];
    const float *a = s.a, *b = s.b + column;
    float *c = s.c + column;
    FC_UNROLL
    for (int row = 0; row < TRANSPOSED_ROWS; row++) {
        sum[row][0] = vec_load(c + row * s.c_stride);
        sum[row][1] = vec_load(c + row * s.c_stride + VEC_LANES);
    }
    for (int64_t k = 0; k < s.depth; k++) {
        transposed_multiply(a, vec_load(b), vec_load(b + VEC_LANES), sum);
        a += s.a_stride;
        b += s.b_stride;
    }
    FC_UNROLL
    for (int row = 0; row < TRANSPOSED_ROWS; row++) {
        vec_store(c + row * s.c_stride, sum[row][0]);
        vec_store(c + row * s.c_stride + VEC_LANES, sum[row][1]);
    }
}

/* Not inlined, as matmul.h's. */
static __attribute__((noinline)) void matmul_transposed(const transposed_step *s)
{
    for (int64_t column = 0; column < s->columns; column += MATMUL_COLUMNS)
        transposed_block(*s, column);
}

#endif
