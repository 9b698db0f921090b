/* matmul_bfmmla.h: 8 x 8 with the matrix instruction of NEON's BF16: 2 x 4 by 4 x 2 elements, added
 * to a register of 2 x 2 sums. It takes subnormal elements for 0. */
#ifndef FC_CPU_MATMUL_BFMMLA_H
#define FC_CPU_MATMUL_BFMMLA_H

enum { MATMUL_ROWS = 8, MATMUL_COLUMNS = 8, MATMUL_DEPTH = OPERAND_GROUP };

/* Four elements of two rows. */
static inline bfloat16x8_t matmul_row_pair(const operand *a, int64_t a_stride)
{
    return vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(a), vld1_u16(a + a_stride)));
}

static inline void matmul_store(float *to, vec sum, bool accumulate)
{
    vec_store(to, accumulate ? vec_add(vec_load(to), sum) : sum);
}

FC_SPECIALISED void matmul_block(const operand *a, int64_t a_stride, const operand *b,
                                 int64_t depth, float *c, int64_t c_stride, bool accumulate)
{
    enum { PAIRS = MATMUL_ROWS / 2 };
    vec sum[PAIRS][PAIRS];
    FC_UNROLL
    for (int64_t row = 0; row < PAIRS; row++)
        sum[row][0] = sum[row][1] = sum[row][2] = sum[row][3] = vec_zero();
    for (int64_t k = 0; k < depth; k += MATMUL_DEPTH) {
        bfloat16x8_t right[PAIRS];
        FC_UNROLL
        for (int64_t column = 0; column < PAIRS; column++)
            right[column] = vreinterpretq_bf16_u16(vld1q_u16(b + k * MATMUL_COLUMNS + 8 * column));
        FC_UNROLL
        for (int64_t row = 0; row < PAIRS; row++) {
            const bfloat16x8_t left = matmul_row_pair(a + 2 * row * a_stride + k, a_stride);
            FC_UNROLL
            for (int64_t column = 0; column < PAIRS; column++)
                sum[row][column] = vbfmmlaq_f32(sum[row][column], left, right[column]);
        }
    }
    FC_UNROLL
    for (int64_t row = 0; row < PAIRS; row++) {
        FC_UNROLL
        for (int64_t column = 0; column < PAIRS; column += 2) {
            const float64x2_t left = vreinterpretq_f64_f32(sum[row][column]);
            const float64x2_t right = vreinterpretq_f64_f32(sum[row][column + 1]);
            float *to = c + 2 * row * c_stride + 2 * column;
            matmul_store(to, vreinterpretq_f32_f64(vzip1q_f64(left, right)), accumulate);
            matmul_store(to + c_stride, vreinterpretq_f32_f64(vzip2q_f64(left, right)), accumulate);
        }
    }
}

#endif
