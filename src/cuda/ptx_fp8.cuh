/* ptx_fp8.cuh: FP8 to f16, exactly: every FP8 value is an f16 value. */
#ifndef FC_PTX_FP8_CUH
#define FC_PTX_FP8_CUH

#include "ptx_math.cuh"

/* sm_89 and newer convert in hardware; 0 takes integer operations there too. */
#ifndef USE_FP8_CONVERT
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define USE_FP8_CONVERT 1
#else
#define USE_FP8_CONVERT 0
#endif
#endif

/* Two E4M3 values in the low 16 bits of pair. */
static __device__ __forceinline__ unsigned f16x2_from_e4m3x2(unsigned pair)
{
#if USE_FP8_CONVERT
    unsigned values;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(values) : "h"((unsigned short)pair));
    return values;
#else
    const unsigned bytes = (pair & 0xffu) | ((pair & 0xff00u) << 8);
    const unsigned magnitude = bytes & 0x007f007fu;
    const unsigned sign = (bytes & 0x00800080u) << 8;
    /* Exponent and mantissa fall into place, but the bias is 15 instead of 7: times 2^8 (0x5c00),
     * which is exact, subnormals included. */
    const unsigned value = multiply_f16x2(magnitude << 7, 0x5c005c00u);
    /* The only NaN is 0x7f; adding 1 carries into the bit above it. */
    const unsigned is_nan = ((magnitude + 0x00010001u) & 0x00800080u) >> 7;
    return value | sign | is_nan * 0x7fffu;
#endif
}

/* E5M2 is the upper byte of an f16. */
static __device__ __forceinline__ unsigned f16x2_from_e5m2x2(unsigned pair)
{
    return ((pair & 0xffu) << 8) | ((pair & 0xff00u) << 16);
}

#endif
