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

/* Of four lanes, lane i gets word i of each, in their order. */
static __device__ __forceinline__ uint4 quad_transpose(const unsigned words[4])
{
    const int odd = thread_id() & 1, upper = thread_id() & 2;
    const unsigned first = __shfl_xor_sync(ALL_LANES, odd ? words[0] : words[1], 1);
    const unsigned second = __shfl_xor_sync(ALL_LANES, odd ? words[2] : words[3], 1);
    /* Now of the words 0 or 1 of two lanes, and of the words 2 or 3. */
    const uint2 low = odd ? make_uint2(first, words[1]) : make_uint2(words[0], first);
    const uint2 high = odd ? make_uint2(second, words[3]) : make_uint2(words[2], second);
    const unsigned third = __shfl_xor_sync(ALL_LANES, upper ? low.x : high.x, 2);
    const unsigned fourth = __shfl_xor_sync(ALL_LANES, upper ? low.y : high.y, 2);
    return upper ? make_uint4(third, fourth, high.x, high.y)
                 : make_uint4(low.x, low.y, third, fourth);
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
