/* fetch.cuh: latency.cu's shared memory, which rows and keys a block has, and the thread that fetches
 * them. */
#ifndef FC_SM90_FETCH_CUH
#define FC_SM90_FETCH_CUH

#include "sm80/features.cuh"
#include "sm90/exchange.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"

typedef struct __align__(1024) shared_tiles
{
    element q[QUERY_TILE * HEAD_DIM];
    element k[STAGES][PIECES][PIECE * HEAD_DIM];
    element v[STAGES][PIECES][PIECE * VALUE_DIM];
    exchange other;
    mbarrier q_full;
    mbarrier k_full[STAGES][PIECES];
    mbarrier v_full[STAGES]; /* all pieces: to look at an mbarrier, the exponentials have to be over */
    mbarrier empty[STAGES];
}
shared_tiles;

/* The block's rows and its tiles of keys. */
typedef struct block_work {
    sequence_share share;
    key_limits limits;
    int block_row;
    int first_tile;
    int tiles;
    int pair; /* 1: two blocks share the keys */
    int rank;
} block_work;

/* Half of the keys that the rows of a pair's tile see goes to each block. */
static __device__ __forceinline__ block_work find_work(const attention_args *args)
{
    block_work w;
    w.pair = PAIR;
    w.rank = w.pair ? (int)(blockIdx.x % 2) : 0;
    w.block_row = ((int)blockIdx.x >> w.pair) * QUERY_TILE;
    w.share = find_share(args, (int)blockIdx.z, (int)blockIdx.y);
    if (ALL_KEYS) {
        w.limits.first = w.limits.all_first = 0;
        w.limits.end = w.limits.all_end = args->kv_length;
    } else
        w.limits = limits_of_rows(args, &w.share, w.block_row, QUERY_TILE);
    if (FIRST_KEYS)
        w.limits.first = w.limits.all_first = 0;
    const int first = w.limits.first / KV_TILE;
    const int all = w.block_row < w.share.rows
                        ? max(0, (w.limits.end + KV_TILE - 1) / KV_TILE - first)
                        : 0;
    const int part = ONE_TILE ? 1 : (all + w.pair) >> w.pair;
    w.first_tile = first + w.rank * part;
    w.tiles = ONE_TILE && ALL_KEYS ? 1 : min(part, all - w.rank * part);
    return w;
}

/* Those that the first loads need; then, while these are under way, the others. */
static __device__ __forceinline__ void make_first_barriers(shared_tiles *shared)
{
    mbarrier_init(&shared->q_full, 1);
    for (int i = 0; i < STAGES * PIECES; i++)
        mbarrier_init(&shared->k_full[0][i], 1);
    fence_mbarriers();
}

static __device__ __forceinline__ void make_other_barriers(shared_tiles *shared, int pair)
{
    for (int stage = 0; stage < STAGES; stage++) {
        mbarrier_init(&shared->v_full[stage], 1);
        if (!ONE_TILE)
            mbarrier_init(&shared->empty[stage], CONSUMER_THREADS / WARP_LANES);
    }
    if (pair)
        make_exchange_barriers(&shared->other);
    fence_mbarriers();
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
                                                     const block_work *w)
{
    mbarrier_arrive_expect(&shared->q_full, (int)sizeof shared->q);
    load_panels(shared->q, &args->q, QUERY_TILE, HEAD_DIM, w->share.q_first + w->block_row,
                w->share.head, map_batch(&w->share, args->attention.cu_q), &shared->q_full);
}

static __device__ __forceinline__ void fetch_keys(const sm90_args *args, shared_tiles *shared,
                                                  const block_work *w, int i)
{
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        mbarrier *full = &shared->k_full[i % STAGES][piece];
        mbarrier_arrive_expect(full, (int)sizeof shared->k[0][0]);
        fetch_piece(shared->k[i % STAGES][piece], &args->k, HEAD_DIM, &args->attention, &w->share,
                    (w->first_tile + i) * KV_TILE + piece * PIECE, full);
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
                    (w->first_tile + i) * KV_TILE + piece * PIECE, full);
}

/* What the block waits for first goes out before it meets others. */
static __device__ __forceinline__ void fetch_first(const sm90_args *args, shared_tiles *shared,
                                                   const block_work *w)
{
    if (w->tiles <= 0)
        return;
    fetch_queries(args, shared, w);
    fetch_keys(args, shared, w, 0);
}

static __device__ __forceinline__ void fetch_rest(const sm90_args *args, shared_tiles *shared,
                                                  const block_work *w)
{
#pragma unroll 1
    for (int i = 0; i < w->tiles; i++) {
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
