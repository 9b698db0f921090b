/* registers.cu: scores and probabilities stay in registers, and a warp owns its rows alone.
 *
 * The layout in which the tensor cores give Q·Kᵀ is the layout in which they take P: nothing of a
 * row goes through shared memory between the two products, and no warp waits for another but where
 * K and V are loaded. The exponential takes the scale along in one fused multiply-add. Q stays in
 * shared memory: in registers it would take 16 of the 128 that four blocks leave a thread.
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

/* 1. Shape: a warp owns 16 query rows. */

#ifndef QUERY_TILE
#define QUERY_TILE 64
#endif
#ifndef KV_TILE
#define KV_TILE 64
#endif
/* 0: the weights go through shared memory, as below this rung. */
#ifndef USE_REGISTER_WEIGHTS
#define USE_REGISTER_WEIGHTS 1
#endif
/* Elements between padded rows. 8, not 0: the eight rows that one ldmatrix phase reads then fall on
 * different banks. */
#ifndef ROW_PAD
#define ROW_PAD 8
#endif
/* Blocks that a multiprocessor has registers for: no more than 128 a thread for rows of 64. */
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS (HEAD_DIM <= 64 ? 4 : 2)
#endif
#ifndef WARPS
#define WARPS (QUERY_TILE / 16)
#endif

#define THREADS (WARPS * WARP_LANES)
#define ROW_STRIDE (HEAD_DIM + ROW_PAD)
#define WEIGHT_STRIDE (KV_TILE + ROW_PAD)
#define CHUNKS_PER_ROW (HEAD_DIM / 8) /* of 16 bytes */
#define SCORE_TILES (KV_TILE / 8)     /* results of 16×8 */
#define OUT_TILES (HEAD_DIM / 8)

static_assert(WARPS * 16 == QUERY_TILE, "a warp owns 16 rows");
static_assert(KV_TILE % 16 == 0 && HEAD_DIM % 16 == 0, "whole mma steps");
static_assert(KV_TILE * CHUNKS_PER_ROW % THREADS == 0, "every thread copies as many chunks");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE * ROW_STRIDE]; /* at the end the result */
    f16 k[KV_TILE * ROW_STRIDE];
    f16 v[KV_TILE * ROW_STRIDE];
#if !USE_REGISTER_WEIGHTS
    f16 weights[QUERY_TILE * WEIGHT_STRIDE];
#endif
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles)};

/* 3. Steps, in calling order. */

static __device__ f16 *tile_element(f16 *tile, int row, int column)
{
    return tile + row * ROW_STRIDE + column;
}

/* Rows past the end become 0: what lies there may be NaN, and 0 · NaN is NaN. */
static __device__ void load_rows(f16 *tile, const f16 *rows, int tile_rows, int rows_left,
                                 int thread, int threads)
{
#pragma unroll
    for (int first = 0; first < tile_rows * CHUNKS_PER_ROW; first += threads) {
        const int row = first / CHUNKS_PER_ROW + thread / CHUNKS_PER_ROW;
        const int column = thread % CHUNKS_PER_ROW * 8;
        uint4 chunk = {0, 0, 0, 0};
        if (row < rows_left)
            chunk = load_global_16(rows + first * 8 + thread * 8);
        *(uint4 *)tile_element(tile, row, column) = chunk;
    }
}

static __device__ void load_kv_tile(shared_tiles *shared, const f16 *k, const f16 *v, int first_key,
                                    int kv_length)
{
    const size_t offset = (size_t)first_key * HEAD_DIM;
    const int keys_left = kv_length - first_key;
    load_rows(shared->k, k + offset, KV_TILE, keys_left, thread_id(), THREADS);
    load_rows(shared->v, v + offset, KV_TILE, keys_left, thread_id(), THREADS);
}

/* scores = ±Q·Kᵀ. A negative scale flips the signs of Q, so that the largest raw score is always
 * the largest scaled one and the scale itself can wait for the exponential. */
static __device__ void score_tile(float scores[SCORE_TILES][4], f16 *q, f16 *k, float scale)
{
    const unsigned flip = scale < 0.0f ? 0x80008000u : 0u;

#pragma unroll
    for (int i = 0; i < SCORE_TILES * 4; i++)
        scores[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        const int column = step * 16 + lane_id() / 16 * 8;
        const f16 *row = tile_element(k, lane_id() % 16, column);
        unsigned query[4];
        ldmatrix_x4(query, tile_element(q, lane_id() % 16, column));
#pragma unroll
        for (int i = 0; i < 4; i++)
            query[i] ^= flip;
#pragma unroll
        for (int pair = 0; pair < SCORE_TILES / 2; pair++) {
            unsigned keys[4];
            ldmatrix_x4(keys, row + pair * 16 * ROW_STRIDE);
            mma_m16n8k16_f16(scores[2 * pair], query, keys[0], keys[2]);
            mma_m16n8k16_f16(scores[2 * pair + 1], query, keys[1], keys[3]);
        }
    }
}

static __device__ void mask_tile(float scores[SCORE_TILES][4], int keys_left)
{
    if (keys_left >= KV_TILE)
        return;
#pragma unroll
    for (int i = 0; i < SCORE_TILES * 4; i++) {
        const int key = i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
        if (key >= keys_left)
            scores[i / 4][i % 4] = negative_infinity();
    }
}

/* Scores become probabilities relative to the row's maximum so far. Four lanes share a row and
 * agree on its maximum; the sum stays in four parts until the end. A lane has two rows, 8 apart. */
static __device__ void softmax_step(float scores[SCORE_TILES][4], float out[OUT_TILES][4],
                                    float row_max[2], float row_sum[2], float scale_log2)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float tile_max = negative_infinity();
#pragma unroll
        for (int n = 0; n < SCORE_TILES; n++)
            tile_max = fmaxf(tile_max, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        const float new_max = fmaxf(row_max[r], quad_max(tile_max) * scale_log2);
        /* A row of -inf alone: subtracting 0 keeps exp2(-inf) = 0, -inf - -inf would be NaN. */
        const float base = new_max == negative_infinity() ? 0.0f : new_max;
        const float correction = exp2_approx(row_max[r] - base);

        float sum = 0.0f;
#pragma unroll
        for (int n = 0; n < SCORE_TILES; n++) {
            scores[n][2 * r] = exp2_approx(fmaf(scores[n][2 * r], scale_log2, -base));
            scores[n][2 * r + 1] = exp2_approx(fmaf(scores[n][2 * r + 1], scale_log2, -base));
            sum += scores[n][2 * r] + scores[n][2 * r + 1];
        }
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++) {
            out[n][2 * r] *= correction;
            out[n][2 * r + 1] *= correction;
        }
        row_sum[r] = row_sum[r] * correction + sum;
        row_max[r] = new_max;
    }
}

/* Without the technique the weights of 16 keys, a left operand already, are written by those who
 * made them and read by those who multiply. The load of the next K and V keeps the tiles apart. */
static __device__ void pass_weights(shared_tiles *shared, unsigned weights[4], int step)
{
#if !USE_REGISTER_WEIGHTS
    f16 *tile = shared->weights + warp_id() * 16 * WEIGHT_STRIDE + step * 16;
    f16 *own = tile + lane_id() / 4 * WEIGHT_STRIDE + lane_id() % 4 * 2;

#pragma unroll
    for (int i = 0; i < 4; i++)
        *(unsigned *)(own + i % 2 * 8 * WEIGHT_STRIDE + i / 2 * 8) = weights[i];
    __syncwarp();
    ldmatrix_x4(weights, tile + lane_id() % 16 * WEIGHT_STRIDE + lane_id() / 16 * 8);
#endif
}

/* out += P·V. Two neighbouring results of Q·Kᵀ are, rounded to f16, a left operand. */
static __device__ void accumulate_out(float out[OUT_TILES][4], const float scores[SCORE_TILES][4],
                                      shared_tiles *shared)
{
#pragma unroll
    for (int step = 0; step < KV_TILE / 16; step++) {
        unsigned weights[4] = {
            pack_f16x2(scores[2 * step][0], scores[2 * step][1]),
            pack_f16x2(scores[2 * step][2], scores[2 * step][3]),
            pack_f16x2(scores[2 * step + 1][0], scores[2 * step + 1][1]),
            pack_f16x2(scores[2 * step + 1][2], scores[2 * step + 1][3]),
        };
        pass_weights(shared, weights, step);
#pragma unroll
        for (int pair = 0; pair < OUT_TILES / 2; pair++) {
            const f16 *row =
                tile_element(shared->v, lane_id() % 16, pair * 16 + lane_id() / 16 * 8);
            unsigned values[4];
            ldmatrix_x4_trans(values, row + step * 16 * ROW_STRIDE);
            mma_m16n8k16_f16(out[2 * pair], weights, values[0], values[1]);
            mma_m16n8k16_f16(out[2 * pair + 1], weights, values[2], values[3]);
        }
    }
}

/* The warp's rows go through its part of the query tile to become 16-byte stores. */
static __device__ void store_out(const ladder_args *args, size_t query_row, int rows_left,
                                 f16 *tile, const float out[OUT_TILES][4], const float row_max[2],
                                 const float row_sum[2])
{
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = lane_id() / 4 + r * 8;
        const float sum = quad_sum(row_sum[r]);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++)
            *(unsigned *)tile_element(tile, row, n * 8 + lane_id() % 4 * 2) =
                pack_f16x2(out[n][2 * r] * inverse, out[n][2 * r + 1] * inverse);
        if (args->lse && lane_id() % 4 == 0 && row < rows_left)
            args->lse[query_row + (size_t)row] = row_max[r] * LN_2 + logf(sum);
    }
    __syncwarp();
    f16 *out_rows = (f16 *)args->out + query_row * HEAD_DIM;
#pragma unroll 1 /* unrolled, its addresses would hold registers through the whole kernel */
    for (int i = lane_id(); i < 16 * CHUNKS_PER_ROW; i += WARP_LANES) {
        const int row = i / CHUNKS_PER_ROW;
        const int column = i % CHUNKS_PER_ROW * 8;
        if (row < rows_left)
            store_global_16(out_rows + (size_t)row * HEAD_DIM + column,
                            *(uint4 *)tile_element(tile, row, column));
    }
}

/* 4. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const ladder_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    f16 *warp_tile = shared->q + warp_id() * 16 * ROW_STRIDE;
    const int first_row = (int)blockIdx.x * QUERY_TILE + warp_id() * 16;
    const int rows_left = args.q_length - first_row;
    const size_t query_row =
        query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) + (size_t)first_row;
    const size_t kv_row = kv_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y);
    const f16 *k = (const f16 *)args.k + kv_row * HEAD_DIM;
    const f16 *v = (const f16 *)args.v + kv_row * HEAD_DIM;
    const float scale_log2 = fabsf(args.scale) * LOG2_E;
    float scores[SCORE_TILES][4];
    float out[OUT_TILES][4] = {};
    float row_max[2] = {negative_infinity(), negative_infinity()};
    float row_sum[2] = {0.0f, 0.0f};

    load_rows(warp_tile, (const f16 *)args.q + query_row * HEAD_DIM, 16, rows_left, lane_id(),
              WARP_LANES);
    for (int first_key = 0; first_key < args.kv_length; first_key += KV_TILE) {
        __syncthreads();
        load_kv_tile(shared, k, v, first_key, args.kv_length);
        __syncthreads();
        score_tile(scores, warp_tile, shared->k, args.scale);
        mask_tile(scores, args.kv_length - first_key);
        softmax_step(scores, out, row_max, row_sum, scale_log2);
        accumulate_out(out, scores, shared);
    }
    store_out(&args, query_row, rows_left, warp_tile, out, row_max, row_sum);
}
