/* fused.cu: one kernel, online softmax: the scores never leave the block.
 *
 * A block owns QUERY_TILE rows and walks the keys KV_TILE at a time. A row keeps its running
 * maximum and sum; when the maximum grows, what was summed before is scaled down by
 * exp(old maximum - new maximum), the correction. All arithmetic is scalar.
 *
 * grid.x = query tile, grid.y = query head, grid.z = batch; no workspace. */
#include "kernel_shape.h"
#include "ladder/ladder_args.h"
#include "ladder/problem.cuh"
#include "ptx_common.cuh"
#include "ptx_math.cuh"
#include "ptx_warp.cuh"

/* 1. Shape. */

#ifndef QUERY_TILE
#define QUERY_TILE 32
#endif
#ifndef WARPS
#define WARPS 4
#endif
/* 0: the keys are walked twice, the first time for the rows' maxima alone. */
#ifndef USE_ONLINE_SOFTMAX
#define USE_ONLINE_SOFTMAX 1
#endif
/* Blocks that a multiprocessor must have registers for. Unsaid, the compiler spills for more. */
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
#define KV_TILE WARP_LANES /* a lane takes one key */

#define THREADS (WARPS * WARP_LANES)
#define ROWS_PER_WARP (QUERY_TILE / WARPS)
#define PAIRS_PER_ROW (HEAD_DIM / 2)
#define PAIRS_PER_LANE (PAIRS_PER_ROW / WARP_LANES)

/* One pair of elements more than the row: 32 lanes that read the same pair of 32 rows then fall on
 * 32 different banks. */
#define ROW_STRIDE (HEAD_DIM + 2)

static_assert(HEAD_DIM % 64 == 0, "a lane owns whole pairs of elements of an output row");
static_assert(QUERY_TILE % WARPS == 0, "every warp owns the same number of rows");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE][ROW_STRIDE];
    f16 k[KV_TILE][ROW_STRIDE];
    f16 v[KV_TILE][ROW_STRIDE];
    float scores[QUERY_TILE][KV_TILE]; /* then the probabilities */
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles)};

/* 3. Steps, in calling order. A warp works on its own rows, a lane on its own key or columns. */

/* Rows past the end become 0: what lies there may be NaN, and 0 · NaN is NaN. */
static __device__ void load_tile(f16 tile[][ROW_STRIDE], const f16 *rows, int tile_rows,
                                 int rows_left)
{
    for (int i = thread_id(); i < tile_rows * HEAD_DIM; i += THREADS) {
        const int row = i / HEAD_DIM;
        const int column = i % HEAD_DIM;
        tile[row][column] = row < rows_left ? rows[(size_t)row * HEAD_DIM + column] : 0;
    }
}

/* scores = Q·Kᵀ·scale·log2(e), -inf for keys past the end. */
static __device__ void score_tile(shared_tiles *shared, float scale_log2, int keys_left)
{
    const unsigned *key = (const unsigned *)shared->k[lane_id()];
    float scores[ROWS_PER_WARP] = {};

    for (int pair = 0; pair < PAIRS_PER_ROW; pair++) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; r++) {
            const int row = warp_id() * ROWS_PER_WARP + r;
            const unsigned query = ((const unsigned *)shared->q[row])[pair];
            scores[r] += low_f16(query) * low_f16(key[pair]);
            scores[r] += high_f16(query) * high_f16(key[pair]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++)
        shared->scores[warp_id() * ROWS_PER_WARP + r][lane_id()] =
            lane_id() < keys_left ? scores[r] * scale_log2 : negative_infinity();
}

/* Without the online softmax: the maximum of all scores of a row, before any is used. */
static __device__ void find_row_max(shared_tiles *shared, const f16 *k, const ladder_args *args,
                                    float row_max[ROWS_PER_WARP])
{
    for (int first_key = 0; first_key < args->kv_length; first_key += KV_TILE) {
        const int keys_left = args->kv_length - first_key;
        __syncthreads();
        load_tile(shared->k, k + (size_t)first_key * HEAD_DIM, KV_TILE, keys_left);
        __syncthreads();
        score_tile(shared, args->scale * LOG2_E, keys_left);
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; r++) /* a lane reads the score it wrote */
            row_max[r] = fmaxf(row_max[r],
                               warp_max(shared->scores[warp_id() * ROWS_PER_WARP + r][lane_id()]));
    }
}

/* Scores become probabilities relative to the row's maximum so far. */
static __device__ void softmax_step(shared_tiles *shared, float row_max[ROWS_PER_WARP],
                                    float row_sum[ROWS_PER_WARP], float correction[ROWS_PER_WARP])
{
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        float *score = &shared->scores[warp_id() * ROWS_PER_WARP + r][lane_id()];
        const float new_max = fmaxf(row_max[r], warp_max(*score));
        /* A row of -inf alone: subtracting 0 keeps exp2(-inf) = 0, -inf - -inf would be NaN. */
        const float base = new_max == negative_infinity() ? 0.0f : new_max;
        const float probability = exp2_approx(*score - base);

        *score = probability;
        correction[r] = USE_ONLINE_SOFTMAX ? exp2_approx(row_max[r] - base) : 1.0f;
        row_sum[r] = row_sum[r] * correction[r] + warp_sum(probability);
        row_max[r] = new_max;
    }
}

/* out[row] = out[row] · correction + Σ probability · V; a lane owns the pairs lane, lane + 32, … of
 * every row. */
static __device__ void accumulate_out(float out[ROWS_PER_WARP][PAIRS_PER_LANE][2],
                                      const shared_tiles *shared,
                                      const float correction[ROWS_PER_WARP])
{
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            out[r][i][0] *= correction[r];
            out[r][i][1] *= correction[r];
        }
    }
    for (int key = 0; key < KV_TILE; key++) {
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            const unsigned value = ((const unsigned *)shared->v[key])[i * WARP_LANES + lane_id()];
#pragma unroll
            for (int r = 0; r < ROWS_PER_WARP; r++) {
                const float probability = shared->scores[warp_id() * ROWS_PER_WARP + r][key];
                out[r][i][0] += probability * low_f16(value);
                out[r][i][1] += probability * high_f16(value);
            }
        }
    }
}

static __device__ void store_out(const ladder_args *args, size_t query_row, int rows_left,
                                 float out[ROWS_PER_WARP][PAIRS_PER_LANE][2],
                                 const float row_max[ROWS_PER_WARP],
                                 const float row_sum[ROWS_PER_WARP])
{
    f16 *out_rows = (f16 *)args->out + query_row * HEAD_DIM;

#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const int row = warp_id() * ROWS_PER_WARP + r;
        if (row >= rows_left)
            break;
        const float inverse = row_sum[r] == 0.0f ? 0.0f : 1.0f / row_sum[r];
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            f16 *pair = out_rows + (size_t)row * HEAD_DIM + (i * WARP_LANES + lane_id()) * 2;
            pair[0] = f32_to_f16(out[r][i][0] * inverse);
            pair[1] = f32_to_f16(out[r][i][1] * inverse);
        }
        if (args->lse && lane_id() == 0)
            args->lse[query_row + (size_t)row] = row_max[r] * LN_2 + logf(row_sum[r]);
    }
}

/* 4. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const ladder_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int first_row = (int)blockIdx.x * QUERY_TILE;
    const int rows_left = args.q_length - first_row;
    const size_t query_row =
        query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) + (size_t)first_row;
    const size_t kv_row = kv_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y);
    const f16 *k = (const f16 *)args.k + kv_row * HEAD_DIM;
    const f16 *v = (const f16 *)args.v + kv_row * HEAD_DIM;

    float out[ROWS_PER_WARP][PAIRS_PER_LANE][2] = {};
    float row_sum[ROWS_PER_WARP] = {};
    float row_max[ROWS_PER_WARP];
    float correction[ROWS_PER_WARP];
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++)
        row_max[r] = negative_infinity();

    load_tile(shared->q, (const f16 *)args.q + query_row * HEAD_DIM, QUERY_TILE, rows_left);
    if (!USE_ONLINE_SOFTMAX)
        find_row_max(shared, k, &args, row_max);
    for (int first_key = 0; first_key < args.kv_length; first_key += KV_TILE) {
        __syncthreads();
        load_tile(shared->k, k + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        load_tile(shared->v, v + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        __syncthreads();
        score_tile(shared, args.scale * LOG2_E, args.kv_length - first_key);
        __syncwarp();
        softmax_step(shared, row_max, row_sum, correction);
        __syncwarp();
        accumulate_out(out, shared, correction);
    }
    store_out(&args, query_row, rows_left, out, row_max, row_sum);
}
