/* ptx_math.cuh: the emulator's counterpart of src/cuda/ptx_math.cuh. */
#ifndef FC_PTX_MATH_CUH
#define FC_PTX_MATH_CUH

#include "ptx_common.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

static __device__ __forceinline__ float negative_infinity(void)
{
    return __int_as_float((int)0xff800000u);
}

static __device__ __forceinline__ float exp2_approx(float x)
{
    return emu_exp2(x);
}

static __device__ __forceinline__ float log2_approx(float x)
{
    return emu_log2(x);
}

static __device__ __forceinline__ float reciprocal_approx(float x)
{
    return emu_reciprocal(x);
}

static __device__ __forceinline__ float f16_to_f32(f16 bits)
{
    return emu_f16_to_f32(bits);
}

static __device__ __forceinline__ f16 f32_to_f16(float value)
{
    return emu_f32_to_f16(value);
}

static __device__ __forceinline__ unsigned pack_f16x2(float low, float high)
{
    return emu_f32_to_f16(low) | (unsigned)emu_f32_to_f16(high) << 16;
}

static __device__ __forceinline__ unsigned pack_bf16x2(float low, float high)
{
    return emu_f32_to_bf16(low) | (unsigned)emu_f32_to_bf16(high) << 16;
}

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
    return pack_f16x2(low_f16(a) * low_f16(b), high_f16(a) * high_f16(b));
}

#endif
