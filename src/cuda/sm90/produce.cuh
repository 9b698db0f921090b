/* produce.cuh: the thread of prefill.cu that fetches: shared memory, and what goes into it when. */
#ifndef FC_SM90_PRODUCE_CUH
#define FC_SM90_PRODUCE_CUH

#include "sm90/finish.cuh"
#include "sm90/panel.cuh"
#include "sm90/work.cuh"

typedef struct __align__(1024) shared_tiles
{
    element q[QUERY_BUFFERS][CONSUMERS][GROUP_ROWS * PANELS_DIMS(HEAD_DIM)];
    element k[STAGES][KV_TILE * PANELS_DIMS(HEAD_DIM)];
    element v[STAGES][KV_TILE * PANELS_DIMS(VALUE_DIM)];
    staged_panels out[CONSUMERS * 4];
    work works[WORKS]; /* in turn; each is announced together with its queries */
    mbarrier q_full[QUERY_BUFFERS][CONSUMERS], q_empty[QUERY_BUFFERS][CONSUMERS];
    mbarrier k_full[STAGES], k_empty[STAGES];
    mbarrier v_full[STAGES], v_empty[STAGES];
}
shared_tiles;

/* Counts what went through some places in turn: tiles of keys, of queries, works. */
typedef struct position {
    int place;
    int parity; /* of the phase in which this place is filled */
} position;

static __device__ __forceinline__ void advance(position *p, int places)
{
    p->place++;
    if (p->place == places) {
        p->place = 0;
        p->parity ^= 1;
    }
}

/* Into a place that is free. */
static __device__ __forceinline__ void start_tile(element *tile, const tensor_map *map, int dims,
                                                  const page_place places[BOXES], int head,
                                                  mbarrier *full)
{
    mbarrier_arrive_expect(full, KV_TILE * PANELS_DIMS(dims) * (int)sizeof(element));
#pragma unroll
    for (int box = 0; box < BOXES; box++)
        load_panels(tile + box * BOX_ROWS * PANEL_DIMS, map, KV_TILE, dims, places[box].row, head,
                    places[box].page, full);
}

static __device__ __forceinline__ void fetch_tile(element *tile, const tensor_map *map, int dims,
                                                  const page_place places[BOXES], int head,
                                                  mbarrier *full, mbarrier *empty, int parity)
{
    mbarrier_wait(empty, parity ^ 1);
    start_tile(tile, map, dims, places, head, full);
}

/* A warpgroup's queries. In their map heads come before rows: a box holds packed rows in their
 * order. */
static __device__ __forceinline__ void start_queries(const sm90_args *args, shared_tiles *shared,
                                                     const work *w, int group)
{
    const attention_args *a = &args->attention;
    mbarrier *full = &shared->q_full[w->buffer][group];
    mbarrier_arrive_expect(full, (int)sizeof shared->q[0][0]);
    load_panels(shared->q[w->buffer][group], &args->q, GROUP_ROWS, HEAD_DIM, w->share.head,
                w->share.q_first + row_of(a, w->block_row + group * GROUP_ROWS),
                map_batch(&w->share, a->cu_q), full);
}

/* Tells the consumers what comes next, and fetches its queries. */
static __device__ __forceinline__ void announce(const sm90_args *args, shared_tiles *shared,
                                                work *w, position *queries)
{
    w->buffer = queries->place;
#pragma unroll
    for (int group = 0; group < CONSUMERS; group++) {
        mbarrier_wait(&shared->q_empty[w->buffer][group], queries->parity ^ 1);
        if (w->first_tile >= w->end_tile)
            mbarrier_arrive(&shared->q_full[w->buffer][group]);
        else
            start_queries(args, shared, w, group);
    }
    advance(queries, QUERY_BUFFERS);
}

static __device__ __forceinline__ void find_boxes(page_place places[BOXES], const sm90_args *args,
                                                  const work *w, int tile)
{
#pragma unroll
    for (int box = 0; box < BOXES; box++)
        places[box] = find_box(&args->attention, &w->share, tile * KV_TILE + box * BOX_ROWS);
}

/* Where the thread that fetches stands. */
typedef struct writer {
    progress found;
    position keys, queries;
    int works;
} writer;

/* Where the consumers look for the next work. */
static __device__ __forceinline__ work *next_place(shared_tiles *shared, writer *at)
{
    work *place = &shared->works[at->works];
    at->works = at->works + 1 < WORKS ? at->works + 1 : 0;
    return place;
}

/* What the consumers wait for first, before they are even met: nothing is in use yet. Returns whether
 * the work's first tile of keys is under way. */
static __device__ __forceinline__ int fetch_first(const sm90_args *args, shared_tiles *shared,
                                                  work *w, writer *at)
{
    if (w->first_tile >= w->end_tile)
        return 0;
    page_place places[BOXES];
    find_boxes(places, args, w, w->first_tile);
    start_tile(shared->k[0], &args->k, HEAD_DIM, places, w->share.kv_head, &shared->k_full[0]);
    w->buffer = 0;
#pragma unroll
    for (int group = 0; group < CONSUMERS; group++)
        start_queries(args, shared, w, group);
    start_tile(shared->v[0], &args->v, VALUE_DIM, places, w->share.kv_head, &shared->v_full[0]);
    advance(&at->queries, QUERY_BUFFERS);
    advance(&at->keys, STAGES);
    return 1;
}

/* Some tiles of keys of a work. The first keys come before the queries, whose place may still be in
 * use. */
static __device__ __forceinline__ void fetch_tiles(const sm90_args *args, shared_tiles *shared,
                                                   work *w, int first_tile, int end_tile,
                                                   writer *at)
{
    page_place places[BOXES];
#pragma unroll 1
    for (int tile = first_tile; tile < end_tile; tile++) {
        const int stage = at->keys.place;
        find_boxes(places, args, w, tile);
        fetch_tile(shared->k[stage], &args->k, HEAD_DIM, places, w->share.kv_head,
                   &shared->k_full[stage], &shared->k_empty[stage], at->keys.parity);
        if (tile == w->first_tile)
            announce(args, shared, w, &at->queries);
        fetch_tile(shared->v[stage], &args->v, VALUE_DIM, places, w->share.kv_head,
                   &shared->v_full[stage], &shared->v_empty[stage], at->keys.parity);
        advance(&at->keys, STAGES);
    }
}

/* Work after work, from the first one on, of which so many tiles of keys are under way. The next is
 * found when all stages are taken, while consumers are busy with this one. */
static __device__ __forceinline__ void produce(const sm90_args *args, shared_tiles *shared, work *w,
                                               int fetched, writer *at)
{
#pragma unroll 1
    while (w->way != NO_WORK) {
        const int full = ONCE ? w->end_tile : min(w->first_tile + STAGES, w->end_tile);
        if (w->way == NO_KEYS)
            announce(args, shared, w, &at->queries);
        fetch_tiles(args, shared, w, w->first_tile + fetched, full, at);
        if (ONCE)
            return;
        work *next = next_place(shared, at);
        find_work(args, &at->found, next);
        fetch_tiles(args, shared, w, full, w->end_tile, at);
        w = next;
        fetched = 0;
    }
    announce(args, shared, w, &at->queries);
}

#endif
