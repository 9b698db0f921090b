/* ptx_warp.cuh: reductions over the lanes of a warp, or over the four lanes that share a row of an
 * mma result. Every lane gets the same bits. */
#ifndef FC_PTX_WARP_CUH
#define FC_PTX_WARP_CUH

#include "ptx_common.cuh"

/* A number that all lanes have. The compiler then keeps it, and what is computed from it, where a warp
 * has one register for all lanes: descriptors of wgmma have to be there. */
static __device__ __forceinline__ int same_in_warp(int value)
{
    return __shfl_sync(ALL_LANES, value, 0);
}

static __device__ __forceinline__ float quad_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 1));
    return fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 2));
}

static __device__ __forceinline__ float quad_sum(float value)
{
    value += __shfl_xor_sync(ALL_LANES, value, 1);
    return value + __shfl_xor_sync(ALL_LANES, value, 2);
}

static __device__ __forceinline__ float warp_max(float value)
{
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    return value;
}

static __device__ __forceinline__ float warp_sum(float value)
{
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

#endif
