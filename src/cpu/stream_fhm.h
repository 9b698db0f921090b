/* stream_fhm.h: the products of stream.h for f16, with NEON's FHM: fmlal and fmlal2 multiply the
 * low and the high four of eight f16 elements and add the products, which are exact, to FP32 sums.
 *
 * Q, K and V are used as they are. Scores are summed in the order of stream_f32.h and have the same
 * bits. A weight would lose half its digits in f16, and the results their bound: it is split in
 * two. An infinite value times both may be NaN. */
#ifndef FC_CPU_STREAM_FHM_H
#define FC_CPU_STREAM_FHM_H

typedef uint16_t stream_element; /* of q, and of rows that are copied */
enum {
    STREAM_STEP = 8, /* elements of a row that go together */
    /* log2 of the largest weight. Small ones are rounded to 2^-37 of it, so that a million of them
     * are not lost; where dropout or the rounding of a large exponent makes a weight larger, f16
     * has room up to 2^16, and a weight beyond it is not finite. */
    STREAM_LIFT = 12,
    STREAM_FINITE_ONLY = 1 /* whether values and weights have to be finite for the right sum */
};

static inline void stream_copy_row(fc_type type, const void *base, int64_t index, int64_t stride,
                                   int64_t count, float factor, stream_element *to)
{
    (void)type; /* f16, which has no scale */
    (void)factor;
    load_halves(base, index, stride, count, to);
}

/* The types that rows are read in: f16 alone. */
static const fc_type stream_copy_type = FC_F16;

static inline fc_type stream_read_type(fc_type type)
{
    (void)type;
    return FC_F16;
}

static inline float16x8_t stream_load_eight(const void *from)
{
    return vreinterpretq_f16_u16(vld1q_u16(from));
}

/* The elements from `at` on that fill no step, with zeros behind them. */
static inline float16x8_t stream_load_last(const uint8_t *row, int64_t at, int64_t dim)
{
    stream_element eight[STREAM_STEP] = {0};
    memcpy(eight, row + at * (int64_t)sizeof *eight, (size_t)(dim - at) * sizeof *eight);
    return stream_load_eight(eight);
}

FC_SPECIALISED void stream_multiply(int rows, const stream_element *q, int64_t q_stride,
                                    const float16x8_t key[4], vec sum[STREAM_TOGETHER][4])
{
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++) {
        const float16x8_t left = stream_load_eight(q + row * q_stride);
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            sum[row][i] = vfmlalq_low_f16(sum[row][i], left, key[i]);
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            sum[row][i] = vfmlalq_high_f16(sum[row][i], left, key[i]);
    }
}

/* Four keys: scores[row][0 … 3]. */
FC_SPECIALISED void stream_score_four(fc_type type, int rows, const stream_element *q,
                                      int64_t q_stride, const uint8_t *const keys[4], int64_t dim,
                                      float *scores)
{
    (void)type;
    vec sum[STREAM_TOGETHER][4];
    float16x8_t key[4];
    int64_t at = 0;
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        sum[row][0] = sum[row][1] = sum[row][2] = sum[row][3] = vec_zero();
    for (; at + STREAM_STEP <= dim; at += STREAM_STEP) {
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = stream_load_eight(keys[i] + 2 * at);
        stream_multiply(rows, q + at, q_stride, key, sum);
    }
    if (at < dim) {
        FC_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = stream_load_last(keys[i], at, dim);
        stream_multiply(rows, q + at, q_stride, key, sum);
    }
    FC_UNROLL
    for (int64_t row = 0; row < rows; row++)
        vec_sum4(sum[row], scores + row * STREAM_STRIDE);
}

/* w = upper + lower, within 2^-22 of itself, or 2^-25. */
typedef struct stream_weights {
    float16x4_t upper, lower;
} stream_weights;

static inline stream_weights stream_split(vec w)
{
    const float16x4_t upper = vcvt_f16_f32(w);
    return (stream_weights){upper, vcvt_f16_f32(vec_sub(w, vcvt_f32_f16(upper)))};
}

#define STREAM_ADD_LANE(lane)                                                 \
    do {                                                                      \
        low = vfmlalq_lane_low_f16(low, value[lane], weights.upper, lane);    \
        high = vfmlalq_lane_high_f16(high, value[lane], weights.upper, lane); \
        low = vfmlalq_lane_low_f16(low, value[lane], weights.lower, lane);    \
        high = vfmlalq_lane_high_f16(high, value[lane], weights.lower, lane); \
    } while (0)

FC_SPECIALISED void stream_accumulate_row(int keys, stream_weights weights,
                                          const float16x8_t value[4], float *out)
{
    vec low = vec_load(out), high = vec_load(out + VEC_LANES);
    STREAM_ADD_LANE(0);
    if (keys == 4) {
        STREAM_ADD_LANE(1);
        STREAM_ADD_LANE(2);
        STREAM_ADD_LANE(3);
    }
    vec_store(out, low);
    vec_store(out + VEC_LANES, high);
}

#undef STREAM_ADD_LANE

/* One key or four. */
FC_SPECIALISED void stream_add_row(int keys, const float *weights, const uint8_t *const *values,
                                   int64_t dim, float *out)
{
    const uint8_t *from[4]; /* a copy, which writing out can't change */
    const stream_weights split = stream_split(keys == 4 ? vec_load(weights) : vec_set(*weights));
    float16x8_t value[4];
    int64_t at = 0;
    FC_UNROLL
    for (int i = 0; i < keys; i++)
        from[i] = values[i];
    for (; at + STREAM_STEP <= dim; at += STREAM_STEP) {
        FC_UNROLL
        for (int i = 0; i < keys; i++)
            value[i] = stream_load_eight(from[i] + 2 * at);
        stream_accumulate_row(keys, split, value, out + at);
    }
    if (at < dim) {
        FC_UNROLL
        for (int i = 0; i < keys; i++)
            value[i] = stream_load_last(from[i], at, dim);
        stream_accumulate_row(keys, split, value, out + at);
    }
}

/* Two products for each weight are fewer than one and a conversion of the value; where four rows
 * share the conversion they are not. */
FC_SPECIALISED void stream_add_some(fc_type type, int rows, int keys, const float *weights,
                                    const uint8_t *const *values, int64_t dim, float *out,
                                    int64_t out_stride)
{
    if (rows == 1)
        stream_add_row(keys, weights, values, dim, out);
    else
        stream_add_floats(type, rows, keys, weights, values, dim, out, out_stride);
}

#endif
