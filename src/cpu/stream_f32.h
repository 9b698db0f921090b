/* stream_f32.h: the products of stream.h in FP32: q is floats, and what is read of K and V becomes
 * floats. */
#ifndef FC_CPU_STREAM_F32_H
#define FC_CPU_STREAM_F32_H

typedef float stream_element; /* of q, and of rows that are copied */
enum {
    STREAM_STEP = VEC_LANES, /* elements of a row that go together */
    STREAM_LIFT = 0,         /* log2 of the largest weight */
    STREAM_FINITE_ONLY = 0   /* whether values and weights have to be finite for the right sum */
};

static inline void stream_copy_row(fc_type type, const void *base, int64_t index, int64_t stride,
                                   int64_t count, float factor, stream_element *to)
{
    load_floats(type, base, index, stride, count, factor, to);
}

/* The types that rows are read in: all, and that of stream_element. */
static const fc_type stream_copy_type = FC_F32;

static inline fc_type stream_read_type(fc_type type)
{
    return type;
}

FC_SPECIALISED void stream_multiply(int rows, const float *q, int64_t q_stride, const vec key[4],
                                    vec sum[STREAM_TOGETHER][4])
{
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++) {
        const vec left = vec_load(q + row * q_stride);
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            sum[row][i] = vec_fma(left, key[i], sum[row][i]);
    }
}

/* Four keys: scores[row][0 … 3]. */
FC_SPECIALISED void stream_score_four(fc_type type, int rows, const float *q, int64_t q_stride,
                                      const uint8_t *const keys[4], int64_t dim, float *scores)
{
    const int64_t size = element_bytes(type);
    vec sum[STREAM_TOGETHER][4], key[4];
    int64_t at = 0;
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        sum[row][0] = sum[row][1] = sum[row][2] = sum[row][3] = vec_zero();
    for (; at + VEC_LANES <= dim; at += VEC_LANES) {
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = vec_load_as(type, keys[i] + at * size);
        stream_multiply(rows, q + at, q_stride, key, sum);
    }
    if (at < dim) {
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = stream_load_rest(type, keys[i], at, dim);
        stream_multiply(rows, q + at, q_stride, key, sum);
    }
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        vec_sum4(sum[row], scores + row * STREAM_STRIDE);
}

FC_SPECIALISED void stream_add_some(fc_type type, int rows, int keys, const float *weights,
                                    const uint8_t *const *values, int64_t dim, float *out,
                                    int64_t out_stride)
{
    stream_add_floats(type, rows, keys, weights, values, dim, out, out_stride);
}

#endif
