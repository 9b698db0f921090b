/* wide_loads.cu: global memory is read and written 16 bytes at a time.
 *
 * An eighth of the load and store instructions; a warp's access covers whole 128-byte lines
 * because the result is put together in shared memory first.
 *
 * grid.x = query tile, grid.y = query head, grid.z = batch; no workspace. */
#include "kernel_shape.h"
#include "ladder/ladder_args.h"
#include "ladder/problem.cuh"
#include "ptx_common.cuh"
#include "ptx_math.cuh"
#include "ptx_memory.cuh"
#include "ptx_mma.cuh"
#include "ptx_warp.cuh"

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
/* 0: two bytes at a time. */
#ifndef USE_WIDE_ACCESS
#define USE_WIDE_ACCESS 1
#endif

#define THREADS (WARPS * WARP_LANES)
#define ROWS_PER_WARP (QUERY_TILE / WARPS)
#define CHUNKS_PER_ROW (HEAD_DIM / 8) /* of 16 bytes */

/* The warps lie over a tile of results as WARP_ROWS × WARP_COLUMNS, 16 rows high. */
#define WARP_ROWS (QUERY_TILE / 16)
#define WARP_COLUMNS (WARPS / WARP_ROWS)
#define KEYS_PER_WARP (KV_TILE / WARP_COLUMNS)
#define DIMS_PER_WARP (HEAD_DIM / WARP_COLUMNS)

/* 16 bytes more than the row: the eight rows that one ldmatrix phase reads then fall on different
 * banks. */
#define ROW_STRIDE (HEAD_DIM + 8)
#define SCORE_STRIDE (KV_TILE + 8)

static_assert(WARP_ROWS * WARP_COLUMNS == WARPS, "the warps cover the rows of a tile evenly");
static_assert(KEYS_PER_WARP % 16 == 0, "a warp takes its keys 16 at a time");
static_assert(DIMS_PER_WARP % 16 == 0, "a warp takes its columns 16 at a time");
static_assert(QUERY_TILE * CHUNKS_PER_ROW % THREADS == 0, "every thread copies as many chunks");
static_assert(KV_TILE * CHUNKS_PER_ROW % THREADS == 0, "every thread copies as many chunks");
static_assert(KV_TILE % WARP_LANES == 0, "a lane owns whole scores of a row");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE][ROW_STRIDE]; /* at the end the result */
    f16 k[KV_TILE][ROW_STRIDE];
    f16 v[KV_TILE][ROW_STRIDE];
    f16 probabilities[QUERY_TILE][SCORE_STRIDE];
    float scores[QUERY_TILE][SCORE_STRIDE];
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

#if USE_WIDE_ACCESS
/* Rows past the end become 0: what lies there may be NaN, and 0 · NaN is NaN. */
static __device__ void load_tile(f16 tile[][ROW_STRIDE], const f16 *rows, int tile_rows,
                                 int rows_left)
{
#pragma unroll
    for (int first = 0; first < tile_rows * CHUNKS_PER_ROW; first += THREADS) {
        const int row = (first + thread_id()) / CHUNKS_PER_ROW;
        const int column = (first + thread_id()) % CHUNKS_PER_ROW * 8;
        uint4 chunk = {0, 0, 0, 0};
        if (row < rows_left)
            chunk = load_global_16(rows + (size_t)row * HEAD_DIM + column);
        *(uint4 *)&tile[row][column] = chunk;
    }
}

static __device__ void store_tile(f16 *rows, f16 tile[QUERY_TILE][ROW_STRIDE], int rows_left)
{
#pragma unroll
    for (int first = 0; first < QUERY_TILE * CHUNKS_PER_ROW; first += THREADS) {
        const int row = (first + thread_id()) / CHUNKS_PER_ROW;
        const int column = (first + thread_id()) % CHUNKS_PER_ROW * 8;
        if (row < rows_left)
            store_global_16(rows + (size_t)row * HEAD_DIM + column, *(uint4 *)&tile[row][column]);
    }
}
#else
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

static __device__ void store_tile(f16 *rows, f16 tile[QUERY_TILE][ROW_STRIDE], int rows_left)
{
    for (int i = thread_id(); i < QUERY_TILE * HEAD_DIM; i += THREADS) {
        const int row = i / HEAD_DIM;
        const int column = i % HEAD_DIM;
        if (row < rows_left)
            rows[(size_t)row * HEAD_DIM + column] = tile[row][column];
    }
}
#endif

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

/* Scores become probabilities relative to the row's maximum so far; a warp takes a row. */
static __device__ void softmax_step(shared_tiles *shared)
{
    for (int r = 0; r < ROWS_PER_WARP; r++) {
        const int row = warp_id() * ROWS_PER_WARP + r;
        const float old_max = shared->row_max[row];
        const float old_sum = shared->row_sum[row];

        float new_max = old_max;
        for (int key = lane_id(); key < KV_TILE; key += WARP_LANES)
            new_max = fmaxf(new_max, shared->scores[row][key]);
        new_max = warp_max(new_max);
        /* A row of -inf alone: subtracting 0 keeps exp2(-inf) = 0, -inf - -inf would be NaN. */
        const float base = new_max == negative_infinity() ? 0.0f : new_max;

        float sum = 0.0f;
        for (int key = lane_id(); key < KV_TILE; key += WARP_LANES) {
            const float probability = exp2_approx(shared->scores[row][key] - base);
            shared->probabilities[row][key] = f32_to_f16(probability);
            sum += probability;
        }
        sum = warp_sum(sum);
        __syncwarp(); /* every lane has read the row's state before lane 0 writes it */
        if (lane_id() == 0) {
            const float correction = exp2_approx(old_max - base);
            shared->row_correction[row] = correction;
            shared->row_sum[row] = old_sum * correction + sum;
            shared->row_max[row] = new_max;
        }
    }
}

static __device__ void multiply_values(float out[DIMS_PER_WARP / 8][4], const shared_tiles *shared,
                                       int first_row, int first_column)
{
#pragma unroll
    for (int step = 0; step < KV_TILE / 16; step++) {
        unsigned probabilities[4];
        ldmatrix_x4(
            probabilities,
            &shared->probabilities[first_row + lane_id() % 16][step * 16 + lane_id() / 16 * 8]);
#pragma unroll
        for (int pair = 0; pair < DIMS_PER_WARP / 16; pair++) {
            const int column = first_column + pair * 16 + lane_id() / 16 * 8;
            unsigned values[4];
            ldmatrix_x4_trans(values, &shared->v[step * 16 + lane_id() % 16][column]);
            mma_m16n8k16_f16(out[2 * pair], probabilities, values[0], values[1]);
            mma_m16n8k16_f16(out[2 * pair + 1], probabilities, values[2], values[3]);
        }
    }
}

/* out[row] = out[row] · correction + P·V. */
static __device__ void accumulate_out(float out[DIMS_PER_WARP / 8][4], const shared_tiles *shared)
{
    const int first_row = warp_id() % WARP_ROWS * 16;
    const int first_column = warp_id() / WARP_ROWS * DIMS_PER_WARP;

#pragma unroll
    for (int i = 0; i < DIMS_PER_WARP / 2; i++)
        out[i / 4][i % 4] *= shared->row_correction[first_row + result_row(i % 4)];
    multiply_values(out, shared, first_row, first_column);
}

/* The result goes through the query tile, which is no longer needed, to become whole rows. */
static __device__ void store_out(const ladder_args *args, size_t query_row, int rows_left,
                                 const float out[DIMS_PER_WARP / 8][4], shared_tiles *shared)
{
    const int first_row = warp_id() % WARP_ROWS * 16;
    const int first_column = warp_id() / WARP_ROWS * DIMS_PER_WARP;

#pragma unroll
    for (int i = 0; i < DIMS_PER_WARP / 2; i++) {
        const int row = first_row + result_row(i % 4);
        const int column = first_column + i / 4 * 8 + result_column(i % 4);
        const float row_sum = shared->row_sum[row];
        const float inverse = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
        shared->q[row][column] = f32_to_f16(out[i / 4][i % 4] * inverse);
    }
    __syncthreads();
    store_tile((f16 *)args->out + query_row * HEAD_DIM, shared->q, rows_left);
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
    float out[DIMS_PER_WARP / 8][4] = {};

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
