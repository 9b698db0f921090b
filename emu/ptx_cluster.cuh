/* ptx_cluster.cuh: the emulator's counterpart of src/cuda/ptx_cluster.cuh. */
#ifndef FC_PTX_CLUSTER_CUH
#define FC_PTX_CLUSTER_CUH

#include "ptx_mbarrier.cuh"

static __device__ __forceinline__ int cluster_rank(void)
{
    return emu_cluster_rank();
}

static __device__ __forceinline__ int cluster_blocks(void)
{
    return emu_cluster_blocks();
}

static __device__ __forceinline__ void cluster_arrive(EMU_HERE)
{
    emu_cluster_arrive(file, line);
}

static __device__ __forceinline__ void cluster_arrive_relaxed(EMU_HERE)
{
    emu_cluster_arrive_relaxed(file, line);
}

static __device__ __forceinline__ void cluster_wait(EMU_HERE)
{
    emu_cluster_wait(file, line);
}

static __device__ __forceinline__ unsigned cluster_address(const void *shared, int rank)
{
    return emu_cluster_address(shared, rank);
}

static __device__ __forceinline__ unsigned load_cluster(unsigned address)
{
    return emu_load_cluster(address);
}

static __device__ __forceinline__ void store_cluster(unsigned address, unsigned value)
{
    emu_store_cluster(address, value);
}

static __device__ __forceinline__ void store_cluster_async(unsigned address, unsigned value,
                                                           unsigned barrier_address)
{
    emu_store_cluster_async(address, value, barrier_address);
}

static __device__ __forceinline__ void store_cluster_async_16(unsigned address, uint4 value,
                                                              unsigned barrier_address)
{
    emu_store_cluster_async_16(address, value.whole, barrier_address);
}

static __device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier_address)
{
    emu_mbarrier_arrive_cluster(barrier_address);
}

#endif
