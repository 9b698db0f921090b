/* unfused.cu: attention as three kernels, softmax(Q·Kᵀ·scale), then its product with V.
 *
 *   KERNEL_NAME_scores    Q, K -> scores·log2(e)       in the workspace
 *   KERNEL_NAME_softmax   scores -> probabilities      in place, and lse
 *   KERNEL_NAME_values    probabilities, V -> out
 *
 * The workspace holds one float per score: batch · q_heads · q_length · kv_length · 4 bytes. It
 * is written twice and read four times, and that is what fusing the three kernels saves.
 *
 * Every kernel: grid.x = query tile, grid.y = query head, grid.z = batch; a warp owns
 * ROWS_PER_WARP rows of its block's tile. */
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

typedef struct score_tiles {
    f16 q[QUERY_TILE][ROW_STRIDE];
    f16 k[KV_TILE][ROW_STRIDE];
} score_tiles;

typedef struct value_tiles {
    f16 v[KV_TILE][ROW_STRIDE];
    float scores[QUERY_TILE][KV_TILE];
} value_tiles;

KERNEL_SHAPE_OF(PASTE_NAMES(KERNEL_NAME, _scores)) = {QUERY_TILE, KV_TILE, THREADS,
                                                      (int)sizeof(score_tiles)};
KERNEL_SHAPE_OF(PASTE_NAMES(KERNEL_NAME, _softmax)) = {QUERY_TILE, KV_TILE, THREADS, 0};
KERNEL_SHAPE_OF(PASTE_NAMES(KERNEL_NAME, _values)) = {QUERY_TILE, KV_TILE, THREADS,
                                                      (int)sizeof(value_tiles)};

/* 3. Steps. */

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

static __device__ void load_scores(float tile[QUERY_TILE][KV_TILE], const float *scores,
                                   int kv_length, int rows_left, int keys_left)
{
    for (int i = thread_id(); i < QUERY_TILE * KV_TILE; i += THREADS) {
        const int row = i / KV_TILE;
        const int key = i % KV_TILE;
        const int wanted = row < rows_left && key < keys_left;
        tile[row][key] = wanted ? scores[(size_t)row * kv_length + key] : 0.0f;
    }
}

/* A lane's dot products of its key with the warp's rows. */
static __device__ void score_rows(float scores[ROWS_PER_WARP], const score_tiles *tiles)
{
    const unsigned *key = (const unsigned *)tiles->k[lane_id()];

#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++)
        scores[r] = 0.0f;
    for (int pair = 0; pair < PAIRS_PER_ROW; pair++) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; r++) {
            const int row = warp_id() * ROWS_PER_WARP + r;
            const unsigned query = ((const unsigned *)tiles->q[row])[pair];
            scores[r] += low_f16(query) * low_f16(key[pair]);
            scores[r] += high_f16(query) * high_f16(key[pair]);
        }
    }
}

/* out[row] += Σ probability · V; a lane owns the pairs lane, lane + 32, … of every row. */
static __device__ void accumulate_out(float out[ROWS_PER_WARP][PAIRS_PER_LANE][2],
                                      float scores[QUERY_TILE][KV_TILE], f16 v[KV_TILE][ROW_STRIDE])
{
    for (int key = 0; key < KV_TILE; key++) {
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            const unsigned value = ((const unsigned *)v[key])[i * WARP_LANES + lane_id()];
#pragma unroll
            for (int r = 0; r < ROWS_PER_WARP; r++) {
                const float probability = scores[warp_id() * ROWS_PER_WARP + r][key];
                out[r][i][0] += probability * low_f16(value);
                out[r][i][1] += probability * high_f16(value);
            }
        }
    }
}

/* 4. The kernels. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    PASTE_NAMES(KERNEL_NAME, _scores)(const ladder_args args)
{
    score_tiles *tiles = SHARED_MEMORY(score_tiles);
    const int first_row = (int)blockIdx.x * QUERY_TILE;
    const size_t query_row =
        query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) + (size_t)first_row;
    const f16 *q = (const f16 *)args.q + query_row * HEAD_DIM;
    const f16 *k =
        (const f16 *)args.k + kv_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) * HEAD_DIM;
    float *scores = (float *)args.workspace + query_row * (size_t)args.kv_length;

    load_tile(tiles->q, q, QUERY_TILE, args.q_length - first_row);
    for (int first_key = 0; first_key < args.kv_length; first_key += KV_TILE) {
        __syncthreads();
        load_tile(tiles->k, k + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        __syncthreads();
        float lane_scores[ROWS_PER_WARP];
        score_rows(lane_scores, tiles);
        const int key = first_key + lane_id();
        for (int r = 0; r < ROWS_PER_WARP; r++) {
            const int row = warp_id() * ROWS_PER_WARP + r;
            if (first_row + row < args.q_length && key < args.kv_length)
                scores[(size_t)row * args.kv_length + key] = lane_scores[r] * args.scale * LOG2_E;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    PASTE_NAMES(KERNEL_NAME, _softmax)(const ladder_args args)
{
    const size_t first_of_head = query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y);
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const int row = (int)blockIdx.x * QUERY_TILE + warp_id() * ROWS_PER_WARP + r;
        if (row >= args.q_length)
            break;
        float *scores =
            (float *)args.workspace + (first_of_head + (size_t)row) * (size_t)args.kv_length;

        float row_max = negative_infinity();
        for (int key = lane_id(); key < args.kv_length; key += WARP_LANES)
            row_max = fmaxf(row_max, scores[key]);
        row_max = warp_max(row_max);
        /* A row of -inf alone: subtracting 0 keeps exp2(-inf) = 0, -inf - -inf would be NaN. */
        const float base = row_max == negative_infinity() ? 0.0f : row_max;

        float row_sum = 0.0f;
        for (int key = lane_id(); key < args.kv_length; key += WARP_LANES)
            row_sum += exp2_approx(scores[key] - base);
        row_sum = warp_sum(row_sum);

        const float inverse = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
        for (int key = lane_id(); key < args.kv_length; key += WARP_LANES)
            scores[key] = exp2_approx(scores[key] - base) * inverse;
        if (args.lse && lane_id() == 0)
            args.lse[first_of_head + (size_t)row] = row_max * LN_2 + logf(row_sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    PASTE_NAMES(KERNEL_NAME, _values)(const ladder_args args)
{
    value_tiles *tiles = SHARED_MEMORY(value_tiles);
    const int first_row = (int)blockIdx.x * QUERY_TILE;
    const size_t query_row =
        query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) + (size_t)first_row;
    const float *scores = (const float *)args.workspace + query_row * (size_t)args.kv_length;
    const f16 *v =
        (const f16 *)args.v + kv_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) * HEAD_DIM;

    float out[ROWS_PER_WARP][PAIRS_PER_LANE][2] = {};
    for (int first_key = 0; first_key < args.kv_length; first_key += KV_TILE) {
        __syncthreads();
        load_scores(tiles->scores, scores + first_key, args.kv_length, args.q_length - first_row,
                    args.kv_length - first_key);
        load_tile(tiles->v, v + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        __syncthreads();
        accumulate_out(out, tiles->scores, tiles->v);
    }

    f16 *out_rows = (f16 *)args.out + query_row * HEAD_DIM;
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const int row = warp_id() * ROWS_PER_WARP + r;
        if (first_row + row >= args.q_length)
            break;
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            f16 *pair = out_rows + (size_t)row * HEAD_DIM + (i * WARP_LANES + lane_id()) * 2;
            pair[0] = f32_to_f16(out[r][i][0]);
            pair[1] = f32_to_f16(out[r][i][1]);
        }
    }
}
