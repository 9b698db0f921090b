/* ptx_barrier.cuh: the emulator's counterpart of src/cuda/ptx_barrier.cuh. */
#ifndef FC_PTX_BARRIER_CUH
#define FC_PTX_BARRIER_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ void barrier_wait(int barrier, int threads, EMU_HERE)
{
    emu_barrier(barrier, threads, 1, file, line);
}

static __device__ __forceinline__ void barrier_wait_apart(int barrier, int threads, EMU_HERE)
{
    barrier_wait(barrier, threads, file, line);
}

static __device__ __forceinline__ void barrier_arrive(int barrier, int threads, EMU_HERE)
{
    emu_barrier(barrier, threads, 0, file, line);
}

#endif
