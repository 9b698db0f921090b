/* split_keys.cu: several blocks share a tile of rows, each with a part of the keys.
 *
 * Starts from swizzle.cu. A problem with few rows has too few blocks to fill the GPU; splitting the
 * keys makes more. Each block leaves its maximum, sum and undivided result in the workspace, and a
 * second kernel merges them as the online softmax would.
 *
 *   KERNEL_NAME         grid.x = query tile, grid.y = query head, grid.z = batch · splits + split
 *   KERNEL_NAME_merge   grid.x = tile of MERGE_ROWS rows, grid.y = query head, grid.z = batch
 *
 * Workspace: batch · q_heads · q_length · splits · (HEAD_DIM + 2) · 4 bytes. */
#include "kernel_shape.h"
#include "ladder/ladder_args.h"
#include "ladder/problem.cuh"
#include "ptx_async.cuh"
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
/* Tiles of K and V in shared memory at a time. */
#ifndef STAGES
#define STAGES 3
#endif
/* 0: one block takes all keys of a tile of rows; what it leaves is still merged, with nothing. */
#ifndef USE_SPLIT_KEYS
#define USE_SPLIT_KEYS 1
#endif
/* 0: copies go through registers, and the threads wait for them. */
#ifndef USE_CP_ASYNC
#define USE_CP_ASYNC 1
#endif
/* 0: rows are padded. */
#ifndef USE_SWIZZLE
#define USE_SWIZZLE 1
#endif
/* Elements between padded rows; 0 shows what bank conflicts cost. */
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
#if USE_SWIZZLE
#define ROW_STRIDE HEAD_DIM
#else
#define ROW_STRIDE (HEAD_DIM + ROW_PAD)
#endif
#define MERGE_ROWS 4 /* of a block of the merge, a warp each */
#define MERGE_THREADS (MERGE_ROWS * WARP_LANES)
#define CHUNKS_PER_ROW (HEAD_DIM / 8) /* of 16 bytes */
#define SCORE_TILES (KV_TILE / 8)     /* results of 16×8 */
#define OUT_TILES (HEAD_DIM / 8)

static_assert(WARPS * 16 == QUERY_TILE, "a warp owns 16 rows");
static_assert(KV_TILE % 16 == 0 && HEAD_DIM % 16 == 0, "whole mma steps");
static_assert(KV_TILE * CHUNKS_PER_ROW % THREADS == 0, "every thread copies as many chunks");
static_assert(STAGES >= 2, "one tile to compute on and one to fill");
static_assert(HEAD_DIM % 64 == 0, "rows of whole 128-byte groups");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE * ROW_STRIDE];
    f16 k[STAGES][KV_TILE * ROW_STRIDE];
    f16 v[STAGES][KV_TILE * ROW_STRIDE];
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                USE_SPLIT_KEYS ? GRID_SPLITS : GRID_TILES};
KERNEL_SHAPE_OF(PASTE_NAMES(KERNEL_NAME, _merge)) = {MERGE_ROWS, KV_TILE, MERGE_THREADS, 0};

/* 3. Steps, in calling order. */

/* Swizzled: the 16-byte chunk c of a row lies at c ^ (row % 8). Eight rows that one ldmatrix phase
 * reads then fall on different banks, without padding. */
static __device__ f16 *tile_element(f16 *tile, int row, int column)
{
#if USE_SWIZZLE
    column ^= row % 8 * 8;
#endif
    return tile + row * ROW_STRIDE + column;
}

/* Copies 16 bytes; rows past the end become 0: what lies there may be NaN, and 0 · NaN is NaN. */
static __device__ void copy_chunk(f16 *shared, const f16 *global, int wanted)
{
#if USE_CP_ASYNC
    cp_async_16_or_zero(shared, global, wanted);
#else
    uint4 chunk = {0, 0, 0, 0};
    if (wanted)
        chunk = load_global_16(global);
    *(uint4 *)shared = chunk;
#endif
}

static __device__ void load_rows(f16 *tile, const f16 *rows, int tile_rows, int rows_left,
                                 int thread, int threads)
{
#pragma unroll
    for (int first = 0; first < tile_rows * CHUNKS_PER_ROW; first += threads) {
        const int row = first / CHUNKS_PER_ROW + thread / CHUNKS_PER_ROW;
        const int column = thread % CHUNKS_PER_ROW * 8;
        copy_chunk(tile_element(tile, row, column), rows + first * 8 + thread * 8, row < rows_left);
    }
}

static __device__ void load_kv_tile(shared_tiles *shared, const f16 *k, const f16 *v, int tile,
                                    int kv_length)
{
    const size_t offset = (size_t)tile * KV_TILE * HEAD_DIM;
    const int keys_left = kv_length - tile * KV_TILE;
    const int stage = tile % STAGES;
    load_rows(shared->k[stage], k + offset, KV_TILE, keys_left, thread_id(), THREADS);
    load_rows(shared->v[stage], v + offset, KV_TILE, keys_left, thread_id(), THREADS);
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

/* out += P·V. Two neighbouring results of Q·Kᵀ are, rounded to f16, a left operand. */
static __device__ void accumulate_out(float out[OUT_TILES][4], const float scores[SCORE_TILES][4],
                                      f16 *v)
{
#pragma unroll
    for (int step = 0; step < KV_TILE / 16; step++) {
        const unsigned probabilities[4] = {
            pack_f16x2(scores[2 * step][0], scores[2 * step][1]),
            pack_f16x2(scores[2 * step][2], scores[2 * step][3]),
            pack_f16x2(scores[2 * step + 1][0], scores[2 * step + 1][1]),
            pack_f16x2(scores[2 * step + 1][2], scores[2 * step + 1][3]),
        };
#pragma unroll
        for (int pair = 0; pair < OUT_TILES / 2; pair++) {
            const f16 *row = tile_element(v, lane_id() % 16, pair * 16 + lane_id() / 16 * 8);
            unsigned values[4];
            ldmatrix_x4_trans(values, row + step * 16 * ROW_STRIDE);
            mma_m16n8k16_f16(out[2 * pair], probabilities, values[0], values[1]);
            mma_m16n8k16_f16(out[2 * pair + 1], probabilities, values[2], values[3]);
        }
    }
}

/* The workspace, one entry per row and split: index = row · splits + split, rows of the whole out.
 */
typedef struct partials {
    float *out; /* [index][HEAD_DIM], not yet divided by the sum */
    float *row_max;
    float *row_sum;
} partials;

static __device__ partials partials_in(const ladder_args *args)
{
    const size_t count = query_rows_before(args, args->batch, 0) * (size_t)args->splits;
    partials all;
    all.out = (float *)args->workspace;
    all.row_max = all.out + count * HEAD_DIM;
    all.row_sum = all.row_max + count;
    return all;
}

static __device__ void store_partial(const ladder_args *args, size_t query_row, int rows_left,
                                     int split, const float out[OUT_TILES][4],
                                     const float row_max[2], const float row_sum[2])
{
    const partials all = partials_in(args);

#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = lane_id() / 4 + r * 8;
        const size_t index = (query_row + (size_t)row) * (size_t)args->splits + (size_t)split;
        const float sum = quad_sum(row_sum[r]);
        if (row >= rows_left)
            continue;
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++) {
            const float2 pair = {out[n][2 * r], out[n][2 * r + 1]};
            *(float2 *)(all.out + index * HEAD_DIM + n * 8 + lane_id() % 4 * 2) = pair;
        }
        if (lane_id() % 4 == 0) {
            all.row_max[index] = row_max[r];
            all.row_sum[index] = sum;
        }
    }
}

/* 4. The kernels. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const ladder_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    f16 *warp_tile = shared->q + warp_id() * 16 * ROW_STRIDE;
    const int first_row = (int)blockIdx.x * QUERY_TILE + warp_id() * 16;
    const int rows_left = args.q_length - first_row;
    const int batch = (int)blockIdx.z / args.splits;
    const int split = (int)blockIdx.z % args.splits;
    const size_t query_row = query_rows_before(&args, batch, (int)blockIdx.y) + (size_t)first_row;
    const size_t kv_row = kv_rows_before(&args, batch, (int)blockIdx.y);
    const f16 *k = (const f16 *)args.k + kv_row * HEAD_DIM;
    const f16 *v = (const f16 *)args.v + kv_row * HEAD_DIM;
    const float scale_log2 = fabsf(args.scale) * LOG2_E;
    const int tiles = (args.kv_length + KV_TILE - 1) / KV_TILE;
    const int first_tile = (int)((long long)tiles * split / args.splits);
    const int last_tile = (int)((long long)tiles * (split + 1) / args.splits);
    float scores[SCORE_TILES][4];
    float out[OUT_TILES][4] = {};
    float row_max[2] = {negative_infinity(), negative_infinity()};
    float row_sum[2] = {0.0f, 0.0f};

    load_rows(warp_tile, (const f16 *)args.q + query_row * HEAD_DIM, 16, rows_left, lane_id(),
              WARP_LANES);
    cp_async_commit();
    for (int tile = first_tile; tile < first_tile + STAGES - 1; tile++) {
        if (tile < last_tile)
            load_kv_tile(shared, k, v, tile, args.kv_length);
        cp_async_commit();
    }
    for (int tile = first_tile; tile < last_tile; tile++) {
        /* This tile has landed, and every warp is done with the one whose stage is filled next. */
        cp_async_wait(STAGES - 2);
        __syncthreads();
        if (tile + STAGES - 1 < last_tile)
            load_kv_tile(shared, k, v, tile + STAGES - 1, args.kv_length);
        cp_async_commit();
        score_tile(scores, warp_tile, shared->k[tile % STAGES], args.scale);
        mask_tile(scores, args.kv_length - tile * KV_TILE);
        softmax_step(scores, out, row_max, row_sum, scale_log2);
        accumulate_out(out, scores, shared->v[tile % STAGES]);
    }
    cp_async_wait(0); /* without keys Q is still on its way */
    store_partial(&args, query_row, rows_left, split, out, row_max, row_sum);
}

/* A warp merges a row, always in the order of the splits: the same bits every time. */
extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
    PASTE_NAMES(KERNEL_NAME, _merge)(const ladder_args args)
{
    const partials all = partials_in(&args);
    const int row = (int)blockIdx.x * MERGE_ROWS + warp_id();
    if (row >= args.q_length)
        return;
    const size_t query_row =
        query_rows_before(&args, (int)blockIdx.z, (int)blockIdx.y) + (size_t)row;
    const size_t first = query_row * (size_t)args.splits;

    float row_max = negative_infinity();
    for (int split = 0; split < args.splits; split++)
        row_max = fmaxf(row_max, all.row_max[first + (size_t)split]);
    const float base = row_max == negative_infinity() ? 0.0f : row_max;

    float row_sum = 0.0f;
    float out[HEAD_DIM / WARP_LANES] = {};
    for (int split = 0; split < args.splits; split++) {
        const size_t index = first + (size_t)split;
        const float weight = exp2_approx(all.row_max[index] - base);
        row_sum += weight * all.row_sum[index];
#pragma unroll
        for (int i = 0; i < HEAD_DIM / WARP_LANES; i++)
            out[i] += weight * all.out[index * HEAD_DIM + i * WARP_LANES + lane_id()];
    }

    const float inverse = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
    f16 *out_row = (f16 *)args.out + query_row * HEAD_DIM;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / WARP_LANES; i++)
        out_row[i * WARP_LANES + lane_id()] = f32_to_f16(out[i] * inverse);
    if (args.lse && lane_id() == 0)
        args.lse[query_row] = row_max * LN_2 + logf(row_sum);
}
