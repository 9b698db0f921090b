/* element.cuh: the 16-bit type of Q, K, V of a variant: f16, or bf16 where ELEMENT_BF16 is 1. */
#ifndef FC_SM80_ELEMENT_CUH
#define FC_SM80_ELEMENT_CUH

#include "ptx_common.cuh"
#include "ptx_math.cuh"
#include "ptx_mma.cuh"

#ifndef ELEMENT_BF16
#define ELEMENT_BF16 0
#endif

typedef unsigned short element; /* its bits */

#define CHUNK 8 /* elements of 16 bytes, which a copy or store takes at once */

#if ELEMENT_BF16
#define ELEMENT_EXPONENT 0x7f807f80u
#define ELEMENT_EXPONENT_CARRY 0x00800080u
#else
#define ELEMENT_EXPONENT 0x7c007c00u
#define ELEMENT_EXPONENT_CARRY 0x04000400u
#endif

static __device__ __forceinline__ unsigned pack_elements(float low, float high)
{
    return ELEMENT_BF16 ? pack_bf16x2(low, high) : pack_f16x2(low, high);
}

static __device__ __forceinline__ float element_to_f32(element bits)
{
    return ELEMENT_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/* from_zero: result = left · right, else +=. */
static __device__ __forceinline__ void mma_elements(float result[4], const unsigned left[4],
                                                    unsigned right_0, unsigned right_1,
                                                    int from_zero)
{
#if ELEMENT_BF16
    if (from_zero)
        mma_m16n8k16_bf16_from_zero(result, left, right_0, right_1);
    else
        mma_m16n8k16_bf16(result, left, right_0, right_1);
#else
    if (from_zero)
        mma_m16n8k16_f16_from_zero(result, left, right_0, right_1);
    else
        mma_m16n8k16_f16(result, left, right_0, right_1);
#endif
}

/* Not 0 when one of the two elements is infinite or NaN: its exponent is all ones, and adding one
 * to it carries into the place of the sign. */
static __device__ __forceinline__ unsigned not_finite(unsigned pair)
{
    return ((pair & ELEMENT_EXPONENT) + ELEMENT_EXPONENT_CARRY) & 0x80008000u;
}

#endif
