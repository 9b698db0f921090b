/* products.cuh: what a warpgroup of prefill.cu waits for, where its operands lie, and how it starts its
 * two products when its turn has come. */
#ifndef FC_SM90_PRODUCTS_CUH
#define FC_SM90_PRODUCTS_CUH

#include "ptx_barrier.cuh"
#include "sm90/produce.cuh"
#include "sm90/weights.cuh"

static __device__ __forceinline__ void release(mbarrier *empty)
{
    if (lane_id() == 0)
        mbarrier_arrive(empty);
}

/* The queries of a work, and with them what all lanes read of the one before. */
static __device__ __forceinline__ void release_queries(shared_tiles *shared, const work *w)
{
    if (ONCE)
        return;
    __syncwarp();
    release(&shared->q_empty[w->buffer][group_id()]);
}

/* Where a warp stands. */
typedef struct reader {
    position keys, queries, works;
} reader;

/* The next work, with its queries. */
static __device__ __forceinline__ const work *await_work(shared_tiles *shared, reader *at)
{
    mbarrier_wait(&shared->q_full[at->queries.place][group_id()], at->queries.parity);
    const work *w = &shared->works[at->works.place];
    advance(&at->queries, QUERY_BUFFERS);
    advance(&at->works, WORKS);
    return w;
}

/* The same after a work; NULL where nobody looks. */
static __device__ __forceinline__ const work *await_next(shared_tiles *shared, reader *at)
{
    return ONCE ? NULL : await_work(shared, at);
}

/* The warpgroup's queries, among those of all buffers and warpgroups. */
static __device__ __forceinline__ int queries_of(const work *w)
{
    return w->buffer * CONSUMERS + group_id();
}

/* Operands of products, each the same in all lanes. */
static __device__ __forceinline__ unsigned long long queries_at(const shared_tiles *shared,
                                                                int queries)
{
    return along_descriptor(shared->q[0][same_in_warp(queries)]);
}

static __device__ __forceinline__ unsigned long long keys_at(const shared_tiles *shared, int stage)
{
    return along_descriptor(shared->k[same_in_warp(stage)]);
}

static __device__ __forceinline__ unsigned long long values_at(const shared_tiles *shared,
                                                               int stage)
{
    return across_descriptor(shared->v[same_in_warp(stage)], KV_TILE);
}

/* From the first of either to those of a tile's last product. */
#define LAST_STEP PANEL_UNITS(KV_TILE - STEP_KEYS)

static __device__ __forceinline__ void start_scores(score_sums scores, unsigned long long left,
                                                    unsigned long long right)
{
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++)
        WGMMA_SCORES(STEP_KEYS)
        (&scores[0][0][0], left + along_step(step, GROUP_ROWS), right + along_step(step, KV_TILE),
         step > 0);
    wgmma_commit();
}

static __device__ __forceinline__ void start_values(out_sums out, weight_steps weights,
                                                    unsigned long long right)
{
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEP_KEYS / 16; step++)
        WGMMA_VALUES(VALUE_DIM)(&out[0][0][0], weights[step], right + across_step(step), 1);
    wgmma_commit();
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

/* Values of the last tile of keys that lie behind the end of the sequence become 0. */
static __device__ __forceinline__ void clear_values(const work *w, element *v)
{
    if (ALL_KEYS || w->last_rows >= KV_TILE)
        return;
    clear_rows(v, KV_TILE, VALUE_DIM, w->last_rows, thread_id() - GROUP_THREADS,
               CONSUMERS * GROUP_THREADS);
    barrier_wait(CLEAR_BARRIER, CONSUMERS * GROUP_THREADS);
}

#endif
