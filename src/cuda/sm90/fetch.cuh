/* fetch.cuh: latency.cu's shared memory, which rows and keys a block has, and the thread that fetches
 * them. */
#ifndef FC_SM90_FETCH_CUH
#define FC_SM90_FETCH_CUH

#include "sm80/features.cuh"
#include "sm90/exchange.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"

/* Of one of the block's heads. */
typedef struct __align__(1024) shared_tiles
{
    element q[CONSUMERS][GROUP_ROWS * HEAD_DIM];
    element k[STAGES][PIECES][PIECE * HEAD_DIM];
    element v[STAGES][PIECES][PIECE * VALUE_DIM];
    exchange other;
    mbarrier q_full[CONSUMERS];
    mbarrier k_full[STAGES][PIECES];
    mbarrier v_full[STAGES]; /* all pieces: to look at an mbarrier, the exponentials have to be over */
    mbarrier empty[STAGES];
}
shared_tiles;

/* Of a computing warp: which of its head's warpgroups it belongs to, and which of the block's heads. By
 * all lanes of a warp. */
static __device__ __forceinline__ int group_id(void)
{
    return CONSUMERS > 1 ? same_in_warp(warp_id() / 4 % CONSUMERS) : 0;
}

/* Of its four. */
static __device__ __forceinline__ int warp_in_group(void)
{
    return CONSUMERS * HEADS > 1 ? warp_id() % 4 : warp_id();
}

static __device__ __forceinline__ int head_in_block(void)
{
    return HEADS > 1 ? same_in_warp(warp_id() / (HEAD_THREADS / WARP_LANES)) : 0;
}

/* The first thread of a head's warpgroups. */
static __device__ __forceinline__ int leads_head(void)
{
    return (HEADS > 1 ? thread_id() % HEAD_THREADS : thread_id()) == 0;
}

/* The rows of a block and of one of its warpgroups, and their tiles of keys. */
typedef struct block_work {
    sequence_share share;
    key_limits limits; /* of the warpgroup's rows */
    int block_row, group_row;
    int first_tile;
    int tiles;       /* that rows of the warpgroup see */
    int block_tiles; /* that rows of the block see */
    int end;         /* no row of the block sees a key from here on */
    int pair;        /* 1: two blocks share the keys */
    int both_take;   /* 1: both have all keys of the tile, which are few */
    int rank;
} block_work;

static __device__ __forceinline__ key_limits find_limits(const attention_args *args,
                                                         const sequence_share *share, int first_row,
                                                         int rows)
{
    key_limits limits;
    if (ALL_KEYS) {
        limits.first = limits.all_first = 0;
        limits.end = limits.all_end = args->kv_length;
    } else
        limits = limits_of_rows(args, share, first_row, rows);
    if (FIRST_KEYS)
        limits.first = limits.all_first = 0;
    return limits;
}

/* Half of the keys that the rows of a pair's tile see goes to each block, or all of few to both. */
static __device__ __forceinline__ block_work find_work(const attention_args *args, int head)
{
    block_work w;
    w.pair = PAIR;
    w.rank = w.pair ? (int)(blockIdx.x % 2) : 0;
    w.block_row = ((int)blockIdx.x >> w.pair) * QUERY_TILE;
    w.group_row = w.block_row + group_id() * GROUP_ROWS;
    w.share = find_share(args, (int)blockIdx.z, (int)blockIdx.y * HEADS + head);
    w.limits = find_limits(args, &w.share, w.group_row, GROUP_ROWS);
    const int first = w.limits.first / KV_TILE;
    const int all = w.group_row < w.share.rows
                        ? max(0, (w.limits.end + KV_TILE - 1) / KV_TILE - first)
                        : 0;
    const int part = ONE_TILE ? 1 : (all + w.pair) >> w.pair;
    key_limits block_limits = w.limits;
    if (CONSUMERS > 1 && !ALL_KEYS)
        block_limits = find_limits(args, &w.share, w.block_row, QUERY_TILE);
    w.both_take = BOTH_TAKE_FEW && w.pair && see_few_keys(args, &block_limits);
    w.end = block_limits.end;
    const int before = w.both_take ? 0 : w.rank * part;
    w.first_tile = first + before;
    w.tiles = w.block_tiles = ONE_TILE && ALL_KEYS ? 1 : min(part, all - before);
    if (CONSUMERS > 1 && !ALL_KEYS)
        w.block_tiles = min(1, (w.end + KV_TILE - 1) / KV_TILE - before);
    return w;
}

static __device__ __forceinline__ void make_query_and_key_barriers(shared_tiles *shared)
{
    for (int group = 0; group < CONSUMERS; group++)
        mbarrier_init(&shared->q_full[group], 1);
    for (int i = 0; i < STAGES * PIECES; i++)
        mbarrier_init(&shared->k_full[0][i], 1);
}

/* Those that the first loads need; then, while these are under way, the others. */
static __device__ __forceinline__ void make_first_barriers(shared_tiles *shared)
{
    make_query_and_key_barriers(shared);
    fence_mbarriers();
}

static __device__ __forceinline__ void make_other_barriers(shared_tiles *shared, int pair)
{
    for (int head = 1; head < HEADS; head++)
        make_query_and_key_barriers(shared + head);
    for (int head = 0; head < HEADS; head++)
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared[head].v_full[stage], 1);
            if (!ONE_TILE)
                mbarrier_init(&shared[head].empty[stage], CONSUMER_THREADS / WARP_LANES);
        }
    if (pair)
        make_exchange_barriers(&shared->other);
    fence_mbarriers();
}

/* By the thread that fetches, first of all: else the first load of each map waits for it. */
static __device__ __forceinline__ void prefetch_maps(const sm90_args *args)
{
    prefetch_tensor_map(&args->q);
    prefetch_tensor_map(&args->k);
    prefetch_tensor_map(&args->v);
}

/* 1: in place of pieces that no row sees comes what lies behind the tensor: zeros, which are not read, so
 * that all blocks' other pieces come earlier. Not for pairs: the blocks that are done last see all of
 * theirs, and would ask for the first one later. */
#define SKIPS_PIECES (FIRST_KEYS && PIECES > 1 && NEVER_PAIRS)

static __device__ __forceinline__ int first_key_of_piece(const block_work *w, int i, int piece)
{
    const int key = (w->first_tile + i) * KV_TILE + piece * PIECE;
    return SKIPS_PIECES && key >= w->end ? w->share.kv_rows : key;
}

/* By one thread: a piece of keys or values, from number first_key on. */
static __device__ __forceinline__ void fetch_piece(element *tile, const tensor_map *map, int dims,
                                                   const attention_args *args,
                                                   const sequence_share *share, int first_key,
                                                   mbarrier *full)
{
    const page_place place = find_box(args, share, first_key);
    load_panels(tile, map, PIECE, dims, place.row, share->kv_head, place.page, full);
}

static __device__ __forceinline__ void fetch_queries(const sm90_args *args, shared_tiles *shared,
                                                     const block_work *w, int group)
{
    mbarrier *full = &shared->q_full[group];
    mbarrier_arrive_expect(full, (int)sizeof shared->q[0]);
    load_panels(shared->q[group], &args->q, GROUP_ROWS, HEAD_DIM,
                w->share.q_first + w->block_row + group * GROUP_ROWS, w->share.head,
                map_batch(&w->share, args->attention.cu_q), full);
}

static __device__ __forceinline__ void fetch_keys(const sm90_args *args, shared_tiles *shared,
                                                  const block_work *w, int i)
{
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        mbarrier *full = &shared->k_full[i % STAGES][piece];
        mbarrier_arrive_expect(full, (int)sizeof shared->k[0][0]);
        fetch_piece(shared->k[i % STAGES][piece], &args->k, HEAD_DIM, &args->attention, &w->share,
                    first_key_of_piece(w, i, piece), full);
    }
}

static __device__ __forceinline__ void fetch_values(const sm90_args *args, shared_tiles *shared,
                                                    const block_work *w, int i)
{
    mbarrier *full = &shared->v_full[i % STAGES];
    mbarrier_arrive_expect(full, (int)sizeof shared->v[0]);
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++)
        fetch_piece(shared->v[i % STAGES][piece], &args->v, VALUE_DIM, &args->attention, &w->share,
                    first_key_of_piece(w, i, piece), full);
}

/* What the block waits for first goes out before it meets others. */
static __device__ __forceinline__ void fetch_first(const sm90_args *args, shared_tiles *shared,
                                                   const block_work *w)
{
    if (w->block_tiles <= 0)
        return;
    fetch_queries(args, shared, w, 0);
    fetch_keys(args, shared, w, 0);
#pragma unroll
    for (int group = 1; group < CONSUMERS; group++)
        fetch_queries(args, shared, w, group);
}

static __device__ __forceinline__ void fetch_other_heads(const sm90_args *args,
                                                         shared_tiles *shared)
{
#pragma unroll
    for (int head = 1; head < HEADS; head++) {
        const block_work w = find_work(&args->attention, head);
        fetch_first(args, shared + head, &w);
    }
}

static __device__ __forceinline__ void fetch_rest(const sm90_args *args, shared_tiles *shared,
                                                  const block_work *w)
{
#pragma unroll 1
    for (int i = 0; i < w->block_tiles; i++) {
        if (i > 0) {
            mbarrier_wait(&shared->empty[i % STAGES], i / STAGES % 2 ^ 1);
            fetch_keys(args, shared, w, i);
        }
        fetch_values(args, shared, w, i);
        if (ONE_TILE)
            break;
    }
}

#endif
