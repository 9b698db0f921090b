/* prefill.cu: attention over many query rows, for Ampere, Ada and what comes after.
 *
 * A block owns QUERY_TILE query rows and walks over the keys they see, KV_TILE at a time, through
 * STAGES tiles of K and V in shared memory that cp.async fills ahead. Each warp keeps the scores,
 * the softmax and the output of its rows in registers. docs/kernels/sm80.md.
 *
 * A block's number says which rows and which slice of the value dims it takes (problem.cuh). */
#include "kernel_shape.h"
#include "ptx_barrier.cuh"
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
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
#ifndef FEATURES
#define FEATURES 0
#endif
/* Keys of a tile that a warp works on at once: with more, 128 dims do not fit the registers. */
#ifndef SCORE_KEYS
#define SCORE_KEYS (HEAD_DIM == 128 && !FEATURES ? 32 : KV_TILE)
#endif

/* Of its rows of Q a warp keeps so many steps of 16 dims in registers, and reads the others again for
 * every tile of keys. */
#ifndef HELD_STEPS
#if FEATURES
#define HELD_STEPS (HEAD_DIM <= 64 ? QUERY_STEPS : 0)
#else
#define HELD_STEPS                                                                                 \
    (HEAD_DIM <= 64    ? QUERY_STEPS                                                               \
     : HEAD_DIM == 256 ? (ALL_KEYS ? 13 : 12)                                                      \
                       : (ALL_KEYS ? 6 : 0))
#endif
#endif

#define THREADS (WARPS * WARP_LANES)
#define QUERY_TILE (WARPS * 16 * ROW_GROUPS)
#define SCORE_TILES (SCORE_KEYS / 8)
/* Whether what its own rows see or what the block's do tells a warp which tile is which. The former needs
 * registers: it took 4 % longer with 256 dims, with 128 it made no difference. */
#define OWN_LIMITS (HEAD_DIM == 64 && !FEATURES && !ALL_KEYS)

#include "sm80/features.cuh"
#include "sm80/store.cuh"

static_assert(SCORE_KEYS % 16 == 0 && HEAD_DIM % 64 == 0 && VALUE_DIM % 64 == 0, "whole mma steps");
static_assert(KV_TILE % SCORE_KEYS == 0, "whole parts of a tile");
static_assert(!ALL_KEYS || 64 % KV_TILE == 0, "the host counts 64 keys as whole tiles");
static_assert(VALUE_DIM <= HEAD_DIM, "the output goes through the query tile");

/* 2. Shared memory. */

typedef struct shared_tiles {
    element q[QUERY_TILE * HEAD_DIM]; /* at the end the result */
    element k[STAGES][KV_TILE * HEAD_DIM];
    element v[STAGES][KV_TILE * VALUE_DIM];
} shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                ALL_KEYS ? GRID_TILES : GRID_GROUPS};

/* 3. Steps, in calling order. */

/* What a warp works on. */
typedef struct warp_rows {
    const attention_args *args;
    const sequence_share *share;
    int first_row;
    element *q;
    float scale_log2;
} warp_rows;

/* The block's way over the tiles of keys. */
typedef struct key_walk {
    row_source k, v;
    shared_tiles *shared;
    int tile, end_tile;
    int stage; /* of this tile */
} key_walk;

static __device__ __forceinline__ void load_keys(const warp_rows *rows, const key_walk *walk,
                                                 int stage, int tile)
{
    copy_rows(rows->args, rows->share, &walk->k, walk->shared->k[stage], KV_TILE, HEAD_DIM,
              tile * KV_TILE, rows->share->kv_rows, thread_id(), THREADS);
}

static __device__ __forceinline__ void load_values(const warp_rows *rows, const key_walk *walk,
                                                   int stage, int tile)
{
    copy_rows(rows->args, rows->share, &walk->v, walk->shared->v[stage], KV_TILE, VALUE_DIM,
              tile * KV_TILE, rows->share->kv_rows, thread_id(), THREADS);
}

/* Where the tile is one of the walk's. */
static __device__ __forceinline__ void load_tile(const warp_rows *rows, const key_walk *walk,
                                                 int stage, int tile)
{
    if (tile < walk->end_tile) {
        load_keys(rows, walk, stage, tile);
        load_values(rows, walk, stage, tile);
    }
    cp_async_commit();
}

/* All warps of the block. Where they go different ways, they wait at different places: __syncthreads
 * would have to be one place for all. */
static __device__ __forceinline__ void meet_warps(void)
{
    if (OWN_LIMITS)
        barrier_wait_apart(1, THREADS);
    else
        __syncthreads();
}

/* The walk's tile has landed, and every warp is done with the one before it, whose stage is filled
 * with the next that is not on its way yet. */
static __device__ __forceinline__ void turn_to_tile(const warp_rows *rows, const key_walk *walk)
{
    cp_async_wait(STAGES - 2);
    meet_warps();
    load_tile(rows, walk, walk->stage == 0 ? STAGES - 1 : walk->stage - 1,
              walk->tile + STAGES - 1);
}

static __device__ __forceinline__ void go_on(key_walk *walk)
{
    walk->tile++;
    walk->stage = walk->stage == STAGES - 1 ? 0 : walk->stage + 1;
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
                                                   element *k, int keys, int first_step,
                                                   int end_step)
{
#pragma unroll
    for (int step = first_step; step < end_step; step++) {
        unsigned loaded[ROW_GROUPS][4];
        if (step >= HELD_STEPS)
            load_query_step(loaded, q, step);
        score_step(scores, step < HELD_STEPS ? query[step] : loaded, k, step, 0, keys / 8,
                   step == first_step);
    }
}

/* The tensor cores' sums are not rounded but cut off; over many dims that adds up, so that a row is
 * summed in parts. */
#define SUM_STEPS 16

static __device__ __forceinline__ void score_keys(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  unsigned query[][ROW_GROUPS][4], element *q,
                                                  element *k, int keys)
{
    score_steps(scores, query, q, k, keys, 0, min(SUM_STEPS, QUERY_STEPS));
#pragma unroll
    for (int first = SUM_STEPS; first < QUERY_STEPS; first += SUM_STEPS) {
        float part[ROW_GROUPS][SCORE_TILES][4];
        score_steps(part, query, q, k, keys, first, min(first + SUM_STEPS, QUERY_STEPS));
#pragma unroll
        for (int i = 0; i < TILE_SCORES; i++)
            *tile_score(scores, i) += *tile_score(part, i);
    }
}

/* out += P·V. */
static __device__ __forceinline__ void add_values(float out[ROW_GROUPS][OUT_TILES][4],
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  element *v, int keys, softmax_state *softmax,
                                                  const float base[LANE_ROWS], float scale_log2)
{
#pragma unroll
    for (int step = 0; step < keys / 16; step++)
        value_step(out, scores, v + step * 16 * VALUE_DIM, step,
                   INTERLEAVE && step + 1 < keys / 16, softmax, base, scale_log2);
}

/* Hides the keys after the last that a row sees. */
static __device__ __forceinline__ void hide_ends(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                 const warp_rows *rows, int first_key, int keys)
{
    const int lane_key = first_key + lane_id() % 4 * 2;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = row_of(rows->args, rows->first_row + lane_row(r));
        hide_from(scores, r, 0, keys / 8,
                  end_key_of(rows->args, rows->share, row) - lane_key);
    }
}

/* So many keys of a tile, from number part on, after each row's first. What exponents are relative
 * to stays, so that nothing is looked for in the scores, and scores, weights and values stand in one
 * line without a branch, which the compiler mixes as it likes. */
static __device__ __forceinline__ void attend_straight(const warp_rows *rows,
                                                       unsigned query[][ROW_GROUPS][4],
                                                       const key_walk *walk, int part, int keys,
                                                       int hides,
                                                       float out[ROW_GROUPS][OUT_TILES][4],
                                                       softmax_state *softmax)
{
    const int first_key = walk->tile * KV_TILE + part;
    float scores[ROW_GROUPS][SCORE_TILES][4];
    score_keys(scores, query, rows->q, walk->shared->k[walk->stage] + part * HEAD_DIM, keys);
    if (hides)
        hide_ends(scores, rows, first_key, keys);
    exponentiate(scores, softmax, softmax->max, rows->scale_log2, 0, STEP_SCORES);
    add_values(out, scores, walk->shared->v[walk->stage] + part * VALUE_DIM, keys, softmax,
               softmax->max, rows->scale_log2);
}

/* Any SCORE_KEYS keys of a tile, of which the rows see those in limits. careful: values of keys
 * that a row does not see may be infinite or NaN. Else, where they are, 0 · NaN shows in the
 * result. */
static __device__ __forceinline__ void attend_any(const warp_rows *rows,
                                                  unsigned query[][ROW_GROUPS][4],
                                                  const key_walk *walk, int part,
                                                  const key_limits *limits, int careful,
                                                  float out[ROW_GROUPS][OUT_TILES][4],
                                                  softmax_state *softmax)
{
    const attention_args *args = rows->args;
    const int first_key = walk->tile * KV_TILE + part;
    element *v = walk->shared->v[walk->stage] + part * VALUE_DIM;
    const int at_boundary =
        first_key < limits->all_first || first_key + SCORE_KEYS > limits->all_end;
    const int count_rest = (FEATURES || at_boundary) && see_few_keys(args, limits);
    float scores[ROW_GROUPS][SCORE_TILES][4], base[LANE_ROWS];
    score_keys(scores, query, rows->q, walk->shared->k[walk->stage] + part * HEAD_DIM, SCORE_KEYS);
#if FEATURES
    shape_scores(scores, args, rows->share, rows->first_row, first_key, rows->share->kv_rows);
#endif
    if (at_boundary)
        hide_keys(scores, args, rows->share, rows->first_row, first_key, rows->share->kv_rows);
    move_maximum(scores, out, softmax, base, rows->scale_log2);
    const int by_key = careful && (count_rest || may_hide_keys(args, at_boundary)) &&
                       __syncthreads_or((int)find_not_finite(v, SCORE_KEYS * VALUE_DIM,
                                                             thread_id(), THREADS));
    weigh_scores(scores, softmax, base, rows->scale_log2, by_key, args, rows->share,
                 rows->first_row, first_key);
    if (by_key)
        value_keys_one_by_one(out, scores, v, 0, SCORE_KEYS);
    else
        add_values(out, scores, v, SCORE_KEYS, softmax, base, rows->scale_log2);
    if (count_rest && !by_key)
#pragma unroll
        for (int step = 0; step < SCORE_TILES / 2; step++)
            value_step_rest(out, scores, v + step * 16 * VALUE_DIM, step);
}

/* The block's tiles. Those from first_straight on may keep what exponents of a warp's rows are
 * relative to: every row has seen a tile's worth of keys before them, or all keys that the rows have
 * in common. Those from end_inner on have keys that some row of the warp does not see. */
typedef struct tile_limits {
    int first, first_straight, end_inner, end;
} tile_limits;

static __device__ __forceinline__ tile_limits limit_tiles(const attention_args *args,
                                                          const key_limits *block,
                                                          const key_limits *keys, int any)
{
    tile_limits tiles;
    tiles.first = block->first / KV_TILE;
    tiles.end = (block->end + KV_TILE - 1) / KV_TILE;
    tiles.first_straight = tiles.end_inner = tiles.end;
    if (ALL_KEYS && !any) {
        tiles.first_straight = 0;
        return tiles;
    }
    if (any || see_few_keys(args, keys))
        return tiles;
    tiles.first_straight = min((keys->all_first + 2 * KV_TILE - 1) / KV_TILE, tiles.end);
    tiles.end_inner = max(tiles.first_straight, keys->all_end / KV_TILE);
    if (OWN_LIMITS) /* a warp behind the last row has any limits */
        tiles.end_inner = min(tiles.end_inner, tiles.end);
    return tiles;
}

/* Whether all rows see the first tile of keys. */
static __device__ __forceinline__ int begins_straight(const attention_args *args,
                                                      const key_limits *keys,
                                                      const tile_limits *tiles)
{
    return ALL_KEYS || (tiles->first * KV_TILE >= keys->all_first &&
                        (tiles->first + 1) * KV_TILE <= keys->all_end && !see_few_keys(args, keys));
}

/* Has the warp's queries and the first tiles loaded, values after keys. */
static __device__ __forceinline__ void load_first(const warp_rows *rows, const key_walk *walk)
{
    copy_queries(rows->args, rows->share, rows->q, WARP_ROWS, HEAD_DIM, rows->first_row, lane_id(),
                 WARP_LANES);
    if (ALL_KEYS || walk->tile < walk->end_tile)
        load_keys(rows, walk, 0, walk->tile);
    cp_async_commit();
    if (ALL_KEYS || walk->tile < walk->end_tile)
        load_values(rows, walk, 0, walk->tile);
    cp_async_commit();
    for (int stage = 1; stage < STAGES - 1; stage++)
        load_tile(rows, walk, stage, walk->tile + stage);
    address_now(rows->args->out); /* its line of the argument comes before the end needs it */
}

/* 1: the scale may be negative. Where rows see the first keys it is not, but with 128 dims the branch
 * that is never taken makes the kernel 1 % faster: the compiler moves less across it. */
#define LOOKS_FOR_SIGN (!FEATURES && !ALL_KEYS && !(ONLY_FIRST_KEYS && HEAD_DIM == 64))

/* Until queries and first keys are there. The queries get their signs. */
static __device__ __forceinline__ void await_queries(const warp_rows *rows,
                                                     unsigned query[][ROW_GROUPS][4])
{
    cp_async_wait(STAGES - 1);
    __syncthreads();
    if (LOOKS_FOR_SIGN && rows->args->scale_log2 < 0.0f) {
        flip_queries(rows->q, WARP_ROWS * HEAD_DIM, lane_id(), WARP_LANES);
        __syncwarp();
    }
#pragma unroll
    for (int step = 0; step < HELD_STEPS; step++)
        load_query_step(query[step], rows->q, step);
}

/* A first tile of keys that all rows see: exponents are relative to the largest of its first
 * SCORE_KEYS scores. Its values are waited for when the first weights are there. */
static __device__ __forceinline__ void attend_first(const warp_rows *rows,
                                                    unsigned query[][ROW_GROUPS][4],
                                                    const key_walk *walk,
                                                    float out[ROW_GROUPS][OUT_TILES][4],
                                                    softmax_state *softmax)
{
    float scores[ROW_GROUPS][SCORE_TILES][4], largest[LANE_ROWS], base[LANE_ROWS];
    load_tile(rows, walk, STAGES - 1, walk->tile + STAGES - 1);
    score_keys(scores, query, rows->q, walk->shared->k[0], SCORE_KEYS);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        largest[r] = lane_maximum(scores, r, 0, SCORE_TILES, negative_infinity());
    set_maximum(largest, softmax, base, rows->scale_log2);
    exponentiate(scores, softmax, base, rows->scale_log2, 0, STEP_SCORES);
    cp_async_wait(STAGES - 1);
    meet_warps();
    add_values(out, scores, walk->shared->v[0], SCORE_KEYS, softmax, base, rows->scale_log2);
#pragma unroll 1
    for (int i = SCORE_KEYS; i < KV_TILE; i += SCORE_KEYS)
        attend_straight(rows, query, walk, i, SCORE_KEYS, 0, out, softmax);
}

/* A warp's rows over all keys that the block's rows see. Unless all are attended as any keys are,
 * largest scores are looked for in the first tiles alone, and warps pass over keys that none of their
 * own rows sees.
 * Every way has one barrier a tile. */
static __device__ __forceinline__ void attend(const warp_rows *rows, shared_tiles *shared,
                                              const key_limits *block, int first_dim, int careful,
                                              float out[ROW_GROUPS][OUT_TILES][4],
                                              softmax_state *softmax)
{
    const attention_args *args = rows->args;
    const int any = FEATURES || careful;
    const key_limits limits =
        any || !OWN_LIMITS ? *block
                           : limits_of_rows(args, rows->share, rows->first_row, WARP_ROWS);
    const tile_limits tiles = limit_tiles(args, block, &limits, any);
    key_walk walk;
    walk.k = find_keys(args, rows->share, args->k, STRIDES(args, k), args->head_dim, 0);
    walk.v = find_keys(args, rows->share, args->v, STRIDES(args, v), args->value_dim, first_dim);
    walk.shared = shared;
    walk.tile = tiles.first;
    walk.end_tile = tiles.end;
    walk.stage = 0;
    unsigned query[HELD_STEPS ? HELD_STEPS : 1][ROW_GROUPS][4];
    load_first(rows, &walk);
    await_queries(rows, query);

    if (!any && begins_straight(args, &limits, &tiles)) {
        attend_first(rows, query, &walk, out, softmax);
        go_on(&walk);
    }
#pragma unroll 1
    for (; walk.tile < tiles.first_straight; go_on(&walk)) {
        turn_to_tile(rows, &walk);
        const key_limits own =
            any ? *block : limits_of_rows(args, rows->share, rows->first_row, WARP_ROWS);
#pragma unroll 1
        for (int i = 0; i < KV_TILE && (any || walk.tile * KV_TILE + i < own.end); i += SCORE_KEYS)
            attend_any(rows, query, &walk, i, &own, careful, out, softmax);
    }
#pragma unroll 1
    for (; !any && walk.tile < tiles.end_inner; go_on(&walk)) {
        turn_to_tile(rows, &walk);
#pragma unroll 1
        for (int i = 0; i < KV_TILE; i += SCORE_KEYS)
            attend_straight(rows, query, &walk, i, SCORE_KEYS, 0, out, softmax);
    }
    if (!any && !ALL_KEYS) {
        const int end_key = limits_of_rows(args, rows->share, rows->first_row, WARP_ROWS).end;
#pragma unroll 1
        for (; walk.tile < tiles.end; go_on(&walk)) {
            turn_to_tile(rows, &walk);
#pragma unroll 1
            for (int i = 0; i < KV_TILE && walk.tile * KV_TILE + i < end_key; i += SCORE_KEYS) {
                const int keys_left = end_key - walk.tile * KV_TILE - i;
                if (WARP_ROWS < SCORE_KEYS && keys_left <= SCORE_KEYS / 2)
                    attend_straight(rows, query, &walk, i, SCORE_KEYS / 2, 1, out, softmax);
                else
                    attend_straight(rows, query, &walk, i, SCORE_KEYS, 1, out, softmax);
            }
        }
    }
    cp_async_wait(0); /* without keys Q is still on its way */
}

/* The warp's rows, a bit each, that are right: all that was summed is finite. It is not where a weight
 * was larger than an element can hold, where a value that the row does not see was NaN or infinite,
 * and where the first scores were all -inf. A sum has to leave room: four lanes' are added, and the
 * reciprocal of more than 2^126 counts as 0. */
static __device__ __forceinline__ unsigned right_rows(const float out[ROW_GROUPS][OUT_TILES][4],
                                                      const softmax_state *softmax)
{
    float zero[LANE_ROWS], any = 0.0f; /* NaN where something is not finite */
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        zero[r] = 0.0f * (0x1p4f * softmax->sum[r]);
#pragma unroll
        for (int i = 0; i < OUT_TILES * 2; i++)
            zero[r] = fmaf(0.0f, out[r / 2][i / 2][r % 2 * 2 + i % 2], zero[r]);
        any += zero[r];
    }
    if (__all_sync(ALL_LANES, any == 0.0f))
        return ~0u;
    int right = 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const unsigned lanes = __ballot_sync(ALL_LANES, zero[r] != 0.0f);
        if (lane_id() / 8 == r)
            right = !(lanes >> lane_id() % 8 * 4 & 15);
    }
    return __ballot_sync(ALL_LANES, right);
}

/* The warp's rows go through its part of the query tile to become 16-byte stores. */
static __device__ __forceinline__ void store_rows(const attention_args *args,
                                                  const sequence_share *share, element *tile,
                                                  int first_row, int first_dim,
                                                  const float out[ROW_GROUPS][OUT_TILES][4],
                                                  const float factor[LANE_ROWS], unsigned rows)
{
    __syncwarp();
    element *first = tile_element(tile, VALUE_DIM, lane_row(0), lane_id() % 4 * 2);
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            *(unsigned *)(columns_on(first, n * 8) + r * 8 * VALUE_DIM) =
                pack_elements(out[r / 2][n][r % 2 * 2] * factor[r],
                              out[r / 2][n][r % 2 * 2 + 1] * factor[r]);
    __syncwarp();
    store_tile(args, share, tile, first_row, first_dim, rows);
}

/* Each of the four lanes that share rows ends one of them, for all: what its values are to be multiplied
 * by; and stores its LSE, where its bit is set. */
static __device__ __forceinline__ void end_rows(const attention_args *args,
                                                const sequence_share *share, int first_row,
                                                int first_dim, const softmax_state *softmax,
                                                unsigned rows, float factor[LANE_ROWS])
{
    float max = softmax->max[0], sum = quad_sum(softmax->sum[0]);
#pragma unroll
    for (int r = 1; r < LANE_ROWS; r++) {
        const float row_max = float_now(softmax->max[r]); /* no array: that would lie in memory */
        const float row_sum = quad_sum(softmax->sum[r]);
        max = lane_id() % LANE_ROWS == r ? row_max : max;
        sum = lane_id() % LANE_ROWS == r ? row_sum : sum;
    }
    const int row = lane_row(lane_id() % LANE_ROWS);
    const row_end end =
        finish_row(args, max, sum, head_of(args, share, first_row + row), !ROWS_ALONE);
    if (lane_id() % 4 < LANE_ROWS && first_dim == 0 && (rows >> row & 1))
        store_lse(args, share, first_row + row, end);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        factor[r] = __shfl_sync(ALL_LANES, end.factor, lane_id() / 4 * 4 + r);
}

/* Stores the rows whose bits are set. */
static __device__ __forceinline__ void finish(const attention_args *args,
                                              const sequence_share *share, element *tile,
                                              int first_row, int first_dim,
                                              const float out[ROW_GROUPS][OUT_TILES][4],
                                              const softmax_state *softmax, unsigned rows)
{
    float factor[LANE_ROWS];
    end_rows(args, share, first_row, first_dim, softmax, rows, factor);
    if (!FEATURES || args->more.vector_stores)
        store_rows(args, share, tile, first_row, first_dim, out, factor, rows);
    else
        store_rows_by_element(args, share, first_row, first_dim, out[0], OUT_TILES, factor,
                              rows);
}

/* The block's rows over all keys; of the warp's those in wanted, a bit each, are stored where they are
 * right. Returns the others. */
static __device__ __forceinline__ unsigned attend_rows(const attention_args *args, int careful,
                                                       unsigned wanted)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    block_place place = find_place(args, (int)blockIdx.x);
    if (!ALL_KEYS && place.batch >= args->batch)
        return 0;
    const int first_dim =
        FEATURES ? remainder_of(place.tile, args->more.value_slices) * VALUE_DIM : 0;
    const int block_row =
        (FEATURES ? divide(place.tile, args->more.value_slices) : place.tile) * QUERY_TILE;
    sequence_share share = find_share(args, place.batch, place.head_group);
    if (block_row >= share.rows)
        return 0;
    const int warp_row = block_row + warp_id() * WARP_ROWS;
    const key_limits limits = limits_of_rows(args, &share, block_row, QUERY_TILE);
    warp_rows rows;
    rows.args = args;
    rows.share = &share;
    rows.first_row = warp_row;
    rows.q = shared->q + warp_id() * WARP_ROWS * HEAD_DIM;
    rows.scale_log2 = FEATURES ? 1.0f : fabsf(args->scale_log2);
    float out[ROW_GROUPS][OUT_TILES][4] = {};
    softmax_state softmax;
    forget(&softmax);
    attend(&rows, shared, &limits, first_dim, careful, out, &softmax);
    place = find_place(args, number_now((int)blockIdx.x)); /* again: kept, it would hold registers */
    share.batch = place.batch;
    share.head = first_head(args, place.head_group);
    wanted &= (unsigned)((1ull << clamp_int(share.rows - warp_row, 0, WARP_ROWS)) - 1);
    const unsigned right = careful ? ~0u : right_rows(out, &softmax);
    finish(args, &share, rows.q, warp_row, first_dim, out, &softmax, wanted & right);
    return wanted & ~right;
}

#if FEATURES

/* The same instructions twice: two copies of them would be 100 KB more. */
static __device__ __forceinline__ void attend_all(const attention_args *args)
{
    unsigned left = ~0u;
#pragma unroll 1
    for (int careful = 0; careful < 2 && __syncthreads_or((int)left); careful++)
        left = attend_rows(args, careful, left);
}

#else

/* A function of its own: inside the kernel it would take registers from what runs always. */
static __device__ __noinline__ void attend_again(const attention_args *args, unsigned rows)
{
    attend_rows(args, 1, rows);
}

static __device__ __forceinline__ void attend_all(const attention_args *args)
{
    const unsigned left = attend_rows(args, 0, ~0u);
    if (__syncthreads_or((int)left))
        attend_again(args, left);
}

#endif

/* 4. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    attend_all(&args);
}
