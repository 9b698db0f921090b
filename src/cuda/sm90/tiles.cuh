/* tiles.cuh: latency.cu's tiles of keys, one after the other or only one; exponents relative to the
 * largest score so far. */
#ifndef FC_SM90_TILES_CUH
#define FC_SM90_TILES_CUH

#include "sm90/scores.cuh"

static __device__ __forceinline__ void raise_largest(float largest[LANE_ROWS],
                                                     const score_sums scores, int piece)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        largest[r] = lane_maximum(scores, r, piece * PIECE_TILES, PIECE_TILES, largest[r]);
}

static __device__ __forceinline__ void look_through(score_sums scores, float largest[LANE_ROWS],
                                                    const tile_ends *ends, int piece)
{
    if (FIRST_KEYS && !HIDES_FIRST)
        hide_ends(scores, ends, piece);
    raise_largest(largest, scores, piece);
}

/* Scores of a tile, and the lane's largest ones: a piece is looked through while the next is
 * multiplied, or still comes. */
static __device__ __forceinline__ void compute_scores(score_sums scores, float largest[LANE_ROWS],
                                                      const tile_ends *ends, shared_tiles *shared,
                                                      int stage, int parity)
{
    largest[0] = largest[1] = negative_infinity();
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        start_scores(scores, ends, shared, stage, parity, piece);
        if (piece > 0) {
            wgmma_wait(1);
            look_through(scores, largest, ends, piece - 1);
        }
    }
    wgmma_wait(0);
    look_through(scores, largest, ends, PIECES - 1);
}

/* The exponentials of some keys are computed while earlier keys' values are multiplied; with
 * FEATURES they are there. Where rows may see few keys, what rounding takes from their weights
 * counts too. */
static __device__ __forceinline__ void
add_values(out_sums out, score_sums scores, softmax_state *softmax, const float base[LANE_ROWS],
           float scale_log2, shared_tiles *shared, int stage, int parity, int keys, int count_rest)
{
    group_weights weights[GROUPS], rest[GROUPS];
    mbarrier_wait(&shared->v_full[stage], parity);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const int first_key = group * GROUP_KEYS;
        if (first_key >= keys)
            continue; /* nobody sees them */
        if (!FEATURES)
            exponentiate(scores, softmax, base, scale_log2, first_key / 2,
                         (first_key + GROUP_KEYS) / 2);
        round_group(weights[group], rest[group], scores, group, count_rest);
        start_values(out, weights[group], shared, stage, group, ONE_TILE && group == 0);
        if (count_rest)
            start_values(out, rest[group], shared, stage, group, 0);
    }
    if (!ONE_TILE)
        wgmma_wait(0);
}

/* In a tile in which some rows do not see some keys, where that was not done piece by piece. */
static __device__ __forceinline__ void hide_in_tile(score_sums scores, const attention_args *args,
                                                    const block_work *w, const tile_ends *ends,
                                                    int warp_row, int first_key)
{
    if (ALL_KEYS)
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++)
            hide_ends(scores, ends, piece);
    else
        hide_keys(scores, args, &w->share, warp_row, first_key, w->share.kv_rows);
}

/* Values behind the end of the sequence become 0. */
static __device__ __forceinline__ void clear_values(const attention_args *args, const block_work *w,
                                                    shared_tiles *shared, int stage, int parity,
                                                    int first_key)
{
    const int rows = w->share.kv_rows - first_key;
    if (!has_neighbours(args) || rows >= KV_TILE)
        return;
    mbarrier_wait(&shared->v_full[stage], parity);
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++)
        clear_rows(shared->v[stage][piece], PIECE, VALUE_DIM, max(0, rows - piece * PIECE),
                   thread_id(), CONSUMER_THREADS);
    barrier_wait(1, CONSUMER_THREADS);
}

/* One tile of keys. Where it is the only one, its last products are not waited for. */
static __device__ __forceinline__ void add_tile(const attention_args *args, const block_work *w,
                                                shared_tiles *shared, int i, int warp_row,
                                                float scale_log2, out_sums out,
                                                softmax_state *softmax, int count_rest)
{
    const int stage = i % STAGES, parity = i / STAGES % 2;
    const int first_key = (w->first_tile + i) * KV_TILE;
    score_sums scores;
    float base[LANE_ROWS], largest[LANE_ROWS];
    const tile_ends ends = find_ends(args, w, warp_row, first_key);
    const int hides =
        !FIRST_KEYS && (ends.all < KV_TILE || (!DENSE && first_key < w->limits.all_first));
    compute_scores(scores, largest, &ends, shared, stage, parity);
#if FEATURES
    shape_scores(scores, args, &w->share, warp_row, first_key, w->share.kv_rows);
#endif
    if (hides)
        hide_in_tile(scores, args, w, &ends, warp_row, first_key);
    if (FEATURES || hides)
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            largest[r] = lane_maximum(scores, r, 0, SCORE_TILES, negative_infinity());
    if (ONE_TILE)
        set_maximum(largest, softmax, base, scale_log2);
    else {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            largest[r] = fmaxf(softmax->max[r], quad_max(largest[r]) * scale_log2);
        move_to_maximum(largest, out, softmax);
        find_base(softmax, base);
    }
    if (CLEARS)
        clear_values(args, w, shared, stage, parity, first_key);
#if FEATURES
    exponentiate(scores, softmax, base, scale_log2, 0, TILE_SCORES);
    if (args->more.dropout_threshold)
        drop_weights(scores, args, &w->share, warp_row, first_key);
#endif
    if (count_rest)
        add_values(out, scores, softmax, base, scale_log2, shared, stage, parity, KEYS_OF_FEW, 1);
    else
        add_values(out, scores, softmax, base, scale_log2, shared, stage, parity, KV_TILE, 0);
    if (!ONE_TILE && lane_id() == 0)
        mbarrier_arrive(&shared->empty[stage]);
}

static __device__ __forceinline__ void add_tiles(const attention_args *args, const block_work *w,
                                                 shared_tiles *shared, int warp_row,
                                                 float scale_log2, out_sums out,
                                                 softmax_state *softmax, int count_rest)
{
#pragma unroll 1
    for (int i = 0; i < w->tiles; i++) {
        add_tile(args, w, shared, i, warp_row, scale_log2, out, softmax, count_rest);
        if (ONE_TILE)
            break;
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        softmax->sum[r] = quad_sum(softmax->sum[r]);
}

#endif
