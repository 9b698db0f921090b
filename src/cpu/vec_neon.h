/* vec_neon.h: vec.h for Advanced SIMD, which every 64-bit ARM processor has. */
#ifndef FC_CPU_VEC_NEON_H
#define FC_CPU_VEC_NEON_H

#include <arm_neon.h>

typedef float32x4_t vec;
enum { VEC_LANES = 4, VEC_REGISTERS = 32 };

static inline vec vec_zero(void)
{
    return vdupq_n_f32(0);
}

static inline vec vec_set(float a)
{
    return vdupq_n_f32(a);
}

static inline vec vec_load(const void *from)
{
    return vld1q_f32(from);
}

static inline void vec_store(void *to, vec a)
{
    vst1q_f32(to, a);
}

static inline vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

static inline vec vec_fma(vec a, vec b, vec sum)
{
    return vfmaq_f32(sum, a, b);
}

/* The instruction overwrites what it adds to. A copy of it would take one of the two pipes that
 * multiply-adds go through; a load takes none, but the compiler would keep it out of the loop. */
static inline vec vec_fma_constant(vec a, vec b, const float four[4])
{
    vec sum;
    __asm__ volatile("ldr %q0, %1" : "=w"(sum) : "m"(*(const float(*)[4])four));
    return vfmaq_f32(sum, a, b);
}

static inline vec vec_max(vec a, vec b)
{
    return vmaxq_f32(a, b);
}

static inline vec vec_abs(vec a)
{
    return vabsq_f32(a);
}

static inline vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return vbslq_f32(vcltq_f32(a, b), x, y);
}

static inline vec vec_where_equal(vec a, vec b, vec x, vec y)
{
    return vbslq_f32(vceqq_f32(a, b), x, y);
}

static inline vec vec_exponent(vec a)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
}

static inline float vec_highest(vec a)
{
    return vmaxvq_f32(a);
}

static inline void vec_sum4(const vec a[4], float sums[4])
{
    vst1q_f32(sums, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])));
}

static inline void vec_transpose(vec rows[VEC_LANES])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(rows[0], rows[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(rows[0], rows[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(rows[2], rows[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(rows[2], rows[3]));
    rows[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    rows[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    rows[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    rows[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

static inline vec vec_load_f16(const void *from)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}

static inline vec vec_load_bf16(const void *from)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

/* Four bytes as the upper halves of 16-bit lanes. */
static inline uint16x4_t vec_load_bytes_high(const void *from)
{
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return vget_low_u16(vshll_n_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)), 8));
}

static inline vec vec_load_e5m2(const void *from)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vec_load_bytes_high(from)));
}

/* With its exponent in that of an f16 an E4M3 number is 2^8 times too small; what would be 480 is
 * its NaN. */
static inline vec vec_load_e4m3(const void *from)
{
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    const int16x4_t spread = vget_low_s16(vshll_n_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)), 7));
    const uint16x4_t f16 = vand_u16(vreinterpret_u16_s16(spread), vdup_n_u16(0xbf80));
    const vec value = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(f16)), 256);
    const uint32x4_t is_nan = vcageq_f32(value, vdupq_n_f32(480));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(value), is_nan));
}

static inline void vec_store_f16(void *to, vec a)
{
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}

static inline void vec_store_bf16(void *to, vec a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(to, vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16));
}

#endif
