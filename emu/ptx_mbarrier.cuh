/* ptx_mbarrier.cuh: the emulator's counterpart of src/cuda/ptx_mbarrier.cuh. */
#ifndef FC_PTX_MBARRIER_CUH
#define FC_PTX_MBARRIER_CUH

#include "ptx_common.cuh"

typedef unsigned long long mbarrier;

static __device__ __forceinline__ void mbarrier_init(mbarrier *barrier, int arrivals)
{
    emu_mbarrier_init(barrier, arrivals);
}

static __device__ __forceinline__ void mbarrier_arrive(mbarrier *barrier)
{
    emu_mbarrier_arrive(barrier);
}

static __device__ __forceinline__ void mbarrier_wait(mbarrier *barrier, int parity)
{
    emu_mbarrier_wait(barrier, parity);
}

#endif
