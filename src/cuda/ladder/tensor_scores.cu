/* tensor_scores.cu: the tensor cores multiply Q·Kᵀ; softmax and P·V stay scalar.
 *
 * The scores leave the tensor cores spread over a warp's lanes and meet in shared memory, where one
 * thread walks each row: 32 threads work and 96 wait. The product that was made fast was the
 * smaller part of the time, and what surrounds it got slower.
 *
 * grid.x = query tile, grid.y = query head, grid.z = batch; no workspace. */
#include "kernel_shape.h"
#include "ladder/ladder_args.h"
#include "ladder/problem.cuh"
#include "ptx_common.cuh"
#include "ptx_math.cuh"
#include "ptx_mma.cuh"

/* 1. Shape. */

#ifndef QUERY_TILE
#define QUERY_TILE 32
#endif
#ifndef KV_TILE
#define KV_TILE 32
#endif
#ifndef WARPS
#define WARPS 4
#endif
/* Blocks that a multiprocessor must have registers for. Unsaid, the compiler spills for more. */
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
/* 0: the same tile by scalar arithmetic. */
#ifndef USE_TENSOR_SCORES
#define USE_TENSOR_SCORES 1
#endif

#define THREADS (WARPS * WARP_LANES)
#define ROWS_PER_WARP (QUERY_TILE / WARPS)
#define PAIRS_PER_LANE (HEAD_DIM / 2 / WARP_LANES)

/* The warps lie over a tile of results as WARP_ROWS × WARP_COLUMNS, 16 rows high. */
#define WARP_ROWS (QUERY_TILE / 16)
#define WARP_COLUMNS (WARPS / WARP_ROWS)
#define KEYS_PER_WARP (KV_TILE / WARP_COLUMNS)

/* 16 bytes more than the row: the eight rows that one ldmatrix phase reads then fall on different
 * banks. */
#define ROW_STRIDE (HEAD_DIM + 8)
#define SCORE_STRIDE (KV_TILE + 8)

static_assert(WARP_ROWS * WARP_COLUMNS == WARPS, "the warps cover the rows of a tile evenly");
static_assert(KEYS_PER_WARP % 16 == 0, "a warp takes its keys 16 at a time");
static_assert(HEAD_DIM % 64 == 0, "a lane owns whole pairs of elements of an output row");
static_assert(QUERY_TILE <= THREADS, "a thread per row");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE][ROW_STRIDE];
    f16 k[KV_TILE][ROW_STRIDE];
    f16 v[KV_TILE][ROW_STRIDE];
    float scores[QUERY_TILE][SCORE_STRIDE]; /* then the probabilities */
    float row_max[QUERY_TILE];
    float row_sum[QUERY_TILE];
    float row_correction[QUERY_TILE];
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles)};

/* 3. Steps, in calling order. */

static __device__ void reset_rows(shared_tiles *shared)
{
    for (int row = thread_id(); row < QUERY_TILE; row += THREADS) {
        shared->row_max[row] = negative_infinity();
        shared->row_sum[row] = 0.0f;
    }
}

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

/* Row and column of a lane's element 0 … 3 in a 16×8 result of the tensor cores. */
static __device__ int result_row(int element)
{
    return lane_id() / 4 + element / 2 * 8;
}

static __device__ int result_column(int element)
{
    return lane_id() % 4 * 2 + element % 2;
}

static __device__ void multiply_scores(float scores[KEYS_PER_WARP / 8][4],
                                       const shared_tiles *shared, int first_row, int first_key)
{
#if USE_TENSOR_SCORES
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        unsigned query[4];
        ldmatrix_x4(query, &shared->q[first_row + lane_id() % 16][step * 16 + lane_id() / 16 * 8]);
#pragma unroll
        for (int pair = 0; pair < KEYS_PER_WARP / 16; pair++) {
            const int key = first_key + pair * 16 + lane_id() % 16;
            unsigned keys[4];
            ldmatrix_x4(keys, &shared->k[key][step * 16 + lane_id() / 16 * 8]);
            mma_m16n8k16_f16(scores[2 * pair], query, keys[0], keys[2]);
            mma_m16n8k16_f16(scores[2 * pair + 1], query, keys[1], keys[3]);
        }
    }
#else
    for (int dim = 0; dim < HEAD_DIM; dim++) {
#pragma unroll
        for (int i = 0; i < KEYS_PER_WARP / 2; i++) {
            const f16 query = shared->q[first_row + result_row(i % 4)][dim];
            const f16 key = shared->k[first_key + i / 4 * 8 + result_column(i % 4)][dim];
            scores[i / 4][i % 4] += f16_to_f32(query) * f16_to_f32(key);
        }
    }
#endif
}

/* scores = Q·Kᵀ·scale·log2(e), -inf for keys past the end. */
static __device__ void score_tile(shared_tiles *shared, float scale_log2, int keys_left)
{
    const int first_row = warp_id() % WARP_ROWS * 16;
    const int first_key = warp_id() / WARP_ROWS * KEYS_PER_WARP;
    float scores[KEYS_PER_WARP / 8][4] = {};

    multiply_scores(scores, shared, first_row, first_key);
#pragma unroll
    for (int i = 0; i < KEYS_PER_WARP / 2; i++) {
        const int row = first_row + result_row(i % 4);
        const int key = first_key + i / 4 * 8 + result_column(i % 4);
        shared->scores[row][key] =
            key < keys_left ? scores[i / 4][i % 4] * scale_log2 : negative_infinity();
    }
}

/* Scores become probabilities relative to the row's maximum so far; one thread walks a row. */
static __device__ void softmax_step(shared_tiles *shared)
{
    const int row = thread_id();
    if (row >= QUERY_TILE)
        return;

    float new_max = shared->row_max[row];
    for (int key = 0; key < KV_TILE; key++)
        new_max = fmaxf(new_max, shared->scores[row][key]);
    /* A row of -inf alone: subtracting 0 keeps exp2(-inf) = 0, -inf - -inf would be NaN. */
    const float base = new_max == negative_infinity() ? 0.0f : new_max;

    float sum = 0.0f;
    for (int key = 0; key < KV_TILE; key++) {
        const float probability = exp2_approx(shared->scores[row][key] - base);
        shared->scores[row][key] = probability;
        sum += probability;
    }
    const float correction = exp2_approx(shared->row_max[row] - base);
    shared->row_correction[row] = correction;
    shared->row_sum[row] = shared->row_sum[row] * correction + sum;
    shared->row_max[row] = new_max;
}

/* out[row] = out[row] · correction + Σ probability · V; a lane owns the pairs lane, lane + 32, … of
 * every row. */
static __device__ void accumulate_out(float out[ROWS_PER_WARP][PAIRS_PER_LANE][2],
                                      const shared_tiles *shared)
{
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const float correction = shared->row_correction[warp_id() * ROWS_PER_WARP + r];
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            out[r][i][0] *= correction;
            out[r][i][1] *= correction;
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
                                 const shared_tiles *shared)
{
    f16 *out_rows = (f16 *)args->out + query_row * HEAD_DIM;

#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const int row = warp_id() * ROWS_PER_WARP + r;
        if (row >= rows_left)
            break;
        const float row_sum = shared->row_sum[row];
        const float inverse = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
#pragma unroll
        for (int i = 0; i < PAIRS_PER_LANE; i++) {
            f16 *pair = out_rows + (size_t)row * HEAD_DIM + (i * WARP_LANES + lane_id()) * 2;
            pair[0] = f32_to_f16(out[r][i][0] * inverse);
            pair[1] = f32_to_f16(out[r][i][1] * inverse);
        }
    }
}

static __device__ void store_lse(const ladder_args *args, size_t query_row, int rows_left,
                                 const shared_tiles *shared)
{
    for (int row = thread_id(); args->lse && row < QUERY_TILE && row < rows_left; row += THREADS)
        args->lse[query_row + (size_t)row] =
            shared->row_max[row] * LN_2 + logf(shared->row_sum[row]);
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

    reset_rows(shared);
    load_tile(shared->q, (const f16 *)args.q + query_row * HEAD_DIM, QUERY_TILE, rows_left);
    for (int first_key = 0; first_key < args.kv_length; first_key += KV_TILE) {
        __syncthreads();
        load_tile(shared->k, k + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        load_tile(shared->v, v + (size_t)first_key * HEAD_DIM, KV_TILE, args.kv_length - first_key);
        __syncthreads();
        score_tile(shared, args.scale * LOG2_E, args.kv_length - first_key);
        __syncthreads();
        softmax_step(shared);
        __syncthreads();
        accumulate_out(out, shared);
    }
    __syncthreads();
    store_out(&args, query_row, rows_left, out, shared);
    store_lse(&args, query_row, rows_left, shared);
}
