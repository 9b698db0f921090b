/* prefill.cu: attention over many query rows, for Ampere, Ada and what comes after.
 *
 * A block owns QUERY_TILE query rows and walks over the keys they see, KV_TILE at a time, through
 * STAGES tiles of K and V in shared memory that cp.async fills ahead. Each warp keeps the scores,
 * the softmax and the output of its rows in registers. docs/kernels/sm80.md.
 *
 * grid.x = query tile × slices of the value dims, grid.y = query head (or group of packed heads),
 * grid.z = batch. */
#include "kernel_shape.h"
#include "ptx_common.cuh"

/* 1. Shape. */

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
/* Value dims of one block: where it is less than the problem's, blocks share a row's dims. */
#ifndef VALUE_DIM
#define VALUE_DIM HEAD_DIM
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef ROW_GROUPS
#define ROW_GROUPS 2
#endif
#ifndef KV_TILE
#define KV_TILE 64
#endif
#ifndef STAGES
#define STAGES 2
#endif
/* 1: a warp keeps its rows of Q in registers. */
#ifndef Q_IN_REGISTERS
#define Q_IN_REGISTERS (HEAD_DIM <= 64)
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
#ifndef FEATURES
#define FEATURES 0
#endif

#define THREADS (WARPS * WARP_LANES)
#define QUERY_TILE (WARPS * 16 * ROW_GROUPS)
#define SCORE_TILES (KV_TILE / 8)

#include "sm80/features.cuh"
#include "sm80/store.cuh"

static_assert(KV_TILE % 16 == 0 && HEAD_DIM % 64 == 0 && VALUE_DIM % 64 == 0, "whole mma steps");
static_assert(VALUE_DIM <= HEAD_DIM, "the output goes through the query tile");

/* 2. Shared memory. */

typedef struct shared_tiles {
    element q[QUERY_TILE * HEAD_DIM]; /* at the end the result */
    element k[STAGES][KV_TILE * HEAD_DIM];
    element v[STAGES][KV_TILE * VALUE_DIM];
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles)};

/* 3. Steps, in calling order. */

static __device__ __forceinline__ void load_kv_tile(const attention_args *args,
                                                    const sequence_share *share,
                                                    const row_source *k, const row_source *v,
                                                    shared_tiles *shared, int stage, int first_key)
{
    copy_rows(args, share, k, shared->k[stage], KV_TILE, HEAD_DIM, first_key, share->kv_rows,
              thread_id(), THREADS);
    copy_rows(args, share, v, shared->v[stage], KV_TILE, VALUE_DIM, first_key, share->kv_rows,
              thread_id(), THREADS);
}

/* A negative scale flips the signs of Q, so that the largest raw score is always the largest
 * scaled one and the scale itself can wait for the exponential. */
static __device__ __forceinline__ void flip_queries(element *q, int elements, int thread,
                                                    int threads)
{
    for (int i = 2 * thread; i < elements; i += 2 * threads)
        *(unsigned *)(q + i) ^= 0x80008000u;
}

static __device__ __forceinline__ void score_steps(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                   unsigned query[][ROW_GROUPS][4], element *q,
                                                   element *k, int first_step, int end_step)
{
#pragma unroll
    for (int step = first_step; step < end_step; step++) {
#if Q_IN_REGISTERS
        score_step(scores, query[step], k, step, 0, SCORE_TILES, step == first_step);
#else
        unsigned query_step[ROW_GROUPS][4];
        load_query_step(query_step, q, step);
        score_step(scores, query_step, k, step, 0, SCORE_TILES, step == first_step);
#endif
    }
}

/* The tensor cores' sums are not rounded but cut off; over many dims that adds up, so that a row is
 * summed in parts. */
#define SUM_STEPS 16

static __device__ __forceinline__ void score_tile(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  unsigned query[][ROW_GROUPS][4], element *q,
                                                  element *k)
{
    score_steps(scores, query, q, k, 0, min(SUM_STEPS, QUERY_STEPS));
#pragma unroll
    for (int first = SUM_STEPS; first < QUERY_STEPS; first += SUM_STEPS) {
        float part[ROW_GROUPS][SCORE_TILES][4];
        score_steps(part, query, q, k, first, min(first + SUM_STEPS, QUERY_STEPS));
#pragma unroll
        for (int i = 0; i < TILE_SCORES; i++)
            *tile_score(scores, i) += *tile_score(part, i);
    }
}

/* out += P·V. */
static __device__ __forceinline__ void value_tile(float out[ROW_GROUPS][OUT_TILES][4],
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  element *v, softmax_state *softmax,
                                                  const float base[LANE_ROWS], float scale_log2)
{
#pragma unroll
    for (int step = 0; step < SCORE_TILES / 2; step++)
        value_step(out, scores, v + step * 16 * VALUE_DIM, step,
                   INTERLEAVE && step + 1 < SCORE_TILES / 2, softmax, base, scale_log2);
}

/* The warp's rows go through its part of the query tile to become 16-byte stores. */
static __device__ __forceinline__ void store_rows(const attention_args *args,
                                                  const sequence_share *share, element *tile,
                                                  int first_row, int first_dim,
                                                  const float out[ROW_GROUPS][OUT_TILES][4],
                                                  const float factor[LANE_ROWS])
{
    __syncwarp();
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++)
            *(unsigned *)tile_element(tile, VALUE_DIM, lane_row(r), n * 8 + lane_id() % 4 * 2) =
                pack_elements(out[r / 2][n][r % 2 * 2] * factor[r],
                              out[r / 2][n][r % 2 * 2 + 1] * factor[r]);
    __syncwarp();
    store_tile(args, share, tile, WARP_ROWS, first_row, first_dim, lane_id(), WARP_LANES);
}

static __device__ __forceinline__ void finish(const attention_args *args,
                                              const sequence_share *share, element *tile,
                                              int first_row, int first_dim,
                                              const float out[ROW_GROUPS][OUT_TILES][4],
                                              const softmax_state *softmax)
{
    float factor[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = first_row + lane_row(r);
        const row_end end = finish_row(args, softmax->max[r], quad_sum(softmax->sum[r]),
                                       head_of(args, share, row), 1);
        factor[r] = end.factor;
        if (lane_id() % 4 == 0 && row < share->rows && first_dim == 0)
            store_lse(args, share, row, end);
    }
    if (!FEATURES || args->more.vector_stores)
        store_rows(args, share, tile, first_row, first_dim, out, factor);
    else
        store_rows_by_element(args, share, first_row, first_dim, out, factor);
}

/* 4. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    /* Rows that see the most keys come first: a long block that started last would be waited for.
     */
    const int place = (int)(gridDim.x - 1 - blockIdx.x);
    const int first_dim = FEATURES ? remainder_of(place, args.more.value_slices) * VALUE_DIM : 0;
    const int block_row = (FEATURES ? divide(place, args.more.value_slices) : place) * QUERY_TILE;
    const sequence_share share =
        find_share(&args, args.first_batch + (int)blockIdx.z, (int)blockIdx.y);
    if (block_row >= share.rows)
        return;
    const int warp_row = block_row + warp_id() * WARP_ROWS;
    element *warp_q = shared->q + warp_id() * WARP_ROWS * HEAD_DIM;
    const key_limits limits = limits_of_rows(&args, &share, block_row, QUERY_TILE);
    const int first_tile = limits.first / KV_TILE;
    const int end_tile = (limits.end + KV_TILE - 1) / KV_TILE;
    const row_source k = find_keys(&args, &share, args.k, STRIDES(&args, k), args.head_dim, 0);
    const row_source v =
        find_keys(&args, &share, args.v, STRIDES(&args, v), args.value_dim, first_dim);
    const float scale_log2 = FEATURES ? 1.0f : fabsf(args.scale) * LOG2_E;

    float scores[ROW_GROUPS][SCORE_TILES][4];
    float out[ROW_GROUPS][OUT_TILES][4] = {};
    softmax_state softmax;
    forget(&softmax);

    copy_queries(&args, &share, warp_q, WARP_ROWS, HEAD_DIM, warp_row, lane_id(), WARP_LANES);
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (first_tile + stage < end_tile)
            load_kv_tile(&args, &share, &k, &v, shared, stage, (first_tile + stage) * KV_TILE);
        cp_async_commit();
    }
    cp_async_wait(STAGES - 2);
    __syncwarp();
    if (!FEATURES && args.scale < 0.0f)
        flip_queries(warp_q, WARP_ROWS * HEAD_DIM, lane_id(), WARP_LANES);
    __syncwarp();
    unsigned query[Q_IN_REGISTERS ? QUERY_STEPS : 1][ROW_GROUPS][4];
#if Q_IN_REGISTERS
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++)
        load_query_step(query[step], warp_q, step);
#endif

    int stage = 0;
#pragma unroll 1
    for (int tile = first_tile; tile < end_tile; tile++) {
        /* This tile has landed, and every warp is done with the one whose stage is filled next. */
        cp_async_wait(STAGES - 2);
        __syncthreads();
        const int next_stage = stage == 0 ? STAGES - 1 : stage - 1;
        if (tile + STAGES - 1 < end_tile)
            load_kv_tile(&args, &share, &k, &v, shared, next_stage,
                         (tile + STAGES - 1) * KV_TILE);
        cp_async_commit();
        const int first_key = tile * KV_TILE;
        const int at_boundary =
            first_key < limits.all_first || first_key + KV_TILE > limits.all_end;
        float base[LANE_ROWS];
        score_tile(scores, query, warp_q, shared->k[stage]);
#if FEATURES
        shape_scores(scores, &args, &share, warp_row, first_key, share.kv_rows);
#endif
        if (at_boundary)
            hide_keys(scores, &args, &share, warp_row, first_key, share.kv_rows);
        move_maximum(scores, out, &softmax, base, scale_log2);
        const int count_rest = (FEATURES || at_boundary) && see_few_keys(&args, &limits);
        const int by_key = may_hide_keys(&args, at_boundary) &&
                           __syncthreads_or((int)find_not_finite(
                               shared->v[stage], KV_TILE * VALUE_DIM, thread_id(), THREADS));
        weigh_scores(scores, &softmax, base, scale_log2, by_key, &args, &share, warp_row,
                     first_key);
        if (by_key)
            value_keys_one_by_one(out, scores, shared->v[stage], 0, KV_TILE);
        else
            value_tile(out, scores, shared->v[stage], &softmax, base, scale_log2);
        if (count_rest && !by_key)
#pragma unroll
            for (int step = 0; step < SCORE_TILES / 2; step++)
                value_step_rest(out, scores, shared->v[stage] + step * 16 * VALUE_DIM, step);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    cp_async_wait(0); /* without keys Q is still on its way */
    finish(&args, &share, warp_q, warp_row, first_dim, out, &softmax);
}
