/* work.cuh: what prefill.cu does in which order: tiles of query rows, and the keys they see. */
#ifndef FC_SM90_WORK_CUH
#define FC_SM90_WORK_CUH

#include "sm80/features.cuh"
#include "sm90/panel.cuh"
#include "sm90/sm90_args.h"

/* Groups of rows whose keys are found for themselves. */
#define KEY_GROUPS (SKIPS ? CONSUMERS : 1)

static __device__ __forceinline__ int group_id(void)
{
    return warp_id() / 4 - 1;
}

/* How a tile of rows is worked on: softmax and products overlapped, or one step after the other; not
 * at all, because its rows see no key; or there is none, here and hereafter. */
typedef enum work_way { OVERLAPPED, STEP_BY_STEP, NO_KEYS, NO_WORK } work_way;

/* What a warpgroup's rows see, or those of the whole tile. */
typedef struct group_keys {
    int first_tile, end_tile; /* tiles of keys; none, where there are no rows */
    int all_first, all_end;   /* keys that all rows see */
    int counts_rest;          /* 1: some row sees few keys */
} group_keys;

/* A tile of query rows and the keys it sees. */
typedef struct work {
    sequence_share share;
    int block_row;
    int first_tile, end_tile; /* of keys */
    int last_rows;            /* of the last tile of keys, up to the end of the sequence */
    int buffer;               /* of its queries */
    work_way way;
    group_keys groups[KEY_GROUPS];
} work;

static __device__ __forceinline__ const group_keys *keys_of(const work *w)
{
    return &w->groups[SKIPS ? group_id() : 0];
}

static __device__ __forceinline__ int sees_keys(const work *w)
{
    return keys_of(w)->first_tile < keys_of(w)->end_tile;
}

/* The first of a warp's rows. */
static __device__ __forceinline__ int warp_row_of(const work *w)
{
    return w->block_row + group_id() * GROUP_ROWS + warp_id() % 4 * WARP_ROWS;
}

static __device__ __forceinline__ group_keys find_group_keys(const attention_args *args,
                                                             const sequence_share *share,
                                                             int first_row)
{
    group_keys keys = {};
    if (ALL_KEYS) {
        keys.end_tile = args->kv_length / KV_TILE;
        return keys;
    }
    if (first_row >= share->rows)
        return keys;
    const key_limits limits =
        limits_of_rows(args, share, first_row, SKIPS ? GROUP_ROWS : QUERY_TILE);
    keys.first_tile = limits.first / KV_TILE;
    keys.end_tile = (limits.end + KV_TILE - 1) / KV_TILE;
    keys.all_first = limits.all_first;
    keys.all_end = limits.all_end;
    keys.counts_rest = see_few_keys(args, &limits);
    return keys;
}

/* Tiles of keys that some warpgroup sees. */
static __device__ __forceinline__ void find_tiles(const attention_args *args, work *w)
{
    w->first_tile = w->end_tile = 0;
#pragma unroll 1
    for (int group = 0; group < KEY_GROUPS; group++) {
        const group_keys keys =
            find_group_keys(args, &w->share, w->block_row + group * GROUP_ROWS);
        w->groups[group] = keys;
        if (keys.first_tile >= keys.end_tile)
            continue;
        w->first_tile = w->end_tile ? min(w->first_tile, keys.first_tile) : keys.first_tile;
        w->end_tile = max(w->end_tile, keys.end_tile);
    }
}

/* Whatever would crowd the loop that overlaps softmax and products goes step by step: there a
 * soft-cap is all that changes scores. */
static __device__ __forceinline__ work_way find_way(const attention_args *args, const work *w)
{
    if (w->first_tile >= w->end_tile)
        return NO_KEYS;
#if FEATURES
    if (args->more.alibi || args->more.bias || args->more.mask || args->more.dropout_threshold)
        return STEP_BY_STEP;
#endif
    return OVERLAPPED;
}

static __device__ __forceinline__ void describe(const sm90_args *args, int sequence, int tile,
                                                work *w)
{
    const attention_args *a = &args->attention;
    w->block_row = tile * QUERY_TILE;
    const int batch = divide(sequence, args->order.head_groups);
    w->share = find_share(a, batch, sequence - batch * args->order.head_groups.divisor);
    if (ALL_KEYS)
        w->share.shift = 0; /* nobody looks */
    find_tiles(a, w);
    w->last_rows = has_neighbours(a) ? w->share.kv_rows - (w->end_tile - 1) * KV_TILE : KV_TILE;
    w->way = find_way(a, w);
}

/* How far a block has come. */
typedef struct progress {
    int parcel; /* of all sequences */
    int part;   /* 1: the second tile of the pair */
} progress;

/* The block's next work. Blocks that work at the same time work on the same sequences, whose keys and
 * values the L2 cache then holds. Where rows see different numbers of keys, a block takes two tiles
 * of them one after the other, the last and the first of a sequence, or the last but one and the
 * second, and so on: as many keys for every block. */
static __device__ __forceinline__ void find_work(const sm90_args *args, progress *at, work *w)
{
    const work_order *order = &args->order;
    while (at->parcel < order->all_parcels) {
        const int sequence = divide(at->parcel, order->parcels);
        const int first = at->parcel - sequence * order->parcels.divisor;
        const int last = order->tiles - 1 - first;
        describe(args, sequence, at->part ? first : last, w);
        at->part = !ALL_KEYS && order->takes_pairs && !at->part && first != last;
        if (!at->part)
            at->parcel += (int)gridDim.x;
        if (!LENGTHS_IN_MEMORY || !args->attention.cu_q || w->block_row < w->share.rows)
            return;
    }
    w->way = NO_WORK;
    w->first_tile = w->end_tile = 0;
}

#endif
