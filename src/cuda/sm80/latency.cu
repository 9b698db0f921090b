/* latency.cu: attention over few query rows, or few blocks' worth of them: the least time to the
 * answer, for Ampere, Ada and what comes after.
 *
 * All warps of a block work on the same WARP_ROWS query rows, each on its own keys: WARP_KEYS at a
 * time, through SLOTS small buffers of its own that cp.async fills ahead, without a barrier between
 * warps. At the end the warps' results meet in shared memory. Where even that leaves
 * multiprocessors idle, blocks split the keys further and a second kernel (merge.cu) joins them.
 * docs/kernels/sm80.md.
 *
 * grid.x = query tile × splits, grid.y = query head (or group of packed heads), grid.z = batch. */
#include "kernel_shape.h"
#include "ptx_common.cuh"

/* 1. Shape. */

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef VALUE_DIM
#define VALUE_DIM HEAD_DIM
#endif
#ifndef WARPS
#define WARPS 8
#endif
#ifndef ROW_GROUPS
#define ROW_GROUPS 2
#endif
/* Keys that a warp takes at a time. */
#ifndef WARP_KEYS
#define WARP_KEYS 64
#endif
/* Buffers of a warp, SLOT_KEYS rows of K or V each. Enough for all K of a round to be under way, and
 * no more: what comes after it would be in its way. */
#ifndef SLOTS
#define SLOTS 5
#endif
#ifndef SLOT_KEYS
#define SLOT_KEYS 16
#endif
/* Steps of 16 dims that a warp keeps of Q in registers. */
#ifndef HELD_STEPS
#define HELD_STEPS (HEAD_DIM * ROW_GROUPS <= 128 ? QUERY_STEPS : 0)
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#ifndef FEATURES
#define FEATURES 0
#endif

#define THREADS (WARPS * WARP_LANES)
#define SCORE_TILES (WARP_KEYS / 8)
#define SLOT_TILES (SLOT_KEYS / 8)
#define SLOTS_OF_A_ROUND (WARP_KEYS / SLOT_KEYS) /* of K, and as many of V */
#define PARTS (2 * SLOTS_OF_A_ROUND)
#define PARTS_AHEAD (SLOTS - 1) /* copies under way while a part is worked on */

#include "sm80/features.cuh"
#include "sm80/store.cuh"

static_assert(SLOT_KEYS % 16 == 0 && WARP_KEYS % SLOT_KEYS == 0, "whole mma steps");
static_assert(PARTS_AHEAD >= SLOTS_OF_A_ROUND, "a round's values are under way together");
static_assert(HEAD_DIM % 64 == 0 && VALUE_DIM == HEAD_DIM, "a slot holds rows of K or of V");

/* 2. Shared memory. */

/* Rows of FP32 are padded by 8, so that the lanes of a warp write to different banks. */
#define PARTIAL_STRIDE (VALUE_DIM + 8)

typedef struct shared_tiles {
    element q[WARP_ROWS * HEAD_DIM];
    union {
        element slots[WARPS][SLOTS][SLOT_KEYS * HEAD_DIM];
        float out[WARPS][WARP_ROWS * PARTIAL_STRIDE]; /* at the end each warp's result */
    };
    float2 max_sum[WARP_ROWS][WARPS + 1]; /* + 1: rows begin at different banks */
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {WARP_ROWS, WARPS *WARP_KEYS, THREADS, (int)sizeof(shared_tiles)};

/* 3. Steps, in calling order. */

/* A warp's keys pass through its slots in rounds of WARP_KEYS: first all parts of K, then those of
 * V. SLOTS - 1 parts are under way while one is worked on. */
typedef struct key_stream {
    row_source k, v;
    element *slots;
    int next_key; /* of the round whose parts are copied */
    int end_key;
    int fill_slot, use_slot;
} key_stream;

static __device__ __forceinline__ int slot_after(int slot)
{
    return slot == SLOTS - 1 ? 0 : slot + 1;
}

/* Copies a part of the round at next_key; the round's last part ends it. */
static __device__ __forceinline__ void fill_slot(const attention_args *args,
                                                 const sequence_share *share, key_stream *stream,
                                                 int part)
{
    element *slot = stream->slots + stream->fill_slot * (SLOT_KEYS * HEAD_DIM);
    const int first_key = stream->next_key + part % SLOTS_OF_A_ROUND * SLOT_KEYS;
    if (stream->next_key < stream->end_key) {
        if (part < SLOTS_OF_A_ROUND)
            copy_rows(args, share, &stream->k, slot, SLOT_KEYS, HEAD_DIM, first_key,
                      stream->end_key, lane_id(), WARP_LANES);
        else
            copy_rows(args, share, &stream->v, slot, SLOT_KEYS, HEAD_DIM, first_key,
                      stream->end_key, lane_id(), WARP_LANES);
    }
    cp_async_commit();
    stream->fill_slot = slot_after(stream->fill_slot);
    if (part == PARTS - 1)
        stream->next_key += WARPS * WARP_KEYS;
}

/* Waits for a part of this round. By then every lane is done with the part before it, whose slot
 * the part PARTS_AHEAD further on may fill. */
static __device__ __forceinline__ element *next_part(const attention_args *args,
                                                     const sequence_share *share,
                                                     key_stream *stream, int part)
{
    cp_async_wait(PARTS_AHEAD - 1);
    __syncwarp();
    element *slot = stream->slots + stream->use_slot * (SLOT_KEYS * HEAD_DIM);
    stream->use_slot = slot_after(stream->use_slot);
    fill_slot(args, share, stream, (part + PARTS_AHEAD) % PARTS);
    return slot;
}

/* A negative scale flips the signs of Q, so that the largest raw score is always the largest
 * scaled one and the scale itself can wait for the exponential. */
static __device__ __forceinline__ void load_signed_query_step(unsigned query[ROW_GROUPS][4],
                                                              element *q, int step, float scale)
{
    const unsigned flip = !FEATURES && scale < 0.0f ? 0x80008000u : 0u;
    load_query_step(query, q, step);
#pragma unroll
    for (int i = 0; i < ROW_GROUPS * 4; i++)
        query[i / 4][i % 4] ^= flip;
}

static __device__ __forceinline__ void score_slot(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  unsigned query[][ROW_GROUPS][4], element *q,
                                                  element *k, int slot, float scale)
{
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++) {
        unsigned loaded[ROW_GROUPS][4];
        if (step >= HELD_STEPS)
            load_signed_query_step(loaded, q, step, scale);
        score_step(scores, step < HELD_STEPS ? query[step] : loaded, k, step, slot * SLOT_TILES,
                   SLOT_TILES, step == 0);
    }
}

static __device__ __forceinline__ void value_slot(float out[ROW_GROUPS][OUT_TILES][4],
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  element *v, int slot, softmax_state *softmax,
                                                  const float base[LANE_ROWS], float scale_log2)
{
#pragma unroll
    for (int i = 0; i < SLOT_TILES / 2; i++) {
        const int step = slot * (SLOT_TILES / 2) + i;
        value_step(out, scores, v + i * 16 * VALUE_DIM, step,
                   INTERLEAVE && step + 1 < SCORE_TILES / 2, softmax, base, scale_log2);
    }
}

/* Whether V of this round, all of it under way, has values that are infinite or NaN. */
static __device__ __forceinline__ int round_not_finite(const key_stream *stream)
{
    unsigned found = 0;
    cp_async_wait(PARTS_AHEAD - SLOTS_OF_A_ROUND);
    __syncwarp();
    for (int i = 0; i < SLOTS_OF_A_ROUND; i++) {
        const int slot = stream->use_slot + i < SLOTS ? stream->use_slot + i
                                                      : stream->use_slot + i - SLOTS;
        found |= find_not_finite(stream->slots + slot * (SLOT_KEYS * HEAD_DIM),
                                 SLOT_KEYS * VALUE_DIM, lane_id(), WARP_LANES);
    }
    return __any_sync(ALL_LANES, found != 0);
}

static __device__ __forceinline__ void score_round(const attention_args *args,
                                                   const sequence_share *share,
                                                   shared_tiles *shared, key_stream *stream,
                                                   unsigned query[][ROW_GROUPS][4],
                                                   float scores[ROW_GROUPS][SCORE_TILES][4])
{
#pragma unroll
    for (int slot = 0; slot < SLOTS_OF_A_ROUND; slot++)
        score_slot(scores, query, shared->q, next_part(args, share, stream, slot), slot,
                   args->scale);
}

/* A round whose keys all rows see: no branch keeps the compiler from mixing scores, weights and
 * values. */
static __device__ __forceinline__ void attend_straight(const attention_args *args,
                                                       const sequence_share *share,
                                                       shared_tiles *shared, key_stream *stream,
                                                       unsigned query[][ROW_GROUPS][4],
                                                       float scale_log2,
                                                       float out[ROW_GROUPS][OUT_TILES][4],
                                                       softmax_state *softmax)
{
    float scores[ROW_GROUPS][SCORE_TILES][4], base[LANE_ROWS];
    score_round(args, share, shared, stream, query, scores);
    renew_maximum(scores, out, softmax, base, scale_log2);
    exponentiate(scores, softmax, base, scale_log2, 0, STEP_SCORES);
#pragma unroll
    for (int slot = 0; slot < SLOTS_OF_A_ROUND; slot++)
        value_slot(out, scores, next_part(args, share, stream, SLOTS_OF_A_ROUND + slot), slot,
                   softmax, base, scale_log2);
}

/* A round of which some row may not see some key, or any with FEATURES. */
static __device__ __forceinline__ void attend_any(const attention_args *args,
                                                  const sequence_share *share,
                                                  shared_tiles *shared, key_stream *stream,
                                                  const key_limits *limits,
                                                  unsigned query[][ROW_GROUPS][4], int first_row,
                                                  int key, int at_boundary, float scale_log2,
                                                  float out[ROW_GROUPS][OUT_TILES][4],
                                                  softmax_state *softmax)
{
    const int count_rest = see_few_keys(args, limits);
    float scores[ROW_GROUPS][SCORE_TILES][4], base[LANE_ROWS];
    score_round(args, share, shared, stream, query, scores);
#if FEATURES
    shape_scores(scores, args, share, first_row, key, stream->end_key);
#endif
    if (at_boundary)
        hide_keys(scores, args, share, first_row, key, stream->end_key);
    move_maximum(scores, out, softmax, base, scale_log2);
    const int by_key = may_hide_keys(args, at_boundary) && round_not_finite(stream);
    weigh_scores(scores, softmax, base, scale_log2, by_key, args, share, first_row, key);
#pragma unroll
    for (int slot = 0; slot < SLOTS_OF_A_ROUND; slot++) {
        element *values = next_part(args, share, stream, SLOTS_OF_A_ROUND + slot);
        if (by_key)
            value_keys_one_by_one(out, scores, values, slot * SLOT_TILES, SLOT_KEYS);
        else
            value_slot(out, scores, values, slot, softmax, base, scale_log2);
        if (count_rest && !by_key)
#pragma unroll
            for (int i = 0; i < SLOT_TILES / 2; i++)
                value_step_rest(out, scores, values + i * 16 * VALUE_DIM,
                                slot * (SLOT_TILES / 2) + i);
    }
}

/* Each warp's result into shared memory. */
static __device__ __forceinline__ void publish(shared_tiles *shared,
                                               const float out[ROW_GROUPS][OUT_TILES][4],
                                               const softmax_state *softmax)
{
    __syncthreads(); /* every warp is done with its slots, which the results replace */
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float sum = quad_sum(softmax->sum[r]);
        if (lane_id() % 4 == 0)
            shared->max_sum[lane_row(r)][warp_id()] = make_float2(softmax->max[r], sum);
        float *row = shared->out[warp_id()] + lane_row(r) * PARTIAL_STRIDE + lane_id() % 4 * 2;
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++)
            *(float2 *)(row + n * 8) =
                make_float2(out[r / 2][n][r % 2 * 2], out[r / 2][n][r % 2 * 2 + 1]);
    }
    __syncthreads();
}

/* Maximum and sum of a row over all warps, and what each warp's part of it is worth. */
static __device__ __forceinline__ float2 merge_row(const shared_tiles *shared, int row,
                                                   float worth[WARPS])
{
    float largest = negative_infinity(), sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
        largest = fmaxf(largest, shared->max_sum[row][warp].x);
    const float base = exponent_base(largest);
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        worth[warp] = exp2_approx(shared->max_sum[row][warp].x - base);
        sum += shared->max_sum[row][warp].y * worth[warp];
    }
    return make_float2(largest, sum);
}

/* Four columns of a row. */
static __device__ __forceinline__ void store_piece(const attention_args *args, long long row_index,
                                                   int column, float4 values)
{
    if (!FEATURES || args->more.vector_stores) {
        store_global_8((element *)args->out + row_index + column,
                       make_uint2(pack_elements(values.x, values.y),
                                  pack_elements(values.z, values.w)));
        return;
    }
    const float value[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (column + i < args->value_dim)
            store_element(args, row_index + (column + i) * DIM_STRIDE(STRIDES(args, out)), value[i]);
}

/* One split's row, for merge.cu. */
static __device__ __forceinline__ long long partial_row(const attention_args *args,
                                                        const sequence_share *share, int split,
                                                        int packed_row)
{
    return (((long long)split * args->batch + share->batch) * args->q_heads +
            head_of(args, share, packed_row)) *
               args->q_length +
           row_of(args, packed_row);
}

/* ROW_THREADS threads share a row, each of them pieces of four columns. */
#define ROW_THREADS (THREADS / WARP_ROWS)
#define ROW_PIECES (VALUE_DIM / 4 / ROW_THREADS)

static __device__ __forceinline__ void merge_warps(const attention_args *args,
                                                   const sequence_share *share,
                                                   shared_tiles *shared, int first_row, int split)
{
    const int row = thread_id() / ROW_THREADS;
    const int packed_row = first_row + row;
    if (packed_row >= share->rows)
        return;
    float worth[WARPS];
    const float2 max_sum = merge_row(shared, row, worth);
    const row_end end = finish_row(args, max_sum.x, max_sum.y, head_of(args, share, packed_row),
                                   args->splits.divisor == 1);
    const long long row_index = args->splits.divisor > 1
                                    ? partial_row(args, share, split, packed_row)
                                    : q_index(args, share, STRIDES(args, out), packed_row);
#pragma unroll
    for (int piece = 0; piece < ROW_PIECES; piece++) {
        const int column = (piece * ROW_THREADS + thread_id() % ROW_THREADS) * 4;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            const float4 part =
                *(const float4 *)(shared->out[warp] + row * PARTIAL_STRIDE + column);
            sum.x = fmaf(worth[warp], part.x, sum.x);
            sum.y = fmaf(worth[warp], part.y, sum.y);
            sum.z = fmaf(worth[warp], part.z, sum.z);
            sum.w = fmaf(worth[warp], part.w, sum.w);
        }
        sum = make_float4(sum.x * end.factor, sum.y * end.factor, sum.z * end.factor,
                          sum.w * end.factor);
        if (column >= args->value_dim)
            continue;
        if (args->splits.divisor > 1)
            *(float4 *)(args->partial_out + row_index * partial_stride(args) + column) = sum;
        else
            store_piece(args, row_index, column, sum);
    }
    if (thread_id() % ROW_THREADS)
        return;
    if (args->splits.divisor > 1)
        args->partial_lse[row_index] = lse_log2_of(end);
    else
        store_lse(args, share, packed_row, end);
}

/* 4. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int tile_index = divide((int)blockIdx.x, args.splits);
    const int split = (int)blockIdx.x - tile_index * args.splits.divisor;
    const int first_row = tile_index * WARP_ROWS;
    const sequence_share share =
        find_share(&args, args.first_batch + (int)blockIdx.z, (int)blockIdx.y);
    if (first_row >= share.rows)
        return;
    const key_limits limits = limits_of_rows(&args, &share, first_row, WARP_ROWS);
    const int first_key = max(limits.first / WARP_KEYS * WARP_KEYS, split * args.keys_per_split);
    const float scale_log2 = FEATURES ? 1.0f : fabsf(args.scale) * LOG2_E;
    key_stream stream;
    stream.k = find_keys(&args, &share, args.k, STRIDES(&args, k), args.head_dim, 0);
    stream.v = find_keys(&args, &share, args.v, STRIDES(&args, v), args.value_dim, 0);
    stream.slots = shared->slots[warp_id()][0];
    stream.next_key = first_key + warp_id() * WARP_KEYS;
    stream.end_key = min(limits.end, (split + 1) * args.keys_per_split);
    stream.fill_slot = stream.use_slot = 0;

    copy_queries(&args, &share, shared->q, WARP_ROWS, HEAD_DIM, first_row, thread_id(), THREADS);
    cp_async_commit();
#pragma unroll
    for (int part = 0; part < PARTS_AHEAD; part++)
        fill_slot(&args, &share, &stream, part % PARTS);

    float out[ROW_GROUPS][OUT_TILES][4] = {};
    softmax_state softmax;
    forget(&softmax);
    unsigned query[HELD_STEPS ? HELD_STEPS : 1][ROW_GROUPS][4];
    cp_async_wait(PARTS_AHEAD);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < HELD_STEPS; step++)
        load_signed_query_step(query[step], shared->q, step, args.scale);

#pragma unroll 1
    for (int key = first_key + warp_id() * WARP_KEYS; key < stream.end_key;
         key += WARPS * WARP_KEYS) {
        const int at_boundary = key < limits.all_first ||
                                key + WARP_KEYS > min(limits.all_end, stream.end_key);
        if (FEATURES || at_boundary)
            attend_any(&args, &share, shared, &stream, &limits, query, first_row, key, at_boundary,
                       scale_log2, out, &softmax);
        else
            attend_straight(&args, &share, shared, &stream, query, scale_log2, out, &softmax);
    }
    cp_async_wait(0);
    publish(shared, out, &softmax);
    merge_warps(&args, &share, shared, first_row, split);
}
