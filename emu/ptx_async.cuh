/* ptx_async.cuh: the emulator's counterpart of src/cuda/ptx_async.cuh. */
#ifndef FC_PTX_ASYNC_CUH
#define FC_PTX_ASYNC_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ void cp_async_16_or_zero(void *shared, const void *global,
                                                           int wanted)
{
    emu_cp_async(shared, global, 16, wanted ? 16 : 0);
}

static __device__ __forceinline__ void cp_async_commit(void)
{
    emu_cp_async_commit();
}

#define cp_async_wait(pending) emu_cp_async_wait(pending)

#endif
