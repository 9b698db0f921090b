/* ptx_cluster.cuh: the blocks of a cluster (sm_90): who they are, how they wait for each other, and
 * how one reaches into the shared memory of another. */
#ifndef FC_PTX_CLUSTER_CUH
#define FC_PTX_CLUSTER_CUH

#include "ptx_mbarrier.cuh"

static __device__ __forceinline__ int cluster_rank(void)
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

static __device__ __forceinline__ int cluster_blocks(void)
{
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return (int)blocks;
}

/* Every thread of the cluster arrives and later waits. What it did before it arrived is over for
 * those who have waited. No block may end while others still reach into it. */
static __device__ __forceinline__ void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* Orders nothing but mbarriers made before a fence_mbarriers: cheap. */
static __device__ __forceinline__ void cluster_arrive_relaxed(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static __device__ __forceinline__ void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Where the block of that rank has what lies at `shared` in this one. */
static __device__ __forceinline__ unsigned cluster_address(const void *shared, int rank)
{
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(shared_address(shared)), "r"(rank));
    return address;
}

static __device__ __forceinline__ unsigned load_cluster(unsigned address)
{
    unsigned value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

static __device__ __forceinline__ void store_cluster(unsigned address, unsigned value)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/* Arrives some time later, and is then 4 of the bytes that the mbarrier, of the same block as
 * `address`, expects. */
static __device__ __forceinline__ void store_cluster_async(unsigned address, unsigned value,
                                                           unsigned barrier_address)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::
                     "r"(address),
                 "r"(value), "r"(barrier_address)
                 : "memory");
}

/* 16 bytes of them; the address is a multiple of 16. */
static __device__ __forceinline__ void store_cluster_async_16(unsigned address, uint4 value,
                                                              unsigned barrier_address)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], "
                 "{%1, %2, %3, %4}, [%5];" ::"r"(address),
                 "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(barrier_address)
                 : "memory");
}

static __device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier_address)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                     barrier_address)
                 : "memory");
}

#endif
