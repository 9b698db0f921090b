/* latency.cu: attention over few query rows, for Hopper: one warpgroup a block, everything it needs
 * fetched at once.
 *
 * A block owns 64 query rows. The blocks of a cluster share its keys: each takes its part, KV_TILE
 * keys at a time, then they exchange what they have summed, each finishing half of the value dims.
 * docs/kernels/sm90.md.
 *
 * grid.x = query tile × blocks of a cluster (1 or 2), grid.y = query head, grid.z = batch. */
#include "kernel_shape.h"
#include "ptx_common.cuh"

/* 1. Shape. */

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef VALUE_DIM
#define VALUE_DIM HEAD_DIM
#endif
#ifndef KV_TILE
#define KV_TILE 256
#endif
/* Keys that arrive together. */
#ifndef PIECE
#define PIECE 64
#endif
#ifndef STAGES
#define STAGES 1
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#ifndef FEATURES
#define FEATURES 0
#endif

/* Keys whose exponentials are computed before their values are multiplied. */
#ifndef GROUP_KEYS
#define GROUP_KEYS 32
#endif

/* 1: blocks come in clusters of two, each with half of the keys. */
#ifndef PAIR
#define PAIR (cluster_blocks() > 1)
#endif

/* 1: a block has one tile of keys at most. */
#ifndef ONE_TILE
#define ONE_TILE 0
#endif

/* 1: a warp of its own fetches. Without it four blocks of a multiprocessor have 128 registers a thread in
 * place of 96. */
#ifndef FETCH_WARP
#define FETCH_WARP 1
#endif

/* 1: for rows that see all keys, at least FEW_KEYS, with no sink, and no lengths in memory. */
#ifndef ALL_KEYS
#define ALL_KEYS 0
#endif

/* 1: the same, but that rows see the keys from the first to one that depends on the row. */
#ifndef FIRST_KEYS
#define FIRST_KEYS 0
#endif

#define DENSE (ALL_KEYS || FIRST_KEYS)
/* 1: sums of scores begin with what hides keys. In a loop products would then wait for each other. */
#define HIDES_FIRST (FIRST_KEYS && ONE_TILE)
#define AGAIN_LSE HIDES_FIRST
#define ONLY_FIRST_KEYS HIDES_FIRST
/* Whether values behind the end of a sequence become 0, which takes registers. */
#define CLEARS (!DENSE && RESIDENT_BLOCKS == 1)
#if !FEATURES
#define AGAIN_INLINE __forceinline__ /* a call, never made, takes up to a tenth longer */
#endif

#define HEADS_SHARE_TILES 0
#define LENGTHS_IN_MEMORY (!DENSE)
#define CONSUMER_THREADS 128
#define QUERY_TILE 64
#define THREADS (CONSUMER_THREADS + (FETCH_WARP ? WARP_LANES : 0))
#define SCORE_TILES (KV_TILE / 8)
#define PIECES (KV_TILE / PIECE)
#define PIECE_TILES (PIECE / 8)

#include "ptx_barrier.cuh"
#include "ptx_launch.cuh"
#include "sm80/features.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"
#include "sm80/again.cuh"
#include "sm90/fetch.cuh"
#include "sm90/store.cuh"

static_assert(KV_TILE % PIECE == 0 && PIECE % GROUP_KEYS == 0 && GROUP_KEYS % 16 == 0,
              "whole pieces, of whole groups of keys");
static_assert(!FEATURES || CLEARS, "features come with pages");
static_assert(FETCH_WARP || (ONE_TILE && ALL_KEYS), "a warp that computes fetches one tile at most");

/* The keys that it takes at a time from its tensor maps are a piece. */
KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, PIECE, THREADS, (int)sizeof(shared_tiles)};

/* 2. Steps, in calling order. */

/* The keys of a tile that rows see, from the lane's first one on: row r those before end[r], all rows
 * of the block those before all. */
typedef struct tile_ends {
    int end[LANE_ROWS];
    int all;
} tile_ends;

/* Whether some row does not see some key of a piece. */
static __device__ __forceinline__ int is_cut(const tile_ends *ends, int piece)
{
    return ends->all < (piece + 1) * PIECE;
}

static __device__ __forceinline__ void hide_ends(score_sums scores, const tile_ends *ends, int piece)
{
    if (is_cut(ends, piece))
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            hide_from(scores, r, piece * PIECE_TILES, PIECE_TILES, ends->end[r]);
}

/* Sums of a piece that is cut begin with -inf for keys that a row does not see: found while they are
 * still to come, that takes no time. */
static __device__ __forceinline__ void begin_with_ends(score_sums scores, const tile_ends *ends,
                                                       int piece)
{
#pragma unroll
    for (int i = 0; i < PIECE_TILES * 4; i++)
        scores[0][piece * PIECE_TILES + i / 4][i % 4] = 0.0f;
    hide_ends(scores, ends, piece);
}

static __device__ __forceinline__ void start_scores(score_sums scores, const tile_ends *ends,
                                                    shared_tiles *shared, int stage, int parity,
                                                    int piece)
{
    const unsigned long long left = along_descriptor(shared->q);
    const unsigned long long right = along_descriptor(shared->k[stage][piece]);
    const int cut = HIDES_FIRST && is_cut(ends, piece);
    if (cut)
        begin_with_ends(scores, ends, piece);
    mbarrier_wait(&shared->k_full[stage][piece], parity);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++)
        WGMMA_SCORES(PIECE)
        (&scores[0][piece * PIECE_TILES][0], left + along_step(step, QUERY_TILE),
         right + along_step(step, PIECE), cut || step > 0);
    wgmma_commit();
}

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

/* Weights of GROUP_KEYS keys times their values, added to what out holds unless it `begins`. */
static __device__ __forceinline__ void start_values(out_sums out,
                                                    unsigned weights[GROUP_KEYS / 16][4],
                                                    shared_tiles *shared, int stage, int first_key,
                                                    int begins)
{
    const unsigned long long right =
        across_descriptor(shared->v[stage][first_key / PIECE], PIECE);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < GROUP_KEYS / 16; step++)
        WGMMA_VALUES(VALUE_DIM)
        (&out[0][0][0], weights[step], right + across_step(first_key % PIECE / 16 + step),
         !begins || step > 0);
    wgmma_commit();
}

/* Rows that see few keys see these at most: the last of a tile's rows sees QUERY_TILE - 1 more than
 * the first. */
#define KEYS_OF_FEW (FIRST_KEYS ? min(KV_TILE, 2 * FEW_KEYS) : KV_TILE)

/* The exponentials of some keys are computed while earlier keys' values are multiplied; with FEATURES
 * they are there. Where rows may see few keys, what rounding takes from their weights counts too. */
static __device__ __forceinline__ void add_values(out_sums out, score_sums scores,
                                                  softmax_state *softmax,
                                                  const float base[LANE_ROWS], float scale_log2,
                                                  shared_tiles *shared, int stage, int parity,
                                                  int keys, int count_rest)
{
    unsigned weights[KV_TILE / GROUP_KEYS][GROUP_KEYS / 16][4];
    unsigned rest[KV_TILE / GROUP_KEYS][GROUP_KEYS / 16][4];
    mbarrier_wait(&shared->v_full[stage], parity);
#pragma unroll
    for (int group = 0; group < KV_TILE / GROUP_KEYS; group++) {
        const int first_key = group * GROUP_KEYS;
        if (first_key >= keys)
            continue; /* nobody sees them */
        if (!FEATURES)
            exponentiate(scores, softmax, base, scale_log2, first_key / 2,
                         (first_key + GROUP_KEYS) / 2);
#pragma unroll
        for (int i = 0; i < GROUP_KEYS / 4; i++) {
            const float *pair = &scores[0][first_key / 8 + i / 2][i % 2 * 2];
            const unsigned rounded = pack_elements(pair[0], pair[1]);
            weights[group][i / 4][i % 4] = rounded;
            if (count_rest)
                rest[group][i / 4][i % 4] =
                    pack_elements(pair[0] - element_to_f32((element)(rounded & 0xffffu)),
                                  pair[1] - element_to_f32((element)(rounded >> 16)));
        }
        start_values(out, weights[group], shared, stage, first_key, ONE_TILE && group == 0);
        if (count_rest)
            start_values(out, rest[group], shared, stage, first_key, 0);
    }
    if (!ONE_TILE)
        wgmma_wait(0);
}

static __device__ __forceinline__ tile_ends find_ends(const attention_args *args,
                                                      const block_work *w, int warp_row,
                                                      int first_key)
{
    tile_ends ends;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        ends.end[r] =
            (ALL_KEYS ? w->limits.end : end_key_of(args, &w->share, warp_row + lane_row(r))) -
            first_key - lane_id() % 4 * 2;
    ends.all = w->limits.all_end - first_key;
    return ends;
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
static __device__ __forceinline__ void clear_values(const attention_args *args,
                                                    const block_work *w, shared_tiles *shared,
                                                    int stage, int parity, int first_key)
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

/* 3. The end. */

/* What the end needs of the argument. A block alone on its multiprocessor looks it up while the first
 * keys come, because each line of the argument takes 0.1 µs; others have no registers for that. */
#define PLACES_FIRST (RESIDENT_BLOCKS == 1)

typedef struct row_places {
    element *out[LANE_ROWS]; /* of the lane's first chunk */
    int columns;
} row_places;

static __device__ __forceinline__ row_places find_places(const attention_args *args,
                                                         const block_work *w, int warp_row)
{
    row_places places;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        places.out[r] =
            (element *)address_now(row_place(args, &w->share, warp_row + lane_row(r)) +
                                   lane_id() % 4 * CHUNK);
    places.columns = number_now(args->value_dim);
    return places;
}

/* sums: divided, columns first_column … */
static __device__ __forceinline__ void store_half(const attention_args *args,
                                                  const sequence_share *share, int warp_row,
                                                  const half_sums sums, int first_column,
                                                  const row_places *places)
{
    const float divided[LANE_ROWS] = {1.0f, 1.0f};
    const int finite = are_finite(sums, OUT_TILES / 2);
    if (FEATURES && !args->more.vector_stores)
        store_rows_by_element(args, share, warp_row, first_column, sums, OUT_TILES / 2, divided);
    else
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            store_chunks(places->out[r] + first_column, sums, r, OUT_TILES / 2,
                         warp_row + lane_row(r) < share->rows ? places->columns - first_column
                                                              : 0);
    if (!finite)
        compute_again(args, share, warp_row, sums, OUT_TILES / 2, first_column);
}

/* What sums are to be multiplied by, and what LSE is made of. */
static __device__ __forceinline__ void end_rows(const attention_args *args, const block_work *w,
                                                const softmax_state *softmax,
                                                row_end ends[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        ends[r] = finish_row(args, softmax->max[r], softmax->sum[r], w->share.head, !DENSE);
}

/* Of the four lanes that share two rows the first and the second store one each. The last products, or
 * the other block's half, are still to come. */
static __device__ __forceinline__ void store_lses(const attention_args *args, const block_work *w,
                                                  int warp_row, const row_end ends[LANE_ROWS])
{
    const int r = lane_id() % 4;
    const int row = warp_row + lane_row(r);
    row_end end;
    end.max_log2 = r ? ends[1].max_log2 : ends[0].max_log2;
    end.sum = r ? ends[1].sum : ends[0].sum;
    if (r < LANE_ROWS && w->rank == 0 && row < w->share.rows)
        store_lse(args, &w->share, row, end);
}

/* 1: the next kernel may start when half of the sums is on its way; else, when all but the other
 * block's half is done. Earlier, its blocks lie on top of these, and in pairs where more than two fit a
 * multiprocessor. */
#define NEXT_IS_EARLY (KV_TILE == 256)

static __device__ __forceinline__ void scale_half(half_sums sums, const out_sums out, int half,
                                                  const float factor[LANE_ROWS])
{
    take_half(sums, out, half);
#pragma unroll
    for (int i = 0; i < OUT_TILES * 2; i++)
        sums[i / 4][i % 4] = float_now(sums[i / 4][i % 4] * factor[i % 4 / 2]);
}

/* Each block of a pair finishes the half of its rank. What can be done before the other's is there,
 * is. */
static __device__ __forceinline__ void finish_pair(const attention_args *args, const block_work *w,
                                                   shared_tiles *shared, int warp_row,
                                                   const out_sums out, softmax_state *softmax,
                                                   const row_places *places)
{
    float mine[LANE_ROWS], theirs[LANE_ROWS];
    row_end ends[LANE_ROWS];
    half_sums sums;
    send_half(out, w->rank, &shared->other);
    if (NEXT_IS_EARLY)
        let_next_kernel_start();
    mbarrier_wait(&shared->other.state_there, 0);
    merge_softmax(softmax, mine, theirs, &shared->other);
    end_rows(args, w, softmax, ends);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        mine[r] *= ends[r].factor;
        theirs[r] *= ends[r].factor;
    }
    scale_half(sums, out, w->rank, mine); /* before a branch: else the compiler does it at the end */
    store_lses(args, w, warp_row, ends);
    if (!NEXT_IS_EARLY)
        let_next_kernel_start();
    mbarrier_wait(&shared->other.half_there, 0);
    add_received(sums, theirs, &shared->other);
    store_half(args, &w->share, warp_row, sums, w->rank * VALUE_DIM / 2, places);
}

/* A block alone finishes both. */
static __device__ __forceinline__ void finish_alone(const attention_args *args, const block_work *w,
                                                    int warp_row, const out_sums out,
                                                    const row_places *places,
                                                    const row_end ends[LANE_ROWS])
{
    const float factor[LANE_ROWS] = {ends[0].factor, ends[1].factor};
    let_next_kernel_start();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        half_sums sums;
        scale_half(sums, out, half, factor);
        store_half(args, &w->share, warp_row, sums, half * VALUE_DIM / 2, places);
    }
}

/* 4. The kernel. */

/* They may be what the kernel before this one writes. */
static __device__ __forceinline__ int reads_lengths(const attention_args *args)
{
    return LENGTHS_IN_MEMORY && (args->cu_q || args->cu_kv || args->kv_lengths);
}

static __device__ __forceinline__ void consume(const sm90_args *all, const block_work *w,
                                               shared_tiles *shared)
{
    const attention_args *args = &all->attention;
    __syncwarp(); /* the compiler knows then that lanes are together, and what they share is kept once */
    const int warp_row = w->block_row + warp_id() * WARP_ROWS;
    const int count_rest = !ALL_KEYS && see_few_keys(args, &w->limits);
    /* A product, for which the compiler takes a register: with attention.scale_log2, an operand out of
     * the constant cache, exponentials took a twentieth of a microsecond longer. */
    const float scale_log2 = FEATURES ? 1.0f : all->scale * LOG2_E;
    row_places places;
    if (PLACES_FIRST)
        places = find_places(args, w, warp_row);
    out_sums out = {};
    softmax_state softmax;
    forget(&softmax);
    if (w->pair)
        cluster_wait(); /* until the other block's mbarriers are there too: here it costs nothing */
    if (w->tiles > 0)
        mbarrier_wait(&shared->q_full, 0);
    if (!FETCH_WARP && thread_id() == 0)
        fetch_rest(all, shared, w); /* now: before, the keys of other blocks would wait for it */
#pragma unroll 1
    for (int i = 0; i < w->tiles; i++) {
        add_tile(args, w, shared, i, warp_row, scale_log2, out, &softmax, count_rest);
        if (ONE_TILE)
            break;
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        softmax.sum[r] = quad_sum(softmax.sum[r]);
    if (w->pair)
        send_state(&softmax, w->rank, &shared->other);
    row_end ends[LANE_ROWS];
    if (!w->pair) {
        end_rows(args, w, &softmax, ends);
        store_lses(args, w, warp_row, ends);
    }
    if (!PLACES_FIRST)
        places = find_places(args, w, warp_row);
    if (ONE_TILE)
        wgmma_wait(0);
    if (w->pair)
        finish_pair(args, w, shared, warp_row, out, &softmax, &places);
    else
        finish_alone(args, w, warp_row, out, &places, ends);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    KERNEL_NAME(const __grid_constant__ sm90_args args)
{
    shared_tiles *shared = SHARED_MEMORY(shared_tiles);
    const int fetches = warp_id() == (FETCH_WARP ? CONSUMER_THREADS / WARP_LANES : 0);
    if (fetches && lane_id() == 0)
        make_first_barriers(shared);
    if (reads_lengths(&args.attention))
        wait_for_previous_kernel();
    const block_work w = find_work(&args.attention);
    if (fetches && lane_id() == 0) {
        wait_for_previous_kernel(); /* the others at the barrier, for this thread */
        fetch_first(&args, shared, &w);
        make_other_barriers(shared, w.pair);
    }
    __syncthreads();
    if (w.pair)
        cluster_arrive_relaxed();
    if (!FETCH_WARP || !fetches)
        consume(&args, &w, shared);
    else if (lane_id() == 0)
        fetch_rest(&args, shared, &w);
}
