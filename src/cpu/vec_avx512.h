/* vec_avx512.h: vec.h for AVX-512 with F, BW, DQ and VL. */
#ifndef FC_CPU_VEC_AVX512_H
#define FC_CPU_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vec;
enum { VEC_LANES = 16, VEC_REGISTERS = 32 };

static inline vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec vec_set(float a)
{
    return _mm512_set1_ps(a);
}

static inline vec vec_load(const void *from)
{
    return _mm512_loadu_ps(from);
}

static inline void vec_store(void *to, vec a)
{
    _mm512_storeu_ps(to, a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec sum)
{
    return _mm512_fmadd_ps(a, b, sum);
}

static inline vec vec_fma_constant(vec a, vec b, const float four[4])
{
    return vec_fma(a, b, vec_set(four[0]));
}

static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec vec_abs(vec a)
{
    return _mm512_abs_ps(a);
}

static inline vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

static inline vec vec_where_equal(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), y, x);
}

static inline vec vec_exponent(vec a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}

static inline float vec_highest(vec a)
{
    return _mm512_reduce_max_ps(a);
}

static inline __m256 vec_fold(vec a)
{
    return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}

static inline void vec_sum4(const vec a[4], float sums[4])
{
    const __m256 low = _mm256_hadd_ps(vec_fold(a[0]), vec_fold(a[1]));
    const __m256 high = _mm256_hadd_ps(vec_fold(a[2]), vec_fold(a[3]));
    const __m256 pairs = _mm256_hadd_ps(low, high);
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

/* Within each 128-bit part a 4 x 4 transpose of four rows, then the parts change places. */
static inline void vec_transpose(vec rows[VEC_LANES])
{
    __m512 fours[16];
    FC_UNROLL
    for (int64_t i = 0; i < 4; i++) {
        const __m512 *r = rows + 4 * i;
        const __m512 a = _mm512_unpacklo_ps(r[0], r[1]), b = _mm512_unpackhi_ps(r[0], r[1]);
        const __m512 c = _mm512_unpacklo_ps(r[2], r[3]), d = _mm512_unpackhi_ps(r[2], r[3]);
        fours[4 * i] = _mm512_shuffle_ps(a, c, 0x44);
        fours[4 * i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        fours[4 * i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        fours[4 * i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    FC_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(fours[i], fours[4 + i], 0x44);
        const __m512 b = _mm512_shuffle_f32x4(fours[8 + i], fours[12 + i], 0x44);
        const __m512 c = _mm512_shuffle_f32x4(fours[i], fours[4 + i], 0xee);
        const __m512 d = _mm512_shuffle_f32x4(fours[8 + i], fours[12 + i], 0xee);
        rows[i] = _mm512_shuffle_f32x4(a, b, 0x88);
        rows[4 + i] = _mm512_shuffle_f32x4(a, b, 0xdd);
        rows[8 + i] = _mm512_shuffle_f32x4(c, d, 0x88);
        rows[12 + i] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

static inline vec vec_load_f16(const void *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

static inline vec vec_load_bf16(const void *from)
{
    const __m512i codes = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(codes, 16));
}

/* Sixteen bytes as the upper halves of 16-bit lanes. */
static inline __m256i vec_load_bytes_high(const void *from)
{
    return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(from)), 8);
}

static inline vec vec_load_e5m2(const void *from)
{
    return _mm512_cvtph_ps(vec_load_bytes_high(from));
}

/* With its exponent in that of an f16 an E4M3 number is 2^8 times too small; what would be 480 is
 * its NaN. */
static inline vec vec_load_e4m3(const void *from)
{
    const __m256i spread = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(from)), 7);
    const __m256i f16 = _mm256_andnot_si256(_mm256_set1_epi16(0x407f), spread);
    const vec value = _mm512_mul_ps(_mm512_cvtph_ps(f16), _mm512_set1_ps(256));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(vec_abs(value), _mm512_set1_ps(480), _CMP_GE_OQ);
    return _mm512_mask_blend_ps(is_nan, value, _mm512_set1_ps(NAN));
}

static inline void vec_store_f16(void *to, vec a)
{
    _mm256_storeu_si256(to, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline __m256i vec_to_bf16(vec a)
{
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    const __m512i chosen = _mm512_mask_blend_epi32(is_number, quiet, rounded);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16));
}

static inline void vec_store_bf16(void *to, vec a)
{
    _mm256_storeu_si256(to, vec_to_bf16(a));
}

#endif
