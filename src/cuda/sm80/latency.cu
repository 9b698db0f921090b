/* latency.cu: attention over few query rows, or few blocks' worth of them: the least time to the
 * answer, for Ampere, Ada and what comes after.
 *
 * The warps of a block share its keys: each team of TEAM_WARPS warps (one, as a rule) takes
 * WARP_KEYS at a time, through SLOTS small buffers of its own that cp.async fills ahead, without a
 * barrier between teams. At the end the teams' results meet in shared memory (team.cuh). Where even
 * that leaves multiprocessors idle, blocks split the keys further and a second kernel (merge.cu)
 * joins them. docs/kernels/sm80.md.
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
#define ROW_GROUPS 1
#endif
/* Warps that work on the same keys, each on its own rows: the block has TEAM_WARPS × WARP_ROWS. */
#ifndef TEAM_WARPS
#define TEAM_WARPS 1
#endif
/* Keys that a team takes at a time. */
#ifndef WARP_KEYS
#define WARP_KEYS 64
#endif
/* Buffers of a team, SLOT_KEYS rows of K or V each. Enough for all K of a round to be under way, and
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
/* Not 0: one round takes all keys, so many at most; no lengths lie in memory, no heads share a tile,
 * there are no sinks, the scale is not negative. */
#ifndef ROUND_KEYS
#define ROUND_KEYS 0
#endif
#define ONE_ROUND (ROUND_KEYS > 0)
/* 1: there are exactly ROUND_KEYS, and rows see all of them. */
#ifndef ALL_KEYS
#define ALL_KEYS 0
#endif
/* A row's only round may have keys that the row does not see. */
#define ROUND_HIDES (ONE_ROUND && !ALL_KEYS)
/* 1: a team of which rows see some keys copies all of its own: its first copies go out earlier than if
 * each were compared with what rows see. With 128 keys that took longer. */
#define COPIES_HIDDEN (ROUND_HIDES && ROUND_KEYS > 128)
#if ONE_ROUND
#define HEADS_SHARE_TILES 0
#define LENGTHS_IN_MEMORY 0
#define AGAIN_INLINE __forceinline__ /* a call wants a stack, and takes longer even if never made */
#endif

/* 1: a thread finds out where it will store while its first rows are under way; 0: among the weights'
 * instructions, where many keys a thread leave room for that. */
#define PLACES_FIRST (!ALL_KEYS || WARP_KEYS < 128)

#define THREADS (WARPS * WARP_LANES)
#define TEAMS (WARPS / TEAM_WARPS)
#define TEAM_THREADS (TEAM_WARPS * WARP_LANES)
#define SCORE_TILES (WARP_KEYS / 8)
#define SLOT_TILES (SLOT_KEYS / 8)
#define SLOTS_OF_A_ROUND (WARP_KEYS / SLOT_KEYS) /* of K, and as many of V */
#define PARTS (2 * SLOTS_OF_A_ROUND)
/* Copies under way while a part is worked on. */
#define PARTS_AHEAD (ONE_ROUND && SLOTS == PARTS ? PARTS : SLOTS - 1)

#include "sm80/features.cuh"
#include "sm80/team.cuh"

static_assert(SLOT_KEYS % 16 == 0 && WARP_KEYS % SLOT_KEYS == 0, "whole mma steps");
static_assert(PARTS_AHEAD >= SLOTS_OF_A_ROUND, "a round's values are under way together");
static_assert(HEAD_DIM % 64 == 0 && VALUE_DIM == HEAD_DIM, "a slot holds rows of K or of V");
static_assert(!ONE_ROUND || TEAMS * WARP_KEYS == ROUND_KEYS, "the teams take all keys of a round");

/* 2. Steps, in calling order. */

/* A team's keys pass through its slots in rounds of WARP_KEYS: first all parts of K, then those of
 * V. PARTS_AHEAD parts are under way while one is worked on. */
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

/* Warps of a team that copy: their threads divide the rows of a slot. */
#define COPY_WARPS (TEAM_WARPS >= 4 ? 4 : TEAM_WARPS >= 2 ? 2 : 1)
#define COPY_THREADS (COPY_WARPS * WARP_LANES)
#define COPIES (COPY_WARPS == TEAM_WARPS || thread_id() % TEAM_THREADS < COPY_THREADS)

/* Copies a part of the round at next_key; the round's last part ends it. A row's only round is
 * copied whether there are keys or not: without a branch its addresses are found together. */
static __device__ __forceinline__ void fill_slot(const attention_args *args,
                                                 const sequence_share *share, key_stream *stream,
                                                 int part)
{
    element *slot = stream->slots + stream->fill_slot * (SLOT_KEYS * HEAD_DIM);
    const int first_key = stream->next_key + part % SLOTS_OF_A_ROUND * SLOT_KEYS;
    if (COPIES && (ONE_ROUND || stream->next_key < stream->end_key)) {
        if (part < SLOTS_OF_A_ROUND)
            copy_rows(args, share, &stream->k, slot, SLOT_KEYS, HEAD_DIM, first_key,
                      stream->end_key, thread_id() % TEAM_THREADS, COPY_THREADS);
        else
            copy_rows(args, share, &stream->v, slot, SLOT_KEYS, HEAD_DIM, first_key,
                      stream->end_key, thread_id() % TEAM_THREADS, COPY_THREADS);
    }
    cp_async_commit();
    stream->fill_slot = slot_after(stream->fill_slot);
    if (part == PARTS - 1)
        stream->next_key += TEAMS * WARP_KEYS;
}

/* Waits for a part of this round. By then the team is done with the part before it, whose slot
 * the part PARTS_AHEAD further on may fill. */
static __device__ __forceinline__ element *next_part(const attention_args *args,
                                                     const sequence_share *share,
                                                     key_stream *stream, int part)
{
    cp_async_wait(PARTS_AHEAD - 1);
    meet_team();
    element *slot = stream->slots + stream->use_slot * (SLOT_KEYS * HEAD_DIM);
    stream->use_slot = slot_after(stream->use_slot);
    if (!ONE_ROUND || part + PARTS_AHEAD < PARTS)
        fill_slot(args, share, stream, (part + PARTS_AHEAD) % PARTS);
    else
        cp_async_commit();
    return slot;
}

/* A negative scale flips the signs of Q, so that the largest raw score is always the largest
 * scaled one and the scale itself can wait for the exponential. */
static __device__ __forceinline__ void load_signed_query_step(unsigned query[ROW_GROUPS][4],
                                                              element *q, int step, float scale)
{
    const unsigned flip = !FEATURES && !ONE_ROUND && scale < 0.0f ? 0x80008000u : 0u;
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
    meet_team();
    for (int i = 0; i < SLOTS_OF_A_ROUND; i++) {
        const int slot = stream->use_slot + i < SLOTS ? stream->use_slot + i
                                                      : stream->use_slot + i - SLOTS;
        found |= find_not_finite(stream->slots + slot * (SLOT_KEYS * HEAD_DIM),
                                 SLOT_KEYS * VALUE_DIM, lane_id(), WARP_LANES);
    }
    return __any_sync(ALL_LANES, found != 0);
}

/* The lane's largest scores of some score tiles, and of what was before but where from_nothing is 1. */
static __device__ __forceinline__ void find_largest(
    const float scores[ROW_GROUPS][SCORE_TILES][4], int first_tile, int tiles, int from_nothing,
    float largest[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        largest[r] = lane_maximum(scores, r, first_tile, tiles,
                                  from_nothing ? negative_infinity() : largest[r]);
}

/* largest: of the lane's scores; those of a slot are looked for while the next is multiplied. */
static __device__ __forceinline__ void score_round(const attention_args *args,
                                                   const sequence_share *share,
                                                   shared_tiles *shared, key_stream *stream,
                                                   unsigned query[][ROW_GROUPS][4],
                                                   float scores[ROW_GROUPS][SCORE_TILES][4],
                                                   float largest[LANE_ROWS])
{
#pragma unroll
    for (int slot = 0; slot <= SLOTS_OF_A_ROUND; slot++) {
        if (slot < SLOTS_OF_A_ROUND)
            score_slot(scores, query, queries_of_warp(shared),
                       next_part(args, share, stream, slot), slot, args->scale_log2);
        if (slot > 0)
            find_largest(scores, (slot - 1) * SLOT_TILES, SLOT_TILES, slot == 1, largest);
    }
}

/* A round whose keys all rows see: no branch keeps the compiler from mixing scores, weights and
 * values. A row's only round also where some do not: what a hidden key's value may do to the sums is
 * mended at the end. */
static __device__ __forceinline__ void attend_straight(const attention_args *args,
                                                       const sequence_share *share,
                                                       shared_tiles *shared, key_stream *stream,
                                                       unsigned query[][ROW_GROUPS][4],
                                                       int first_row, int key, int at_boundary,
                                                       float scale_log2,
                                                       float out[ROW_GROUPS][OUT_TILES][4],
                                                       softmax_state *softmax,
                                                       thread_places *places)
{
    float scores[ROW_GROUPS][SCORE_TILES][4], largest[LANE_ROWS], base[LANE_ROWS];
    score_round(args, share, shared, stream, query, scores, largest);
    if (!PLACES_FIRST)
        *places = find_places(args, share, first_row - first_row_of_warp());
    if (ROUND_HIDES && at_boundary) {
        hide_keys(scores, args, share, first_row, key, stream->end_key);
        find_largest(scores, 0, SCORE_TILES, 1, largest);
    }
    if (ONE_ROUND)
        set_maximum(largest, softmax, base, scale_log2);
    else
        renew_maximum(largest, out, softmax, base, scale_log2);
    exponentiate(scores, softmax, base, scale_log2, 0, STEP_SCORES);
#pragma unroll
    for (int slot = 0; slot < SLOTS_OF_A_ROUND; slot++)
        value_slot(out, scores, next_part(args, share, stream, SLOTS_OF_A_ROUND + slot), slot,
                   softmax, base, scale_log2);
}

/* Rows that see fewer keys have no round that is straight. */
#define LEAST_STRAIGHT_KEYS 32

/* A round of which some row may not see some key, or any with FEATURES; a row's only one where it
 * sees few. */
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
    float scores[ROW_GROUPS][SCORE_TILES][4], largest[LANE_ROWS], base[LANE_ROWS];
    score_round(args, share, shared, stream, query, scores, largest);
#if FEATURES
    shape_scores(scores, args, share, first_row, key, stream->end_key);
#endif
    if (at_boundary)
        hide_keys(scores, args, share, first_row, key, stream->end_key);
    move_maximum(scores, out, softmax, base, scale_log2);
    const int by_key = !ONE_ROUND && (count_rest || may_hide_keys(args, at_boundary)) &&
                       round_not_finite(stream);
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

/* 3. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int tile_index = ONE_ROUND ? (int)blockIdx.x : divide((int)blockIdx.x, args.splits);
    const int split = ONE_ROUND ? 0 : (int)blockIdx.x - tile_index * args.splits.divisor;
    const int first_row = tile_index * BLOCK_ROWS;
    const sequence_share share =
        find_share(&args, args.first_batch + (int)blockIdx.z, (int)blockIdx.y);
    if (!ONE_ROUND && first_row >= share.rows)
        return;
    const key_limits limits = limits_of_rows(&args, &share, first_row, BLOCK_ROWS);
    const int split_key = ONE_ROUND ? 0 : split * args.keys_per_split;
    const int split_end = ONE_ROUND ? share.kv_rows : split_key + args.keys_per_split;
    const int first_key =
        (ONE_ROUND ? 0 : max(limits.first / WARP_KEYS * WARP_KEYS, split_key)) +
        team_id() * WARP_KEYS;
    const float scale_log2 = FEATURES ? 1.0f : fabsf(args.scale_log2);
    key_stream stream;
    stream.k = find_keys(&args, &share, args.k, STRIDES(&args, k), args.head_dim, 0);
    stream.v = find_keys(&args, &share, args.v, STRIDES(&args, v), args.value_dim, 0);
    stream.slots = TEAM_SLOTS(shared, team_id())[0];
    stream.next_key = first_key;
    const int end_key = ALL_KEYS ? ROUND_KEYS : min(limits.end, split_end);
    stream.end_key = !COPIES_HIDDEN ? end_key : first_key < end_key ? share.kv_rows : 0;
    stream.fill_slot = stream.use_slot = 0;

    copy_queries(&args, &share, shared->q, BLOCK_ROWS, HEAD_DIM, first_row, thread_id(), THREADS);
    cp_async_commit();
    /* Never. But for the branch the compiler finds out where keys lie before the queries are under
     * way, a tenth of a microsecond later; with fewer keys that changes nothing. */
    if (ROUND_KEYS == 512 && args.kv_length > ROUND_KEYS)
        return;
#pragma unroll
    for (int part = 0; part < PARTS_AHEAD; part++)
        fill_slot(&args, &share, &stream, part % PARTS);

    thread_places places;
    if (ONE_ROUND && PLACES_FIRST)
        places = find_places(&args, &share, first_row);
    float out[ROW_GROUPS][OUT_TILES][4] = {};
    softmax_state softmax;
    forget(&softmax);
    unsigned query[HELD_STEPS ? HELD_STEPS : 1][ROW_GROUPS][4];
    cp_async_wait(PARTS_AHEAD);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < HELD_STEPS; step++)
        load_signed_query_step(query[step], queries_of_warp(shared), step, args.scale_log2);

    /* A team without keys meets as often as the others: racecheck loses count of barriers else. */
    if (ROUND_HIDES && first_key >= end_key)
#pragma unroll 1
        for (int part = 0; part < PARTS; part++)
            meet_team();
#pragma unroll 1
    for (int key = first_key; ALL_KEYS || key < end_key; key += TEAMS * WARP_KEYS) {
        const int at_boundary =
            key < limits.all_first || key + WARP_KEYS > min(limits.all_end, end_key);
        const int few = WARP_KEYS < LEAST_STRAIGHT_KEYS && see_few_keys(&args, &limits);
        const int careful =
            ROUND_HIDES ? see_few_keys(&args, &limits) : FEATURES || at_boundary || few;
        if (careful && !ALL_KEYS)
            attend_any(&args, &share, shared, &stream, &limits, query,
                       first_row + first_row_of_warp(), key, at_boundary, scale_log2, out,
                       &softmax);
        else
            attend_straight(&args, &share, shared, &stream, query,
                            first_row + first_row_of_warp(), key, at_boundary, scale_log2, out,
                            &softmax, &places);
        if (ONE_ROUND)
            break;
    }
    cp_async_wait(0);
    leave_sums(shared, out, &softmax);
    if (!ONE_ROUND)
        places = find_places(&args, &share, first_row);
    join_teams(&args, &share, shared, first_row, split, &places);
}
