/* matmul_broadcast.h: two vectors of columns times one element of each row. The rows fill the
 * registers: AVX-512 has 32 (28 sums, 2 columns, 1 element), the others 16. */
#ifndef FC_CPU_MATMUL_BROADCAST_H
#define FC_CPU_MATMUL_BROADCAST_H

enum {
    MATMUL_ROWS = VEC_REGISTERS == 32 ? 14 : 6,
    MATMUL_COLUMNS = 2 * VEC_LANES,
    MATMUL_DEPTH = 1
};

FC_SPECIALISED void matmul_block(const operand *a, int64_t a_stride, const operand *b,
                                 int64_t depth, float *c, int64_t c_stride, bool accumulate)
{
    vec sum[MATMUL_ROWS][2];
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        sum[row][0] = accumulate ? vec_load(c + row * c_stride) : vec_zero();
        sum[row][1] = accumulate ? vec_load(c + row * c_stride + VEC_LANES) : vec_zero();
    }
    for (int64_t k = 0; k < depth; k++) {
        const vec b0 = vec_load(b + k * MATMUL_COLUMNS);
        const vec b1 = vec_load(b + k * MATMUL_COLUMNS + VEC_LANES);
        FC_UNROLL
        for (int row = 0; row < MATMUL_ROWS; row++) {
            const vec left = vec_set(a[row * a_stride + k]);
            sum[row][0] = vec_fma(left, b0, sum[row][0]);
            sum[row][1] = vec_fma(left, b1, sum[row][1]);
        }
    }
    FC_UNROLL
    for (int row = 0; row < MATMUL_ROWS; row++) {
        vec_store(c + row * c_stride, sum[row][0]);
        vec_store(c + row * c_stride + VEC_LANES, sum[row][1]);
    }
}

#endif
