/* prefill.cu: attention over many query rows, for Hopper.
 *
 * A block stays on its multiprocessor and takes tile after tile of QUERY_TILE query rows. One thread
 * fetches Q, K and V through tensor maps, STAGES tiles of keys ahead; CONSUMERS warpgroups own 64
 * rows each. A warpgroup keeps two products under way, the scores of the next tile of keys and the
 * values of this one, and computes the softmax of the next meanwhile. docs/kernels/sm90.md.
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
#ifndef FEATURES
#define FEATURES 0
#endif
/* Panels of its result that a warp has under way to memory. */
#ifndef STAGED_PANELS
#define STAGED_PANELS (VALUE_DIM % 128 == 0 ? 2 : 1)
#endif
/* 1: warpgroups take turns in starting products, so that one's softmax meets another's products. */
#ifndef PING_PONG
#define PING_PONG 1
#endif

#define GROUP_THREADS 128
#define GROUP_ROWS 64
#define THREADS (GROUP_THREADS * (CONSUMERS + 1))
#define QUERY_TILE (GROUP_ROWS * CONSUMERS)
#define SCORE_TILES (KV_TILE / 8)
/* Keys that one copy takes: all of a tile, or what may be a page. */
#define BOX_ROWS (FEATURES ? 64 : KV_TILE)
#define BOXES (KV_TILE / BOX_ROWS)
#define PRODUCER_REGISTERS (CONSUMERS == 2 ? 24 : 32)
#define CONSUMER_REGISTERS (CONSUMERS == 2 ? 240 : 160)

#include "ptx_barrier.cuh"
#include "ptx_launch.cuh"
#include "sm80/features.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"
#include "sm90/again.cuh"
#include "sm90/store.cuh"

static_assert(KV_TILE % BOX_ROWS == 0, "whole boxes");
static_assert(PANELS(VALUE_DIM) % STAGED_PANELS == 0, "a tile's first panel follows the last one's");

/* 2. Shared memory. */

/* A tile of query rows and the keys it sees. Aligned, because it is copied as a whole. */
typedef struct __align__(8) work
{
    sequence_share share;
    key_limits limits;
    int block_row;
    int first_tile, end_tile; /* of keys */
    int last_rows;            /* of the last tile of keys, up to the end of the sequence */
    int is_last;              /* nothing to do, here and hereafter */
}
work;

typedef struct __align__(1024) shared_tiles
{
    element q[CONSUMERS][GROUP_ROWS * HEAD_DIM];
    element k[STAGES][KV_TILE * HEAD_DIM];
    element v[STAGES][KV_TILE * VALUE_DIM];
    element out[CONSUMERS * 4][STAGED_PANELS][WARP_ROWS * PANEL_DIMS];
    work works[2]; /* in turn; each is announced together with its queries */
    mbarrier q_full, q_empty;
    mbarrier k_full[STAGES], k_empty[STAGES];
    mbarrier v_full[STAGES], v_empty[STAGES];
}
shared_tiles;

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                GRID_RESIDENT};

/* 3. The order of work. */

/* Round after round of tiles is dealt out, every second one backwards, so that no block gets the
 * longest of each. */
static __device__ __forceinline__ int work_index(int round)
{
    const int place = (int)(round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    return round * (int)gridDim.x + place;
}

static __device__ __forceinline__ int is_paged(const attention_args *args)
{
    return FEATURES && args->more.page_size.divisor;
}

/* Whether something else lies behind the keys of a sequence; otherwise tensor maps end with them, and
 * give 0. */
static __device__ __forceinline__ int has_neighbours(const attention_args *args)
{
    return args->cu_kv || args->kv_lengths || is_paged(args);
}

/* Sections of sequences whose keys and values the L2 cache holds; within one, the tiles that see
 * the most keys first. */
static __device__ __forceinline__ work find_work(const sm90_args *args, int index)
{
    const attention_args *a = &args->attention;
    const unsigned whole = (unsigned)args->section * (unsigned)args->tiles;
    const unsigned section = (unsigned)index / whole, rest = (unsigned)index % whole;
    const int first = (int)section * args->section;
    const unsigned width = (unsigned)min(args->section, args->sequences - first);
    const int sequence = first + (int)(rest % width);
    work w;
    w.is_last = 0;
    w.block_row = (args->tiles - 1 - (int)(rest / width)) * QUERY_TILE;
    w.share = find_share(a, sequence / args->head_groups, sequence % args->head_groups);
    w.limits = limits_of_rows(a, &w.share, w.block_row, QUERY_TILE);
    w.first_tile = w.limits.first / KV_TILE;
    w.end_tile = (w.limits.end + KV_TILE - 1) / KV_TILE;
    w.last_rows = has_neighbours(a) ? w.share.kv_rows - (w.end_tile - 1) * KV_TILE : KV_TILE;
    return w;
}

/* Counts the tiles of keys that went through the stages. */
typedef struct position {
    int stage;
    int parity; /* of the phase in which this stage is filled */
} position;

static __device__ __forceinline__ void advance(position *p)
{
    p->stage++;
    if (p->stage == STAGES) {
        p->stage = 0;
        p->parity ^= 1;
    }
}

/* 4. The producer. */

/* Where the first of a box of keys lies in the tensor maps, whose last axis is the pages or else the
 * batch. Behind the end of a sequence there may be no page: any will do. */
static __device__ __forceinline__ page_place find_box(const attention_args *args,
                                                      const sequence_share *share, int key)
{
    if (is_paged(args))
        return find_page(args, share, min(key, share->kv_rows - 1));
    page_place place;
    place.page = args->cu_kv ? 0 : share->batch;
    place.row = share->kv_first + key;
    return place;
}

static __device__ __forceinline__ void fetch_tile(element *tile, const tensor_map *map, int dims,
                                                  const page_place places[BOXES], int head,
                                                  mbarrier *full, mbarrier *empty, int parity)
{
    mbarrier_wait(empty, parity ^ 1);
    mbarrier_arrive_expect(full, KV_TILE * dims * (int)sizeof(element));
#pragma unroll
    for (int box = 0; box < BOXES; box++)
        load_panels(tile + box * BOX_ROWS * PANEL_DIMS, map, KV_TILE, dims, places[box].row, head,
                    places[box].page, full);
}

/* Tells the consumers what comes next, and fetches its queries. */
static __device__ __forceinline__ void announce(const sm90_args *args, shared_tiles *shared,
                                                const work *w, int turn)
{
    mbarrier_wait(&shared->q_empty, turn ^ 1);
    shared->works[turn] = *w;
    if (w->first_tile >= w->end_tile) {
        mbarrier_arrive(&shared->q_full);
        return;
    }
    mbarrier_arrive_expect(&shared->q_full, (int)sizeof shared->q);
    const attention_args *a = &args->attention;
#pragma unroll
    for (int group = 0; group < CONSUMERS; group++) {
        const int row = row_of(a, w->block_row + group * GROUP_ROWS);
        /* In its map heads come before rows: a box holds packed rows in their order. */
        load_panels(shared->q[group], &args->q, GROUP_ROWS, HEAD_DIM, w->share.head,
                    w->share.q_first + row, a->cu_q ? 0 : w->share.batch, &shared->q_full);
    }
}

static __device__ __forceinline__ void fetch_keys(const sm90_args *args, shared_tiles *shared,
                                                  const work *w, position *at)
{
#pragma unroll 1
    for (int tile = w->first_tile; tile < w->end_tile; tile++) {
        page_place places[BOXES];
#pragma unroll
        for (int box = 0; box < BOXES; box++)
            places[box] = find_box(&args->attention, &w->share, tile * KV_TILE + box * BOX_ROWS);
        fetch_tile(shared->k[at->stage], &args->k, HEAD_DIM, places, w->share.kv_head,
                   &shared->k_full[at->stage], &shared->k_empty[at->stage], at->parity);
        fetch_tile(shared->v[at->stage], &args->v, VALUE_DIM, places, w->share.kv_head,
                   &shared->v_full[at->stage], &shared->v_empty[at->stage], at->parity);
        advance(at);
    }
}

static __device__ __forceinline__ void produce(const sm90_args *args, shared_tiles *shared)
{
    const int count = args->sequences * args->tiles;
    position at = {0, 0};
    int turn = 0;
    work w;
#pragma unroll 1
    for (int round = 0; work_index(round) < count; round++) {
        w = find_work(args, work_index(round));
        if (w.block_row >= w.share.rows)
            continue;
        announce(args, shared, &w, turn);
        turn ^= 1;
        fetch_keys(args, shared, &w, &at);
    }
    w.is_last = 1;
    w.first_tile = w.end_tile = 0;
    announce(args, shared, &w, turn);
}

/* 5. The consumers. A warp's rows are 16 of its group's. */

typedef float score_sums[ROW_GROUPS][SCORE_TILES][4];
typedef float out_sums[ROW_GROUPS][OUT_TILES][4];
typedef unsigned weight_steps[KV_TILE / 16][4];

static __device__ __forceinline__ int group_id(void)
{
    return warp_id() / 4 - 1;
}

static __device__ __forceinline__ void release(mbarrier *empty)
{
    if (lane_id() == 0)
        mbarrier_arrive(empty);
}

/* The queries, and with them what all lanes read of the work before. */
static __device__ __forceinline__ void release_queries(shared_tiles *shared)
{
    __syncwarp();
    release(&shared->q_empty);
}

static __device__ __forceinline__ void start_scores(score_sums scores, const element *q,
                                                    const element *k)
{
    const unsigned long long left = along_descriptor(q), right = along_descriptor(k);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++)
        WGMMA_SCORES(KV_TILE)
        (&scores[0][0][0], left + along_step(step, GROUP_ROWS), right + along_step(step, KV_TILE),
         step > 0);
    wgmma_commit();
}

static __device__ __forceinline__ void start_values(out_sums out, weight_steps weights,
                                                    const element *v)
{
    const unsigned long long right = across_descriptor(v, KV_TILE);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < KV_TILE / 16; step++)
        WGMMA_VALUES(VALUE_DIM)(&out[0][0][0], weights[step], right + across_step(step), 1);
    wgmma_commit();
}

/* The rows' new maxima, and what was summed before is to be multiplied by; 1 if that is not 1 for
 * some row of the warp. */
static __device__ __forceinline__ int next_maximum(const score_sums scores, softmax_state *softmax,
                                                   float base[LANE_ROWS],
                                                   float correction[LANE_ROWS], float scale_log2)
{
    int moved = 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        float tile_max = negative_infinity();
#pragma unroll
        for (int n = 0; n < SCORE_TILES; n++)
            tile_max = fmaxf(tile_max, fmaxf(scores[0][n][r * 2], scores[0][n][r * 2 + 1]));
        const float new_max = fmaxf(softmax->max[r], quad_max(tile_max) * scale_log2);
        base[r] = new_max == negative_infinity() ? 0.0f : new_max;
        correction[r] = exp2_approx(softmax->max[r] - base[r]);
        moved |= new_max != softmax->max[r];
        softmax->max[r] = new_max;
    }
    return __any_sync(ALL_LANES, moved);
}

static __device__ __forceinline__ void shrink_sums(softmax_state *softmax,
                                                   const float correction[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        softmax->sum[r] *= correction[r];
}

static __device__ __forceinline__ void shrink_out(out_sums out, const float correction[LANE_ROWS])
{
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[0][n][i] *= correction[i / 2];
}

static __device__ __forceinline__ void round_weights(weight_steps weights, const score_sums scores)
{
#pragma unroll
    for (int i = 0; i < KV_TILE / 4; i++) {
        const float *pair = &scores[0][i / 2][i % 2 * 2];
        weights[i / 4][i % 4] = pack_elements(pair[0], pair[1]);
    }
}

/* What rounding took away. */
static __device__ __forceinline__ void subtract_weights(score_sums scores,
                                                        const weight_steps weights)
{
#pragma unroll
    for (int i = 0; i < KV_TILE / 4; i++) {
        float *pair = &scores[0][i / 2][i % 2 * 2];
        const unsigned rounded = weights[i / 4][i % 4];
        pair[0] -= element_to_f32((element)(rounded & 0xffffu));
        pair[1] -= element_to_f32((element)(rounded >> 16));
    }
}

/* Warpgroups in a ring: each starts its products when the one before it has started its own. */
enum { TURN_BARRIER = 1, CLEAR_BARRIER = TURN_BARRIER + CONSUMERS };

static __device__ __forceinline__ void wait_for_turn(void)
{
    if (PING_PONG)
        barrier_wait(TURN_BARRIER + group_id(), 2 * GROUP_THREADS);
}

static __device__ __forceinline__ void pass_turn(void)
{
    if (PING_PONG)
        barrier_arrive(TURN_BARRIER + (group_id() + 1) % CONSUMERS, 2 * GROUP_THREADS);
}

/* A weight of 0 does not hide a value that is NaN: those of the last tile of keys that lie behind the
 * end of the sequence become 0. */
static __device__ __forceinline__ void clear_values(const work *w, element *v)
{
    if (w->last_rows >= KV_TILE)
        return;
    const int first = w->last_rows * PANEL_DIMS + (thread_id() - GROUP_THREADS) * CHUNK;
#pragma unroll
    for (int panel = 0; panel < PANELS(VALUE_DIM); panel++)
#pragma unroll 1
        for (int i = first; i < KV_TILE * PANEL_DIMS; i += CONSUMERS * GROUP_THREADS * CHUNK)
            *(uint4 *)(v + panel * KV_TILE * PANEL_DIMS + i) = make_uint4(0, 0, 0, 0);
    fence_async();
    barrier_wait(CLEAR_BARRIER, CONSUMERS * GROUP_THREADS);
}

/* To base 2, in which scores of the FEATURES variants are already. */
static __device__ __forceinline__ float scale_of_scores(const attention_args *args)
{
    return FEATURES ? 1.0f : args->scale * LOG2_E;
}

/* Rows that may see few keys, and whatever would crowd the loop that overlaps softmax and products:
 * there a soft-cap is all that changes scores. */
static __device__ __forceinline__ int go_step_by_step(const attention_args *args,
                                                      const key_limits *limits)
{
    return see_few_keys(args, limits) || (FEATURES && args->more.dropout_threshold);
}

/* Where a tile of keys is not in [all_first, all_end), some row does not see all of it. */
static __device__ __forceinline__ void cap_and_hide(score_sums scores, const attention_args *args,
                                                    const sequence_share *share, int all_first,
                                                    int all_end, int warp_row, int tile)
{
    const int first_key = tile * KV_TILE;
#if FEATURES
    cap_scores(scores, args);
#endif
    if (first_key < all_first || first_key + KV_TILE > all_end)
        hide_keys(scores, args, share, warp_row, first_key, share->kv_rows);
}

/* All keys of a tile of rows. While the values of one tile of keys are multiplied, the softmax of
 * the next is computed. */
static __device__ __forceinline__ void walk_keys(const attention_args *args, const work *w,
                                                 shared_tiles *shared, position *at, int warp_row,
                                                 out_sums out, softmax_state *softmax)
{
    const element *q = shared->q[group_id()];
    const float scale_log2 = scale_of_scores(args);
    const int end_tile = w->end_tile;
    const int all_first = w->limits.all_first, all_end = w->limits.all_end;
    float base[LANE_ROWS], correction[LANE_ROWS];
    score_sums scores;
    weight_steps weights;

    mbarrier_wait(&shared->k_full[at->stage], at->parity);
    wait_for_turn();
    start_scores(scores, q, shared->k[at->stage]);
    pass_turn();
    wgmma_wait(0);
    release(&shared->k_empty[at->stage]);
    if (w->first_tile + 1 == end_tile)
        release_queries(shared);
    cap_and_hide(scores, args, &w->share, all_first, all_end, warp_row, w->first_tile);
    next_maximum(scores, softmax, base, correction, scale_log2);
    exponentiate(scores, softmax, base, scale_log2, 0, TILE_SCORES);
    round_weights(weights, scores);
#pragma unroll 1
    for (int tile = w->first_tile + 1; tile < end_tile; tile++) {
        position next = *at;
        advance(&next);
        mbarrier_wait(&shared->k_full[next.stage], next.parity);
        wait_for_turn();
        start_scores(scores, q, shared->k[next.stage]);
        mbarrier_wait(&shared->v_full[at->stage], at->parity);
        start_values(out, weights, shared->v[at->stage]);
        pass_turn();
        wgmma_wait(1);
        release(&shared->k_empty[next.stage]);
        if (tile + 1 == end_tile)
            release_queries(shared);
        cap_and_hide(scores, args, &w->share, all_first, all_end, warp_row, tile);
        const int moved = next_maximum(scores, softmax, base, correction, scale_log2);
        shrink_sums(softmax, correction);
        exponentiate(scores, softmax, base, scale_log2, 0, TILE_SCORES);
        wgmma_wait(0);
        release(&shared->v_empty[at->stage]);
        if (moved)
            shrink_out(out, correction);
        round_weights(weights, scores);
        *at = next;
    }
    mbarrier_wait(&shared->v_full[at->stage], at->parity);
    clear_values(w, shared->v[at->stage]);
    start_values(out, weights, shared->v[at->stage]);
    wgmma_wait(0);
    release(&shared->v_empty[at->stage]);
    advance(at);
}

/* The same one step after the other, with all features. What rounding took from the weights counts
 * too, which rows that see few keys need. */
static __device__ __forceinline__ void walk_step_by_step(const attention_args *args, const work *w,
                                                     shared_tiles *shared, position *at,
                                                     int warp_row, out_sums out,
                                                     softmax_state *softmax)
{
    const float scale_log2 = scale_of_scores(args);
#pragma unroll 1
    for (int tile = w->first_tile; tile < w->end_tile; tile++) {
        float base[LANE_ROWS], correction[LANE_ROWS];
        score_sums scores;
        weight_steps weights, rest;
        mbarrier_wait(&shared->k_full[at->stage], at->parity);
        start_scores(scores, shared->q[group_id()], shared->k[at->stage]);
        wgmma_wait(0);
        release(&shared->k_empty[at->stage]);
#if FEATURES
        shape_scores(scores, args, &w->share, warp_row, tile * KV_TILE, w->share.kv_rows);
#endif
        hide_keys(scores, args, &w->share, warp_row, tile * KV_TILE, w->share.kv_rows);
        next_maximum(scores, softmax, base, correction, scale_log2);
        shrink_sums(softmax, correction);
        shrink_out(out, correction);
        exponentiate(scores, softmax, base, scale_log2, 0, TILE_SCORES);
#if FEATURES
        if (args->more.dropout_threshold)
            drop_weights(scores, args, &w->share, warp_row, tile * KV_TILE);
#endif
        mbarrier_wait(&shared->v_full[at->stage], at->parity);
        if (tile + 1 == w->end_tile)
            clear_values(w, shared->v[at->stage]);
        round_weights(weights, scores);
        subtract_weights(scores, weights);
        round_weights(rest, scores);
        start_values(out, weights, shared->v[at->stage]);
        start_values(out, rest, shared->v[at->stage]);
        wgmma_wait(0);
        release(&shared->v_empty[at->stage]);
        advance(at);
    }
    release_queries(shared);
}

static __device__ __forceinline__ void store_rows(const attention_args *args,
                                                  const sequence_share *share, int warp_row,
                                                  const out_sums out,
                                                  const float factor[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = warp_row + lane_row(r);
        if (row < share->rows)
            store_words(lane_place(args, share, row, 0), out[0], r, factor[r], OUT_TILES,
                        args->value_dim);
    }
}

/* The same through a tensor map, panel after panel. A place is written again when its last store
 * has read it. */
static __device__ __forceinline__ void store_boxes(const sm90_args *args,
                                                   const sequence_share *share,
                                                   shared_tiles *shared, int warp_row,
                                                   const out_sums out,
                                                   const float factor[LANE_ROWS])
{
    const int batch = args->attention.cu_q ? 0 : share->batch;
    const int row = share->q_first + row_of(&args->attention, warp_row);
#pragma unroll
    for (int panel = 0; panel < PANELS(VALUE_DIM); panel++) {
        element *place = shared->out[warp_id() - 4][panel % STAGED_PANELS];
        bulk_wait_read(STAGED_PANELS - 1);
        __syncwarp();
        write_panel(place, &out[0][panel * (PANEL_DIMS / 8)], factor);
        fence_async();
        __syncwarp();
        if (lane_id() == 0) {
            tensor_store(&args->out, place, panel * PANEL_DIMS, share->head, row, batch);
            bulk_commit();
        }
    }
}

/* Whether a box of rows ends with its sequence, or with the tensor. */
static __device__ __forceinline__ int is_boxed(const sm90_args *args, const sequence_share *share,
                                               int warp_row)
{
    return args->stores_boxes &&
           (!args->attention.cu_q || warp_row + WARP_ROWS <= share->rows);
}

static __device__ __forceinline__ void finish(const sm90_args *args, const sequence_share *share,
                                              shared_tiles *shared, int warp_row,
                                              const out_sums out, const softmax_state *softmax)
{
    const attention_args *a = &args->attention;
    float factor[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = warp_row + lane_row(r);
        const row_end end =
            finish_row(a, softmax->max[r], quad_sum(softmax->sum[r]), head_of(a, share, row), 1);
        factor[r] = end.factor;
        if (lane_id() % 4 == 0 && row < share->rows)
            store_lse(a, share, row, end.lse_log2);
    }
    if (is_boxed(args, share, warp_row) && are_finite(out[0], OUT_TILES)) {
        store_boxes(args, share, shared, warp_row, out, factor);
        return;
    }
    if (!FEATURES || a->more.vector_stores)
        store_rows(a, share, warp_row, out, factor);
    else
        store_rows_by_element(a, share, warp_row, 0, out, factor);
    compute_again(a, share, warp_row, out[0], OUT_TILES, 0);
}

static __device__ __forceinline__ void consume(const sm90_args *args, shared_tiles *shared)
{
    const attention_args *a = &args->attention;
    position at = {0, 0};
    if (group_id() == CONSUMERS - 1)
        pass_turn();
#pragma unroll 1
    for (int turn = 0;; turn ^= 1) {
        mbarrier_wait(&shared->q_full, turn);
        const work *w = &shared->works[turn];
        if (w->is_last)
            break;
        const int warp_row =
            w->block_row + group_id() * GROUP_ROWS + warp_id() % 4 * WARP_ROWS;
        out_sums out = {};
        softmax_state softmax;
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++) {
            softmax.max[r] = negative_infinity();
            softmax.sum[r] = 0.0f;
        }
        if (w->first_tile >= w->end_tile)
            release_queries(shared);
        else if (go_step_by_step(a, &w->limits))
            walk_step_by_step(a, w, shared, &at, warp_row, out, &softmax);
        else
            walk_keys(a, w, shared, &at, warp_row, out, &softmax);
        finish(args, &w->share, shared, warp_row, out, &softmax);
    }
    if (group_id() == 0)
        wait_for_turn();
    bulk_wait_read(0);
}

/* 6. The kernel. */

static __device__ __forceinline__ void make_barriers(shared_tiles *shared)
{
    mbarrier_init(&shared->q_full, 1);
    mbarrier_init(&shared->q_empty, CONSUMERS * 4);
    for (int stage = 0; stage < STAGES; stage++) {
        mbarrier_init(&shared->k_full[stage], 1);
        mbarrier_init(&shared->k_empty[stage], CONSUMERS * 4);
        mbarrier_init(&shared->v_full[stage], 1);
        mbarrier_init(&shared->v_empty[stage], CONSUMERS * 4);
    }
    fence_mbarriers();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL_NAME(const __grid_constant__ sm90_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    if (thread_id() == 0)
        make_barriers(shared);
    __syncthreads();
    if (warp_id() < 4) {
        lower_registers(PRODUCER_REGISTERS);
        if (thread_id() == 0) {
            wait_for_previous_kernel(); /* all others wait for what this thread fetches */
            produce(&args, shared);
            let_next_kernel_start();
        }
    } else {
        raise_registers(CONSUMER_REGISTERS);
        consume(&args, shared);
    }
}
