/* again.cuh: rows whose result is not finite, computed a second time key by key.
 *
 * A value that is infinite or NaN may not reach rows that do not see its key, but a hidden key's
 * weight is 0 and 0 · NaN is NaN. So the fast way multiplies everything, and where the sums of a
 * row come out finite they are right. The others go this way, which is slow and rarely taken. */
#ifndef FC_SM80_AGAIN_CUH
#define FC_SM80_AGAIN_CUH

#include "sm80/features.cuh"
#include "sm80/store.cuh"

#define LANE_DIMS (VALUE_DIM / WARP_LANES)

/* 1: a hidden key that is infinite or NaN has reached the sums of weights as well, so that rows' LSEs
 * are stored again with their first columns. */
#ifndef AGAIN_LSE
#define AGAIN_LSE 0
#endif

/* Called, unless a kernel says that in place it takes less time: it wants registers there. */
#ifndef AGAIN_INLINE
#define AGAIN_INLINE __noinline__
#endif

static __device__ __forceinline__ int are_finite(const float (*sums)[4], int tiles)
{
    float nothing[4] = {};
#pragma unroll
    for (int i = 0; i < tiles * 4; i++)
        nothing[i % 4] = fmaf(sums[i / 4][i % 4], 0.0f, nothing[i % 4]);
    return !__any_sync(ALL_LANES, nothing[0] + nothing[1] + (nothing[2] + nothing[3]) != 0.0f);
}

/* The score of a key in base 2. */
static __device__ __forceinline__ float score_again(const attention_args *args,
                                                    const sequence_share *share, int packed_row,
                                                    const element *q, const row_source *keys,
                                                    int key)
{
    const element *k = keys->first + row_offset(args, share, keys, key);
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < args->head_dim; i++)
        sum = fmaf(element_to_f32(q[i]), element_to_f32(k[i]), sum);
#if FEATURES
    return shape_score(args, share, packed_row, key, sum);
#else
    return sum * args->scale_log2;
#endif
}

/* Columns [first_column, end_column) of one row, by a whole warp: a lane takes every 32nd key, and
 * of the result the dims lane + 32 i. */
static __device__ AGAIN_INLINE void compute_row_again(const attention_args *args,
                                                      const sequence_share *share, int packed_row,
                                                      int first_column, int end_column)
{
    const int row = row_of(args, packed_row);
    const int end = end_key_of(args, share, row);
    const element *q =
        (const element *)args->q + q_index(args, share, STRIDES(args, q), packed_row);
    const row_source k = find_keys(args, share, args->k, STRIDES(args, k), args->head_dim, 0);
    const row_source v = find_keys(args, share, args->v, STRIDES(args, v), args->value_dim, 0);
    float largest = negative_infinity(), sum = 0.0f, out[LANE_DIMS] = {};
    for (int first = first_key_of(args, share, row); first < end; first += WARP_LANES) {
        const int key = first + lane_id();
        const float score = key < end ? score_again(args, share, packed_row, q, &k, key)
                                      : negative_infinity();
        const float new_largest = fmaxf(largest, warp_max(score));
        const float base = exponent_base(new_largest);
        const float correction = exp2_approx(largest - base);
        float weight = exp2_approx(score - base);
        sum = sum * correction + warp_sum(weight);
#if FEATURES
        if (args->more.dropout_threshold)
            weight = drop_weight(args, share, packed_row, key, weight);
#endif
        largest = new_largest;
#pragma unroll
        for (int i = 0; i < LANE_DIMS; i++)
            out[i] *= correction;
#pragma unroll 1
        for (int lane = 0; lane < WARP_LANES; lane++) {
            if (__shfl_sync(ALL_LANES, score, lane) == negative_infinity())
                continue;
            const float w = __shfl_sync(ALL_LANES, weight, lane);
            const element *values = v.first + row_offset(args, share, &v, first + lane);
#pragma unroll
            for (int i = 0; i < LANE_DIMS; i++)
                if (lane_id() + i * WARP_LANES < args->value_dim)
                    out[i] = fmaf(w, element_to_f32(values[lane_id() + i * WARP_LANES]), out[i]);
        }
    }
    const row_end ended = finish_row(args, largest, sum, head_of(args, share, packed_row), 1);
    if (AGAIN_LSE && first_column == 0 && lane_id() == 0)
        store_lse(args, share, packed_row, ended);
    const long long index = q_index(args, share, STRIDES(args, out), packed_row);
#pragma unroll
    for (int i = 0; i < LANE_DIMS; i++) {
        const int column = lane_id() + i * WARP_LANES;
        if (column >= first_column && column < min(end_column, args->value_dim))
            store_element(args, index + column * DIM_STRIDE(STRIDES(args, out)),
                          out[i] * ended.factor);
    }
}

/* After the warp's rows were stored, where they are not all finite: those of `tiles` × 8 columns that
 * need it once more. */
static __device__ __forceinline__ void compute_again(const attention_args *args,
                                                     const sequence_share *share, int warp_row,
                                                     const float (*sums)[4], int tiles,
                                                     int first_column)
{
    const unsigned upper = lanes_not_finite(sums, tiles, 0);
    const unsigned lower = lanes_not_finite(sums, tiles, 1);
    const sequence_share copy = *share; /* a function that is called wants it in memory */
#pragma unroll 1
    for (int row = 0; row < WARP_ROWS && warp_row + row < copy.rows; row++)
        if ((row < 8 ? upper : lower) >> (row % 8 * 4) & 15u)
            compute_row_again(args, &copy, warp_row + row, first_column, first_column + tiles * 8);
}

#endif
