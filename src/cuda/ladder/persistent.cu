/* persistent.cu: as many blocks as fit on the GPU, each of which takes several tiles of rows.
 *
 * A block's start is paid once, and the producers fetch the next tile's first keys while the
 * consumers still work on the last ones of this: only the first tile of a block waits for memory
 * with nothing to do.
 *
 * grid.x = blocks, what is resident at a time; no workspace. Without the technique a block per
 * entry of work: grid.x = query tile, grid.y = query head, grid.z = batch. */
#include "kernel_shape.h"
#include "ladder/ladder_args.h"
#include "ladder/problem.cuh"
#include "ptx_async.cuh"
#include "ptx_common.cuh"
#include "ptx_math.cuh"
#include "ptx_mbarrier.cuh"
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
/* 0: a block takes one tile of rows, and there are as many blocks. */
#ifndef USE_PERSISTENT
#define USE_PERSISTENT 1
#endif
#ifndef PRODUCER_WARPS
#define PRODUCER_WARPS 1
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
#define RESIDENT_BLOCKS (HEAD_DIM <= 64 ? 3 : 2)
#endif
#ifndef WARPS
#define WARPS (QUERY_TILE / 16) /* that compute */
#endif

#define CONSUMERS (WARPS * WARP_LANES) /* the first threads of the block */
#define PRODUCERS (PRODUCER_WARPS * WARP_LANES)
#define THREADS (CONSUMERS + PRODUCERS)
/* Tiles whose copies are under way when the producers wait for the oldest of them. At most STAGES -
 * 2: the consumers must have a whole tile while the producers wait for an empty stage. */
#define TILES_IN_FLIGHT (STAGES - 2)
#if USE_SWIZZLE
#define ROW_STRIDE HEAD_DIM
#else
#define ROW_STRIDE (HEAD_DIM + ROW_PAD)
#endif
#define CHUNKS_PER_ROW (HEAD_DIM / 8) /* of 16 bytes */
#define SCORE_TILES (KV_TILE / 8)     /* results of 16×8 */
#define OUT_TILES (HEAD_DIM / 8)

static_assert(WARPS * 16 == QUERY_TILE, "a warp owns 16 rows");
static_assert(KV_TILE % 16 == 0 && HEAD_DIM % 16 == 0, "whole mma steps");
static_assert(KV_TILE * CHUNKS_PER_ROW % PRODUCERS == 0, "every thread copies as many chunks");
static_assert(STAGES >= 2, "one tile to compute on and one to fill");
static_assert(HEAD_DIM % 64 == 0, "rows of whole 128-byte groups");

/* 2. Shared memory. */

typedef struct shared_tiles {
    f16 q[QUERY_TILE * ROW_STRIDE]; /* at the end the result */
    f16 k[STAGES][KV_TILE * ROW_STRIDE];
    f16 v[STAGES][KV_TILE * ROW_STRIDE];
    mbarrier full[STAGES];  /* the producers arrive, the consumers wait */
    mbarrier empty[STAGES]; /* the other way round */
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                USE_PERSISTENT ? GRID_RESIDENT : GRID_TILES};

/* 3. Steps, in calling order. */

static __device__ void prepare_stages(shared_tiles *shared)
{
    if (thread_id() == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared->full[stage], PRODUCERS);
            mbarrier_init(&shared->empty[stage], CONSUMERS);
        }
    }
    __syncthreads();
}

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
#pragma unroll 8
    for (int first = 0; first < tile_rows * CHUNKS_PER_ROW; first += threads) {
        const int row = first / CHUNKS_PER_ROW + thread / CHUNKS_PER_ROW;
        const int column = thread % CHUNKS_PER_ROW * 8;
        copy_chunk(tile_element(tile, row, column), rows + first * 8 + thread * 8, row < rows_left);
    }
}

static __device__ void load_kv_tile(shared_tiles *shared, int stage, const f16 *k, const f16 *v,
                                    int tile, int kv_length)
{
    const size_t offset = (size_t)tile * KV_TILE * HEAD_DIM;
    const int keys_left = kv_length - tile * KV_TILE;
    const int thread = thread_id() - CONSUMERS;
    load_rows(shared->k[stage], k + offset, KV_TILE, keys_left, thread, PRODUCERS);
    load_rows(shared->v[stage], v + offset, KV_TILE, keys_left, thread, PRODUCERS);
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

/* The work: every query tile of every head. Neighbours in the list are tiles of the same head: they
 * run at the same time and share K and V in L2. */
typedef struct work {
    int batch;
    int q_head;
    int query_tile;
} work;

static __device__ int query_tiles(const ladder_args *args)
{
    return (args->q_length + QUERY_TILE - 1) / QUERY_TILE;
}

/* This block takes the entries blockIdx.x, blockIdx.x + gridDim.x, … */
static __device__ int work_of_block(const ladder_args *args)
{
    const int work_count = args->batch * args->q_heads * query_tiles(args);
    if (!USE_PERSISTENT)
        return 1;
    return (work_count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
}

/* The entry that the block takes after `before` others. */
static __device__ work work_after(const ladder_args *args, int before)
{
    const int index = (int)blockIdx.x + before * (int)gridDim.x;
    const int head = index / query_tiles(args);
    work item;
    item.batch = USE_PERSISTENT ? head / args->q_heads : (int)blockIdx.z;
    item.q_head = USE_PERSISTENT ? head % args->q_heads : (int)blockIdx.y;
    item.query_tile = USE_PERSISTENT ? index % query_tiles(args) : (int)blockIdx.x;
    return item;
}

/* 4. The kernel: producers fill stages, consumers empty them. A step is one tile of K and V; steps
 * are counted through all the work of the block, so that the producers run ahead into the next
 * entry while the consumers finish the last. A stage's phases count its steps. */

/* Starts the copy of one tile and hands over the one that has landed by now. */
static __device__ void produce_tile(const ladder_args *args, shared_tiles *shared, int step,
                                    int steps, int tiles)
{
    if (step < steps) {
        const work item = work_after(args, step / tiles);
        const size_t kv_row = kv_rows_before(args, item.batch, item.q_head);
        const f16 *k = (const f16 *)args->k + kv_row * HEAD_DIM;
        const f16 *v = (const f16 *)args->v + kv_row * HEAD_DIM;
        mbarrier_wait(&shared->empty[step % STAGES], (step / STAGES + 1) % 2);
        load_kv_tile(shared, step % STAGES, k, v, step % tiles, args->kv_length);
    }
    cp_async_commit();
    cp_async_wait(TILES_IN_FLIGHT);
    if (step >= TILES_IN_FLIGHT)
        mbarrier_arrive(&shared->full[(step - TILES_IN_FLIGHT) % STAGES]);
}

/* One entry of the list. */
static __device__ void consume(const ladder_args *args, shared_tiles *shared, work item, int tiles,
                               int first_step)
{
    f16 *warp_tile = shared->q + warp_id() * 16 * ROW_STRIDE;
    const int first_row = item.query_tile * QUERY_TILE + warp_id() * 16;
    const int rows_left = args->q_length - first_row;
    const size_t query_row = query_rows_before(args, item.batch, item.q_head) + (size_t)first_row;
    const float scale_log2 = fabsf(args->scale) * LOG2_E;
    float scores[SCORE_TILES][4];
    float out[OUT_TILES][4] = {};
    float row_max[2] = {negative_infinity(), negative_infinity()};
    float row_sum[2] = {0.0f, 0.0f};

    __syncwarp();
    load_rows(warp_tile, (const f16 *)args->q + query_row * HEAD_DIM, 16, rows_left, lane_id(),
              WARP_LANES);
    cp_async_commit();
    cp_async_wait(0);
    __syncwarp();
    for (int tile = 0; tile < tiles; tile++) {
        const int step = first_step + tile;
        const int stage = step % STAGES;
        mbarrier_wait(&shared->full[stage], step / STAGES % 2);
        __syncwarp(); /* lanes leave the wait one by one; ldmatrix takes them together */
        score_tile(scores, warp_tile, shared->k[stage], args->scale);
        mask_tile(scores, args->kv_length - tile * KV_TILE);
        softmax_step(scores, out, row_max, row_sum, scale_log2);
        accumulate_out(out, scores, shared->v[stage]);
        mbarrier_arrive(&shared->empty[stage]);
    }
    store_out(args, query_row, rows_left, warp_tile, out, row_max, row_sum);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const ladder_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int tiles = (args.kv_length + KV_TILE - 1) / KV_TILE;
    const int work_count = work_of_block(&args);
    const int steps = work_count * tiles;

    prepare_stages(shared);
    if (thread_id() < CONSUMERS)
        for (int i = 0; i < work_count; i++)
            consume(&args, shared, work_after(&args, i), tiles, i * tiles);
    else
        for (int step = 0; step < steps + TILES_IN_FLIGHT; step++)
            produce_tile(&args, shared, step, steps, tiles);
}
