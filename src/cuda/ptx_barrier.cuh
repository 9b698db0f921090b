/* ptx_barrier.cuh: numbered barriers, 1 to 15 (0 is __syncthreads), for some of a block's warps.
 *
 * A barrier opens when `threads` threads have come to it, whether they arrive and go on or wait.
 * What a thread wrote before it came is visible to those that waited. */
#ifndef FC_PTX_BARRIER_CUH
#define FC_PTX_BARRIER_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ void barrier_wait(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* The same where other warps wait at other places of the code. */
static __device__ __forceinline__ void barrier_wait_apart(int barrier, int threads)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

#endif
