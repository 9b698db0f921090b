/* ptx_memory.cuh: 16 or 8 bytes at a time between global memory and registers. */
#ifndef FC_PTX_MEMORY_CUH
#define FC_PTX_MEMORY_CUH

#include "ptx_common.cuh"

/* For inputs that no thread writes during the launch: several loads may then be in flight. */
static __device__ __forceinline__ uint4 load_global_16(const void *global)
{
    uint4 chunk;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
        : "l"(__cvta_generic_to_global(global)));
    return chunk;
}

/* Has them computed here, where the compiler would do it later. */
static __device__ __forceinline__ void *address_now(void *address)
{
    asm volatile("" : "+l"(address));
    return address;
}

static __device__ __forceinline__ int number_now(int number)
{
    asm volatile("" : "+r"(number));
    return number;
}

static __device__ __forceinline__ float float_now(float number)
{
    asm volatile("" : "+f"(number));
    return number;
}

static __device__ __forceinline__ void store_global_16(void *global, uint4 chunk)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(global)),
                 "r"(chunk.x), "r"(chunk.y), "r"(chunk.z), "r"(chunk.w)
                 : "memory");
}

/* Where wanted is not 0; without a branch, which several stores one after another would pay for. */
static __device__ __forceinline__ void store_global_16_if(void *global, uint4 chunk, int wanted)
{
    asm volatile("{\n"
                 ".reg .pred wanted;\n"
                 "setp.ne.s32 wanted, %5, 0;\n"
                 "@wanted st.global.v4.u32 [%0], {%1, %2, %3, %4};\n"
                 "}\n" ::"l"(__cvta_generic_to_global(global)),
                 "r"(chunk.x), "r"(chunk.y), "r"(chunk.z), "r"(chunk.w), "r"(wanted)
                 : "memory");
}

static __device__ __forceinline__ void store_global_8(void *global, uint2 chunk)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(global)),
                 "r"(chunk.x), "r"(chunk.y)
                 : "memory");
}

#endif
