/* ptx_memory.cuh: the emulator's counterpart of src/cuda/ptx_memory.cuh. */
#ifndef FC_PTX_MEMORY_CUH
#define FC_PTX_MEMORY_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ uint4 load_global_16(const void *global)
{
    uint4 chunk;
    chunk.whole = emu_load_global(global, 16);
    return chunk;
}

static __device__ __forceinline__ void *address_now(void *address)
{
    return address;
}

static __device__ __forceinline__ int number_now(int number)
{
    return number;
}

static __device__ __forceinline__ float float_now(float number)
{
    return number;
}

static __device__ __forceinline__ void store_global_16(void *global, uint4 chunk)
{
    emu_store_global(global, chunk.whole, 16);
}

static __device__ __forceinline__ void store_global_16_if(void *global, uint4 chunk, int wanted)
{
    if (wanted)
        emu_store_global(global, chunk.whole, 16);
}

static __device__ __forceinline__ void store_global_8(void *global, uint2 chunk)
{
    emu_store_global(global, emu_uint4{chunk.x, chunk.y, 0, 0}, 8);
}

#endif
