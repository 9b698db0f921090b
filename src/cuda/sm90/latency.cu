/* latency.cu: attention over few query rows, for Hopper: a warpgroup for 64 of them, everything it
 * needs fetched at once.
 *
 * A block owns 64 query rows, in some variants 128, or 64 of two heads. The blocks of a cluster share
 * its keys: each takes its part, KV_TILE keys at a time, then they exchange what they have summed,
 * each finishing half of the value dims. docs/kernels/sm90.md.
 *
 * grid.x = query tile × blocks of a cluster (1 or 2), grid.y = query heads of a block,
 * grid.z = batch. */
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

/* Warpgroups, of 64 rows each, that share a head's keys. */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif

/* Heads of a block, each with warpgroups and shared memory of its own: those of a later one ask for
 * their keys later, and compute while others still wait. */
#ifndef HEADS
#define HEADS 1
#endif

/* Keys whose exponentials are computed before their values are multiplied. */
#ifndef GROUP_KEYS
#define GROUP_KEYS 32
#endif

/* 1: blocks come in clusters of two, each with half of the keys. */
#ifdef PAIR
#define NEVER_PAIRS (!PAIR)
#else
#define PAIR (cluster_blocks() > 1)
#define NEVER_PAIRS 0
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

/* 1: nobody looks for the largest score of a block's only tile. Rows that see all keys then see the
 * whole tile. */
#ifndef FIXED_BASE
#define FIXED_BASE 0
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
#define GROUP_ROWS 64 /* of a warpgroup, and of a box of queries */
#define HEAD_THREADS (CONSUMERS * 128)
#define CONSUMER_THREADS (HEADS * HEAD_THREADS)
#define QUERY_TILE (CONSUMERS * GROUP_ROWS)
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
#if FIXED_BASE
#include "sm90/fixed.cuh"
#else
#include "sm90/tiles.cuh"
#endif
#include "sm90/store.cuh"

static_assert(KV_TILE % PIECE == 0 && PIECE % GROUP_KEYS == 0 && GROUP_KEYS % 16 == 0,
              "whole pieces, of whole groups of keys");
static_assert(!FEATURES || CLEARS, "features come with pages");
static_assert(FETCH_WARP || (ONE_TILE && DENSE), "a warp that computes fetches one tile at most");
static_assert(CONSUMER_THREADS == 128 || !FETCH_WARP, "another warp would take a third of the registers");
static_assert(HEADS == 1 || (!PAIR && CONSUMERS == 1), "heads of a block share nothing");
static_assert(!FIXED_BASE || (ONE_TILE && DENSE && !PAIR), "one tile, and no other block's sums");

/* The keys that it takes at a time from its tensor maps are a piece. */
KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, PIECE, THREADS, HEADS * (int)sizeof(shared_tiles),
                                GRID_TILES, HEADS};

/* 2. The end. */

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
        store_rows_by_element(args, share, warp_row, first_column, sums, OUT_TILES / 2, divided,
                              ~0u);
    else
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            store_chunks(places->out[r] + first_column, sums, r, OUT_TILES / 2,
                         warp_row + lane_row(r) < share->rows ? places->columns - first_column
                                                              : 0);
    if (!finite)
        compute_again(args, share, warp_row, sums, OUT_TILES / 2, first_column);
}

/* What sums are to be multiplied by, and what LSE is made of: the sums of weights, by which rows
 * are divided as well unless there is another divisor. */
static __device__ __forceinline__ void end_rows(const attention_args *args, const block_work *w,
                                                const softmax_state *softmax,
                                                const float divisor[LANE_ROWS],
                                                row_end ends[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        ends[r] = finish_row(args, softmax->max[r], divisor[r], w->share.head, !DENSE);
        if (FIXED_BASE)
            ends[r].sum = softmax->sum[r];
    }
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
    end_rows(args, w, softmax, softmax->sum, ends);
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

/* 3. The kernel. */

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
    const int warp_row = w->group_row + warp_in_group() * WARP_ROWS;
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
    if ((CONSUMERS > 1 ? w->block_tiles : w->tiles) > 0) /* the same, but not to the compiler */
        mbarrier_wait(&shared->q_full[group_id()], 0);
    if (!FETCH_WARP && leads_head())
        fetch_rest(all, shared, w); /* now: before, keys would wait for it */
#if FIXED_BASE
    fixed_tile tile;
    add_fixed_tile(args, w, shared, warp_row, scale_log2, out, &softmax, &tile, count_rest);
    const int all_fit = __all_sync(ALL_LANES, tile.fits[0] && tile.fits[1]);
    const float *const divisor = tile.divisor;
#else
    add_tiles(args, w, shared, warp_row, scale_log2, out, &softmax, count_rest);
    const float *const divisor = softmax.sum;
#endif
    if (w->pair)
        send_state(&softmax, !w->both_take, w->rank, &shared->other);
    row_end ends[LANE_ROWS];
    if (!w->pair) {
        end_rows(args, w, &softmax, divisor, ends);
        store_lses(args, w, warp_row, ends);
    }
    if (!PLACES_FIRST)
        places = find_places(args, w, warp_row);
    if (ONE_TILE)
        wgmma_wait(0);
#if FIXED_BASE
    if (!all_fit) {
        compute_exactly(out, &softmax, &tile, shared, scale_log2);
        end_rows(args, w, &softmax, divisor, ends);
        store_lses(args, w, warp_row, ends);
    }
#endif
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
    const int head = head_in_block();
    if (fetches && lane_id() == 0) {
        prefetch_maps(&args);
        make_first_barriers(shared);
    }
    if (reads_lengths(&args.attention))
        wait_for_previous_kernel();
    const block_work w = find_work(&args.attention, head);
    if (fetches && lane_id() == 0) {
        wait_for_previous_kernel(); /* the others at the barrier, for this thread */
        fetch_first(&args, shared, &w);
        make_other_barriers(shared, w.pair);
    }
    __syncthreads();
    if (w.pair)
        cluster_arrive_relaxed();
    if (HEADS > 1 && thread_id() == 0)
        fetch_other_heads(&args, shared);
    if (!FETCH_WARP || !fetches)
        consume(&args, &w, shared + head);
    else if (lane_id() == 0)
        fetch_rest(&args, shared, &w);
}
