/* matmul_dot.h: as matmul_broadcast.h with a pair of bf16 elements in place of a float: an
 * instruction of AVX512-BF16 adds two products to each sum, treating subnormal elements as 0. */
#ifndef FC_CPU_MATMUL_DOT_H
#define FC_CPU_MATMUL_DOT_H

enum { MATMUL_ROWS = 14, MATMUL_COLUMNS = 2 * VEC_LANES, MATMUL_DEPTH = OPERAND_GROUP };

static inline __m512bh matmul_pairs(__m512i bits)
{
    __m512bh pairs;
    memcpy(&pairs, &bits, sizeof pairs);
    return pairs;
}

FC_SPECIALISED void matmul_block(const operand *a, int64_t a_stride, const operand *b,
                                 int64_t depth, float *c, int64_t c_stride, bool accumulate)
{
    vec sum[MATMUL_ROWS][2];
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        sum[row][0] = accumulate ? vec_load(c + row * c_stride) : vec_zero();
        sum[row][1] = accumulate ? vec_load(c + row * c_stride + VEC_LANES) : vec_zero();
    }
    for (int64_t k = 0; k < depth; k += MATMUL_DEPTH) {
        const operand *pairs = b + k * MATMUL_COLUMNS;
        const __m512bh b0 = matmul_pairs(_mm512_loadu_si512(pairs));
        const __m512bh b1 =
            matmul_pairs(_mm512_loadu_si512(pairs + (int64_t)VEC_LANES * OPERAND_GROUP));
        FC_UNROLL
        for (int row = 0; row < MATMUL_ROWS; row++) {
            int32_t pair;
            memcpy(&pair, a + row * a_stride + k, sizeof pair);
            const __m512bh left = matmul_pairs(_mm512_set1_epi32(pair));
            sum[row][0] = _mm512_dpbf16_ps(sum[row][0], left, b0);
            sum[row][1] = _mm512_dpbf16_ps(sum[row][1], left, b1);
        }
    }
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        vec_store(c + row * c_stride, sum[row][0]);
        vec_store(c + row * c_stride + VEC_LANES, sum[row][1]);
    }
}

#endif
