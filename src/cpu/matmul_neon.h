/* matmul_neon.h: 8 x 8 by multiplication with one lane: four steps of a row of A come with one
 * load, and 16 sums keep both multiply-add pipes busy for their latency of four cycles twice. */
#ifndef FC_CPU_MATMUL_NEON_H
#define FC_CPU_MATMUL_NEON_H

enum { MATMUL_ROWS = 8, MATMUL_COLUMNS = 8, MATMUL_DEPTH = 4 };

#define MATMUL_LANE(lane)                                                       \
    do {                                                                        \
        const vec b0 = vec_load(b + (k + (lane)) * MATMUL_COLUMNS);             \
        const vec b1 = vec_load(b + (k + (lane)) * MATMUL_COLUMNS + VEC_LANES); \
        FC_UNROLL                                                               \
        for (int row = 0; row < MATMUL_ROWS; row++) {                           \
            sum[row][0] = vfmaq_laneq_f32(sum[row][0], b0, left[row], lane);    \
            sum[row][1] = vfmaq_laneq_f32(sum[row][1], b1, left[row], lane);    \
        }                                                                       \
    } while (0)

FC_SPECIALISED void matmul_block(const operand *a, int64_t a_stride, const operand *b,
                                 int64_t depth, float *c, int64_t c_stride, bool accumulate)
{
    vec sum[MATMUL_ROWS][2];
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        sum[row][0] = vec_zero();
        sum[row][1] = vec_zero();
    }
    for (int64_t k = 0; k < depth; k += MATMUL_DEPTH) {
        vec left[MATMUL_ROWS];
        FC_UNROLL
        for (int row = 0; row < MATMUL_ROWS; row++)
            left[row] = vec_load(a + row * a_stride + k);
        MATMUL_LANE(0);
        MATMUL_LANE(1);
        MATMUL_LANE(2);
        MATMUL_LANE(3);
    }
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        float *to = c + row * c_stride;
        vec_store(to, accumulate ? vec_add(vec_load(to), sum[row][0]) : sum[row][0]);
        to += VEC_LANES;
        vec_store(to, accumulate ? vec_add(vec_load(to), sum[row][1]) : sum[row][1]);
    }
}

#undef MATMUL_LANE

#endif
