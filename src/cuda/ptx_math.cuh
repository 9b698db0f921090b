/* ptx_math.cuh: f16 conversions and the fast exponential. */
#ifndef FC_PTX_MATH_CUH
#define FC_PTX_MATH_CUH

#include "ptx_common.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

static __device__ __forceinline__ float negative_infinity(void)
{
    return __int_as_float((int)0xff800000u);
}

/* 2^x within 2 ulp; 0 for -inf, NaN for NaN. */
static __device__ __forceinline__ float exp2_approx(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

/* log2 x within 2^-22, or within 2 ulp; -inf for 0. */
static __device__ __forceinline__ float log2_approx(float x)
{
    float logarithm;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
    return logarithm;
}

/* 1/x within 1 ulp; infinite for 0. */
static __device__ __forceinline__ float reciprocal_approx(float x)
{
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
    return reciprocal;
}

static __device__ __forceinline__ float f16_to_f32(f16 bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ __forceinline__ f16 f32_to_f16(float value)
{
    f16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/* Two f16 in one register, the first element in the low half. */
static __device__ __forceinline__ unsigned pack_f16x2(float low, float high)
{
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* Two bf16 in one register, the first element in the low half. */
static __device__ __forceinline__ unsigned pack_bf16x2(float low, float high)
{
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* A bf16 is the upper half of an FP32. */
static __device__ __forceinline__ float bf16_to_f32(unsigned short bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

static __device__ __forceinline__ float low_f16(unsigned pair)
{
    return f16_to_f32((f16)(pair & 0xffffu));
}

static __device__ __forceinline__ float high_f16(unsigned pair)
{
    return f16_to_f32((f16)(pair >> 16));
}

static __device__ __forceinline__ unsigned multiply_f16x2(unsigned a, unsigned b)
{
    unsigned product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

#endif
