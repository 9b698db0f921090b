/* weights.cuh: scores that a warpgroup's product left in registers become weights of its next product.
 *
 * A warp has 16 rows, laid out as mma.sync lays them (sm80/tile.cuh). */
#ifndef FC_SM90_WEIGHTS_CUH
#define FC_SM90_WEIGHTS_CUH

#include "sm80/tile.cuh"

typedef float score_sums[ROW_GROUPS][SCORE_TILES][4];
typedef float out_sums[ROW_GROUPS][OUT_TILES][4];
typedef unsigned weight_steps[SCORE_TILES / 2][4]; /* of 16 keys */

/* Exponents of the rows that `raise` names are from now on relative to the largest scores so far. What
 * was summed before is to be multiplied by correction; the sums of weights are. */
static __device__ __forceinline__ void raise_maximum(const score_sums scores,
                                                     softmax_state *softmax,
                                                     const int raise[LANE_ROWS],
                                                     float correction[LANE_ROWS],
                                                     float scale_log2)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float largest = lane_maximum(scores, r, 0, SCORE_TILES, negative_infinity());
        const float raised = fmaxf(softmax->max[r], quad_max(largest) * scale_log2);
        const float max = raise[r] ? raised : softmax->max[r];
        correction[r] = exp2_approx(softmax->max[r] - exponent_base(max));
        softmax->sum[r] *= correction[r];
        softmax->max[r] = max;
    }
}

/* Scores become weights, not rounded yet. */
static __device__ __forceinline__ void weigh(score_sums scores, softmax_state *softmax,
                                             float scale_log2)
{
    float base[LANE_ROWS];
    find_base(softmax, base);
    exponentiate(scores, softmax, base, scale_log2, 0, TILE_SCORES);
}

/* 1: a tile's first weights are not added to 0. With 256 dims and limits that took longer. */
#define SUMS_BEGIN (VALUE_DIM <= 128)

/* Rounded weights of 16 keys, relative to base; sum grows by them, from 0 in step 0. */
static __device__ __forceinline__ void weigh_step(const score_sums scores, unsigned weights[4],
                                                  const float base[LANE_ROWS],
                                                  float sum[LANE_ROWS], float scale_log2, int step)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = i % 2;
        const float *pair = &scores[0][step * 2 + i / 2][r * 2];
        const float low = exp2_approx(fmaf(pair[0], scale_log2, -base[r]));
        const float high = exp2_approx(fmaf(pair[1], scale_log2, -base[r]));
        sum[r] = SUMS_BEGIN && step == 0 && i < 2 ? low + high : sum[r] + low + high;
        weights[i] = pack_elements(low, high);
    }
}

/* What a lane's weights of a row and a tile of keys may sum up to: f16 holds each of them then. */
#define MOST_WEIGHT 32768.0f

/* Whether a row's weights of a tile of keys are, agreed on by the lanes that share the row; NaN too. */
static __device__ __forceinline__ int are_too_large(float sum)
{
    return quad_max(sum <= MOST_WEIGHT ? 0.0f : 1.0f) > 0.0f;
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
    for (int i = 0; i < SCORE_TILES * 2; i++) {
        const float *pair = &scores[0][i / 2][i % 2 * 2];
        weights[i / 4][i % 4] = pack_elements(pair[0], pair[1]);
    }
}

/* What rounding took away. */
static __device__ __forceinline__ void subtract_weights(score_sums scores,
                                                        const weight_steps weights)
{
#pragma unroll
    for (int i = 0; i < SCORE_TILES * 2; i++) {
        float *pair = &scores[0][i / 2][i % 2 * 2];
        const unsigned rounded = weights[i / 4][i % 4];
        pair[0] -= element_to_f32((element)(rounded & 0xffffu));
        pair[1] -= element_to_f32((element)(rounded >> 16));
    }
}

#endif
