/* weights.cuh: scores that a warpgroup's product left in registers become weights of its next product.
 *
 * A warp has 16 rows, laid out as mma.sync lays them (sm80/tile.cuh). */
#ifndef FC_SM90_WEIGHTS_CUH
#define FC_SM90_WEIGHTS_CUH

#include "sm80/tile.cuh"

typedef float score_sums[ROW_GROUPS][SCORE_TILES][4];
typedef float out_sums[ROW_GROUPS][OUT_TILES][4];
typedef unsigned weight_steps[KV_TILE / 16][4];

static __device__ __forceinline__ void forget(softmax_state *softmax)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        softmax->max[r] = negative_infinity();
        softmax->sum[r] = 0.0f;
    }
}

/* The rows' new maxima, and what was summed before is to be multiplied by; 1 if that is not 1 for
 * some row of the lane. */
static __device__ __forceinline__ int next_maximum(const score_sums scores, softmax_state *softmax,
                                                   float base[LANE_ROWS],
                                                   float correction[LANE_ROWS], float scale_log2)
{
    int moved = 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float new_max = raise_maximum(scores, r, softmax->max[r], scale_log2);
        base[r] = new_max == negative_infinity() ? 0.0f : new_max;
        correction[r] = exp2_approx(softmax->max[r] - base[r]);
        moved |= new_max != softmax->max[r];
        softmax->max[r] = new_max;
    }
    return moved;
}

static __device__ __forceinline__ void shrink_sums(softmax_state *softmax,
                                                   const float correction[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        softmax->sum[r] *= correction[r];
}

static __device__ __forceinline__ void shrink_out(out_sums out, const float correction[LANE_ROWS])
{
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[0][n][i] *= correction[i / 2];
}

static __device__ __forceinline__ void clear_out(out_sums out)
{
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[0][n][i] = 0.0f;
}

static __device__ __forceinline__ void round_weights(weight_steps weights, const score_sums scores)
{
#pragma unroll
    for (int i = 0; i < KV_TILE / 4; i++) {
        const float *pair = &scores[0][i / 2][i % 2 * 2];
        weights[i / 4][i % 4] = pack_elements(pair[0], pair[1]);
    }
}

/* What rounding took away. */
static __device__ __forceinline__ void subtract_weights(score_sums scores,
                                                        const weight_steps weights)
{
#pragma unroll
    for (int i = 0; i < KV_TILE / 4; i++) {
        float *pair = &scores[0][i / 2][i % 2 * 2];
        const unsigned rounded = weights[i / 4][i % 4];
        pair[0] -= element_to_f32((element)(rounded & 0xffffu));
        pair[1] -= element_to_f32((element)(rounded >> 16));
    }
}

#endif
