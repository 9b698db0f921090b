/* prefill.cu: attention over many query rows, for Hopper.
 *
 * A block stays on its multiprocessor and takes tile after tile of QUERY_TILE query rows. One thread
 * fetches Q, K and V through tensor maps, STAGES tiles of keys ahead; CONSUMERS warpgroups own 64
 * rows each. A warpgroup starts two products, the scores of the next tile of keys and the values of
 * this one; the softmax of the next meets other warpgroups' products. docs/kernels/sm90.md.
 *
 * grid.x = resident blocks. */
#include "kernel_shape.h"
#include "ptx_common.cuh"

/* 1. Shape. */

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif
#ifndef VALUE_DIM
#define VALUE_DIM HEAD_DIM
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef KV_TILE
#define KV_TILE 128
#endif
#ifndef STAGES
#define STAGES 2
#endif
/* Keys of a product: all of a tile, or half of them. Fewer registers hold their scores; a tile that comes
 * at once is waited for, found and released once. */
#ifndef STEP_KEYS
#define STEP_KEYS KV_TILE
#endif
#ifndef FEATURES
#define FEATURES 0
#endif
/* 1: a block has one tile of rows, and neither looks nor waits for a next one. */
#ifndef ONCE
#define ONCE 0
#endif
/* Tiles of queries that are there at once: with two, the next ones come while these are in use. */
#ifndef QUERY_BUFFERS
#define QUERY_BUFFERS (HEAD_DIM <= 128 && !ONCE ? 2 : 1)
#endif
/* Panels of its result that a warp has under way to memory. */
#ifndef STAGED_PANELS
#define STAGED_PANELS (PANELS(VALUE_DIM) % 2 == 0 ? 2 : 1)
#endif
/* 1: a warpgroup passes over tiles of keys that none of its own rows sees. */
#ifndef SKIPS
#define SKIPS 0
#endif
/* 1: where operands lie is found before a warpgroup waits for its turn. */
#ifndef OPERANDS_EARLY
#define OPERANDS_EARLY (CONSUMERS > 2)
#endif
/* 1: warpgroups take turns in starting products, so that one's softmax meets another's products. */
#ifndef PING_PONG
#define PING_PONG 1
#endif

/* The work of a tile is read until its rows are stored, when the scores of the next may be done with,
 * the queries after those on their way to one warpgroup, and the work after the next found. */
#define WORKS (QUERY_BUFFERS + 5)
/* Whether the first scores of the next rows are computed while these end. With one place for queries
 * they would be waited for, and the end with them. */
#define CHAINS (QUERY_BUFFERS > 1)
/* Whether a block's last rows store their LSE after their values: 1 to 4 % of S = 512 without limits,
 * but with limits 1 % slower. */
#define LSE_LAST (ALL_KEYS && (CHAINS || ONCE))
#define GROUP_THREADS 128
#define GROUP_ROWS 64
#define THREADS (GROUP_THREADS * (CONSUMERS + 1))
#define QUERY_TILE (GROUP_ROWS * CONSUMERS)
#define HALVES (STEP_KEYS < KV_TILE)
#define SCORE_TILES (STEP_KEYS / 8)
/* Keys that one copy takes: all of a tile, or what may be a page. */
#define BOX_ROWS (FEATURES ? 64 : KV_TILE)
#define BOXES (KV_TILE / BOX_ROWS)
#define PRODUCER_REGISTERS (CONSUMERS == 2 ? 40 : 32)
#define CONSUMER_REGISTERS (CONSUMERS == 2 ? 232 : CONSUMERS == 3 ? 160 : 112)

#if !FEATURES && (CONSUMERS == 2 || ALL_KEYS) /* the others have no registers for it */
#define AGAIN_INLINE __forceinline__            /* a call, never made, takes 1 to 3 % longer */
#endif

#include "ptx_launch.cuh"
#include "sm80/features.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"
#include "sm90/finish.cuh"
#include "sm90/products.cuh"

static_assert(KV_TILE % BOX_ROWS == 0, "whole boxes");
static_assert(STAGES > 1, "keys of the next rows come while the last of these are in use");
static_assert(!ALL_KEYS || 128 % KV_TILE == 0, "the host counts 128 keys as whole tiles");
static_assert(!HALVES || (ALL_KEYS && (CHAINS || ONCE) && 2 * STEP_KEYS == KV_TILE),
              "nothing is cut");
static_assert(!ALL_KEYS || (!SKIPS && !FEATURES), "nothing changes or hides scores");
static_assert(!(SKIPS && FEATURES), "what goes step by step passes over nothing");
static_assert(PANELS(VALUE_DIM) % STAGED_PANELS == 0, "a tile's first panel follows the last one's");

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                ONCE ? GRID_EACH : GRID_RESIDENT};

/* 2. The consumers. A warp's rows are 16 of its group's. */

/* To base 2, in which scores of the FEATURES variants are already. */
static __device__ __forceinline__ float scale_of_scores(const attention_args *args)
{
    return FEATURES ? 1.0f : args->scale_log2;
}

/* What a warp knows of the rows in hand, and needs at every tile of keys. */
typedef struct rows_in_hand {
    const work *w;
    int queries;
    group_keys keys;
} rows_in_hand;

static __device__ __forceinline__ rows_in_hand take_in_hand(const work *w)
{
    const rows_in_hand rows = {w, queries_of(w), *keys_of(w)};
    return rows;
}

/* Whether what rounding takes from the weights counts. */
static __device__ __forceinline__ int counts_rest(const rows_in_hand *rows)
{
    return !ALL_KEYS && rows->keys.counts_rest;
}

static __device__ __forceinline__ void cap_and_hide(score_sums scores, const attention_args *args,
                                                    const rows_in_hand *rows, int tile)
{
    const int first_key = tile * KV_TILE;
#if FEATURES
    cap_scores(scores, args);
#endif
    if (!ALL_KEYS &&
        (first_key < rows->keys.all_first || first_key + KV_TILE > rows->keys.all_end))
        hide_keys(scores, args, &rows->w->share, warp_row_of(rows->w), first_key,
                  rows->w->share.kv_rows);
}

/* Rows that see few keys: the values of a tile of keys times the rounded weights, which then become
 * what rounding took from them. */
static __device__ __forceinline__ void count_rounded(score_sums scores, weight_steps weights,
                                                     out_sums out, shared_tiles *shared,
                                                     const position *keys)
{
    mbarrier_wait(&shared->v_full[keys->place], keys->parity);
    start_values(out, weights, values_at(shared, keys->place));
    wgmma_wait(0);
    subtract_weights(scores, weights);
    round_weights(weights, scores);
}

/* What is to be done with the scores of a tile of keys before they are weighed. */
static __device__ __forceinline__ void prepare(score_sums scores, const attention_args *args,
                                               const rows_in_hand *rows, int tile,
                                               shared_tiles *shared)
{
    if (!HALVES && tile + 1 == rows->keys.end_tile)
        release_queries(shared, rows->w);
    cap_and_hide(scores, args, rows, tile);
}

/* Scores of the first tile of keys of some rows become weights, not rounded yet. */
static __device__ __forceinline__ void weigh_first(score_sums scores, const attention_args *args,
                                                   softmax_state *softmax)
{
    const int raise[LANE_ROWS] = {1, 1};
    float correction[LANE_ROWS];
    forget(softmax);
    raise_maximum(scores, softmax, raise, correction, scale_of_scores(args));
    weigh(scores, softmax, scale_of_scores(args));
}

/* Rounded weights of a later tile of keys, relative to what those before were relative to, without
 * looking for the largest score. Rows for which they come out too large, or which had seen no key
 * (then they are infinite, or NaN), are relative to their largest score from now on, and what was
 * summed before shrinks. Where rounding counts, scores become weights too. */
static __device__ __forceinline__ void weigh_next(score_sums scores, weight_steps weights,
                                                  const attention_args *args,
                                                  const rows_in_hand *rows, softmax_state *softmax,
                                                  out_sums out)
{
    const float scale_log2 = scale_of_scores(args);
    float base[LANE_ROWS] = {softmax->max[0], softmax->max[1]}, sum[LANE_ROWS];
#pragma unroll 1
    for (int again = 0;; again = 1) {
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int step = 0; step < STEP_KEYS / 16; step++)
            weigh_step(scores, weights[step], base, sum, scale_log2, step);
        const int fits = sum[0] <= MOST_WEIGHT && sum[1] <= MOST_WEIGHT;
        if (again || __all_sync(ALL_LANES, fits))
            break;
        const int too_large[LANE_ROWS] = {are_too_large(sum[0]), are_too_large(sum[1])};
        float correction[LANE_ROWS];
        raise_maximum(scores, softmax, too_large, correction, scale_log2);
        find_base(softmax, base);
        shrink_out(out, correction);
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        softmax->sum[r] += sum[r];
    if (counts_rest(rows)) {
        softmax_state counted = *softmax;
        weigh(scores, &counted, scale_log2);
    }
}

/* The weights of the first tile of keys, with nothing to multiply meanwhile. */
static __device__ __forceinline__ void begin(score_sums scores, weight_steps weights,
                                             const attention_args *args, const rows_in_hand *rows,
                                             shared_tiles *shared, softmax_state *softmax,
                                             const position *keys)
{
    mbarrier_wait(&shared->k_full[keys->place], keys->parity);
    wait_for_turn();
    start_scores(scores, queries_at(shared, rows->queries), keys_at(shared, keys->place));
    pass_turn();
    wgmma_wait(0);
    if (!HALVES)
        release(&shared->k_empty[keys->place]);
    prepare(scores, args, rows, rows->keys.first_tile, shared);
    weigh_first(scores, args, softmax);
    round_weights(weights, scores);
}

/* The values of one tile of keys, and the scores of the next, be it of the same rows or of the next
 * ones. Returns where the values lie. */
static __device__ __forceinline__ int start_both(score_sums scores, weight_steps weights,
                                                 out_sums out, shared_tiles *shared,
                                                 const rows_in_hand *rows, position *keys)
{
    const int v_stage = keys->place, v_parity = keys->parity;
    advance(keys, STAGES);
    unsigned long long q, k, v;
    if (OPERANDS_EARLY) {
        q = queries_at(shared, rows->queries);
        k = keys_at(shared, keys->place);
        v = values_at(shared, v_stage);
    }
    mbarrier_wait(&shared->k_full[keys->place], keys->parity);
    wait_for_turn();
    if (!OPERANDS_EARLY) {
        q = queries_at(shared, rows->queries);
        k = keys_at(shared, keys->place);
    }
    start_scores(scores, q, k);
    if (!HALVES)
        mbarrier_wait(&shared->v_full[v_stage], v_parity);
    if (!OPERANDS_EARLY)
        v = values_at(shared, v_stage);
    start_values(out, weights, v + LAST_STEP);
    pass_turn();
    return v_stage;
}

/* Until those scores are there, and the values. */
static __device__ __forceinline__ void end_scores(score_sums scores, const attention_args *args,
                                                  const rows_in_hand *rows, int tile,
                                                  shared_tiles *shared, int stage)
{
    wgmma_wait(1);
    if (!HALVES)
        release(&shared->k_empty[stage]);
    prepare(scores, args, rows, tile, shared);
}

static __device__ __forceinline__ void end_values(shared_tiles *shared, int stage)
{
    wgmma_wait(0);
    release(&shared->v_empty[stage]);
}

/* Where a tile of keys is two products' worth: the values of its first half, and the scores and weights
 * of its second. */
static __device__ __forceinline__ void weigh_second_half(score_sums scores, weight_steps weights,
                                                         out_sums out, softmax_state *softmax,
                                                         const attention_args *args,
                                                         const rows_in_hand *rows,
                                                         shared_tiles *shared,
                                                         const position *keys)
{
    const unsigned long long q = queries_at(shared, rows->queries);
    const int stage = same_in_warp(keys->place); /* once, for both */
    const unsigned long long k = along_descriptor(shared->k[stage]) + LAST_STEP;
    const unsigned long long v = across_descriptor(shared->v[stage], KV_TILE);
    wait_for_turn();
    start_scores(scores, q, k);
    mbarrier_wait(&shared->v_full[keys->place], keys->parity);
    start_values(out, weights, v);
    pass_turn();
    wgmma_wait(1);
    release(&shared->k_empty[keys->place]);
    wgmma_wait(0);
    weigh_next(scores, weights, args, rows, softmax, out);
}

/* Tiles of keys that rows of other warpgroups see, but none of this one's. */
static __device__ __forceinline__ void skip_tiles(const work *w, shared_tiles *shared, reader *at,
                                                  int first_tile, int end_tile)
{
#pragma unroll 1
    for (int tile = first_tile; tile < end_tile; tile++) {
        const int stage = at->keys.place;
        mbarrier_wait(&shared->k_full[stage], at->keys.parity);
        wait_for_turn();
        pass_turn();
        release(&shared->k_empty[stage]);
        mbarrier_wait(&shared->v_full[stage], at->keys.parity);
        if (tile + 1 == w->end_tile)
            clear_values(w, shared->v[stage]);
        release(&shared->v_empty[stage]);
        advance(&at->keys, STAGES);
    }
}

/* Whether the first scores of a work can be computed while the one before it ends. */
static __device__ __forceinline__ int begins_early(const work *w)
{
    return w->way == OVERLAPPED &&
           (ALL_KEYS || (sees_keys(w) && keys_of(w)->first_tile == w->first_tile));
}

/* Tile after tile of rows, as long as the next ones can be begun while these end. Returns the work
 * that comes then. */
static __device__ __forceinline__ const work *walk_keys(const sm90_args *args,
                                                        shared_tiles *shared, const work *first,
                                                        reader *at)
{
    const attention_args *a = &args->attention;
    row_end end[LANE_ROWS];
    score_sums scores;
    weight_steps weights;
    out_sums out = {};
    softmax_state softmax;
    rows_in_hand rows = take_in_hand(first);
    const work *next;
    int skips;

    if (SKIPS)
        skip_tiles(first, shared, at, first->first_tile, rows.keys.first_tile);
    begin(scores, weights, a, &rows, shared, &softmax, &at->keys);
#pragma unroll 1
    for (;;) {
        int tile = rows.keys.first_tile;
#pragma unroll 1
        for (;;) {
            if (HALVES)
                weigh_second_half(scores, weights, out, &softmax, a, &rows, shared, &at->keys);
            if (++tile >= rows.keys.end_tile)
                break;
            if (counts_rest(&rows))
                count_rounded(scores, weights, out, shared, &at->keys);
            const int v_stage = start_both(scores, weights, out, shared, &rows, &at->keys);
            end_scores(scores, a, &rows, tile, shared, at->keys.place);
            end_values(shared, v_stage);
            weigh_next(scores, weights, a, &rows, &softmax, out);
        }
        if (HALVES)
            release_queries(shared, rows.w);
        else
            mbarrier_wait(&shared->v_full[at->keys.place], at->keys.parity);
        skips = SKIPS && rows.keys.end_tile < rows.w->end_tile;
        if (!skips)
            clear_values(rows.w, shared->v[at->keys.place]);
        if (counts_rest(&rows))
            count_rounded(scores, weights, out, shared, &at->keys);
        if (skips || !CHAINS)
            break;
        next = await_work(shared, at);
        if (!begins_early(next))
            break;
        const work *ended = rows.w;
        rows = take_in_hand(next);
        const int v_stage = start_both(scores, weights, out, shared, &rows, &at->keys);
        finish_softmax(a, ended, &softmax, end);
        store_lses(a, ended, end);
        end_scores(scores, a, &rows, rows.keys.first_tile, shared, at->keys.place);
        weigh_first(scores, a, &softmax);
        end_values(shared, v_stage);
        store(args, ended, shared->out[warp_id() - 4], out, end);
        clear_out(out);
        round_weights(weights, scores);
    }
    start_values(out, weights, values_at(shared, at->keys.place) + LAST_STEP);
    finish_softmax(a, rows.w, &softmax, end);
    if (!LSE_LAST)
        store_lses(a, rows.w, end);
    end_values(shared, at->keys.place);
    advance(&at->keys, STAGES);
    store(args, rows.w, shared->out[warp_id() - 4], out, end);
    if (LSE_LAST)
        store_lses(a, rows.w, end);
    if (skips)
        skip_tiles(rows.w, shared, at, rows.keys.end_tile, rows.w->end_tile);
    if (skips || !CHAINS)
        next = await_next(shared, at);
    return next;
}

#if FEATURES
/* A tile of rows, one step after the other, with all features. What rounding took from the weights
 * counts too: most of them may be hidden. */
static __device__ __forceinline__ const work *walk_step_by_step(const sm90_args *args,
                                                                shared_tiles *shared,
                                                                const work *w, reader *at)
{
    const attention_args *a = &args->attention;
    const float scale_log2 = scale_of_scores(a);
    const int warp_row = warp_row_of(w);
    row_end end[LANE_ROWS];
    out_sums out = {};
    softmax_state softmax;
    forget(&softmax);
#pragma unroll 1
    for (int tile = w->first_tile; tile < w->end_tile; tile++) {
        const int stage = at->keys.place;
        const int raise[LANE_ROWS] = {1, 1};
        float correction[LANE_ROWS];
        score_sums scores;
        weight_steps weights, rest;
        mbarrier_wait(&shared->k_full[stage], at->keys.parity);
        start_scores(scores, queries_at(shared, queries_of(w)), keys_at(shared, stage));
        wgmma_wait(0);
        release(&shared->k_empty[stage]);
        shape_scores(scores, a, &w->share, warp_row, tile * KV_TILE, w->share.kv_rows);
        hide_keys(scores, a, &w->share, warp_row, tile * KV_TILE, w->share.kv_rows);
        raise_maximum(scores, &softmax, raise, correction, scale_log2);
        shrink_out(out, correction);
        weigh(scores, &softmax, scale_log2);
        if (a->more.dropout_threshold)
            drop_weights(scores, a, &w->share, warp_row, tile * KV_TILE);
        mbarrier_wait(&shared->v_full[stage], at->keys.parity);
        if (tile + 1 == w->end_tile)
            clear_values(w, shared->v[stage]);
        round_weights(weights, scores);
        subtract_weights(scores, weights);
        round_weights(rest, scores);
        start_values(out, weights, values_at(shared, stage));
        start_values(out, rest, values_at(shared, stage));
        wgmma_wait(0);
        release(&shared->v_empty[stage]);
        advance(&at->keys, STAGES);
    }
    release_queries(shared, w);
    finish_softmax(a, w, &softmax, end);
    store_lses(a, w, end);
    store(args, w, shared->out[warp_id() - 4], out, end);
    return await_next(shared, at);
}
#endif

/* Rows that see no key; or there are none. */
static __device__ __forceinline__ const work *walk_nowhere(const sm90_args *args,
                                                           shared_tiles *shared, const work *w,
                                                           reader *at)
{
    const out_sums out = {};
    softmax_state softmax;
    row_end end[LANE_ROWS];
    forget(&softmax);
    release_queries(shared, w);
    if (SKIPS)
        skip_tiles(w, shared, at, w->first_tile, w->end_tile);
    finish_softmax(&args->attention, w, &softmax, end);
    store_lses(&args->attention, w, end);
    store(args, w, shared->out[warp_id() - 4], out, end);
    return await_next(shared, at);
}

static __device__ __forceinline__ void consume(const sm90_args *args, shared_tiles *shared)
{
    reader at = {};
    if (group_id() == CONSUMERS - 1)
        pass_turn();
    const work *w = await_work(shared, &at);
#pragma unroll 1
    while (w->way != NO_WORK) {
        if (ALL_KEYS || (w->way == OVERLAPPED && sees_keys(w)))
            w = walk_keys(args, shared, w, &at);
#if FEATURES
        else if (w->way == STEP_BY_STEP)
            w = walk_step_by_step(args, shared, w, &at);
#endif
        else
            w = walk_nowhere(args, shared, w, &at);
        if (ONCE)
            break;
    }
    if (group_id() == 0)
        wait_for_turn();
    bulk_wait_read(0);
}

/* 3. The kernel. */

/* Those that the first loads need, and by another warp meanwhile the others. */
static __device__ __forceinline__ void make_first_barriers(shared_tiles *shared)
{
    mbarrier_init(&shared->k_full[0], 1);
    for (int group = 0; group < CONSUMERS; group++)
        mbarrier_init(&shared->q_full[0][group], 1);
    mbarrier_init(&shared->v_full[0], 1);
    fence_mbarriers();
}

static __device__ __forceinline__ void make_other_barriers(shared_tiles *shared)
{
    for (int i = CONSUMERS; i < QUERY_BUFFERS * CONSUMERS; i++)
        mbarrier_init(&shared->q_full[0][i], 1);
    for (int i = 0; i < QUERY_BUFFERS * CONSUMERS; i++)
        mbarrier_init(&shared->q_empty[0][i], 4);
    for (int stage = 0; stage < STAGES; stage++) {
        if (stage > 0) {
            mbarrier_init(&shared->k_full[stage], 1);
            mbarrier_init(&shared->v_full[stage], 1);
        }
        mbarrier_init(&shared->k_empty[stage], CONSUMERS * 4);
        mbarrier_init(&shared->v_empty[stage], CONSUMERS * 4);
    }
    fence_mbarriers();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL_NAME(const __grid_constant__ sm90_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int fetches = thread_id() == 0;
    writer at = {{(int)blockIdx.x, 0}};
    work *first = NULL;
    int fetched = 0;
    if (fetches) {
        first = next_place(shared, &at);
        work held; /* in registers until its first tiles are asked for, where it fits */
        work *found = ALL_KEYS ? &held : first;
        make_first_barriers(shared);
        wait_for_previous_kernel(); /* all others wait for what this thread finds and fetches */
        find_work(&args, &at.found, found);
        fetched = fetch_first(&args, shared, found, &at);
        if (ALL_KEYS)
            *first = held;
    }
    if (thread_id() == WARP_LANES)
        make_other_barriers(shared);
    __syncthreads();
    if (warp_id() < 4) {
        lower_registers(PRODUCER_REGISTERS);
        if (fetches) {
            produce(&args, shared, first, fetched, &at);
            let_next_kernel_start();
        }
    } else {
        raise_registers(CONSUMER_REGISTERS);
        consume(&args, shared);
    }
}
