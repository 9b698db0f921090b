/* vec_avx2.h: vec.h for AVX2 with FMA and F16C. */
#ifndef FC_CPU_VEC_AVX2_H
#define FC_CPU_VEC_AVX2_H

#include <immintrin.h>

typedef __m256 vec;
enum { VEC_LANES = 8, VEC_REGISTERS = 16 };

static inline vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec vec_set(float a)
{
    return _mm256_set1_ps(a);
}

static inline vec vec_load(const void *from)
{
    return _mm256_loadu_ps(from);
}

static inline void vec_store(void *to, vec a)
{
    _mm256_storeu_ps(to, a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

static inline vec vec_fma_constant(vec a, vec b, const float four[4])
{
    return vec_fma(a, b, vec_set(four[0]));
}

static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec vec_abs(vec a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

static inline vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline vec vec_where_equal(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}

static inline vec vec_exponent(vec a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}

static inline float vec_highest(vec a)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

static inline void vec_sum4(const vec a[4], float sums[4])
{
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

static inline void vec_transpose(vec rows[VEC_LANES])
{
    __m256 pairs[8], fours[8];
    for (int64_t i = 0; i < 4; i++) {
        pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for (int64_t i = 0; i < 2; i++) {
        const __m256 *p = pairs + 4 * i;
        fours[4 * i] = _mm256_shuffle_ps(p[0], p[2], 0x44);
        fours[4 * i + 1] = _mm256_shuffle_ps(p[0], p[2], 0xee);
        fours[4 * i + 2] = _mm256_shuffle_ps(p[1], p[3], 0x44);
        fours[4 * i + 3] = _mm256_shuffle_ps(p[1], p[3], 0xee);
    }
    for (int64_t i = 0; i < 4; i++) {
        rows[i] = _mm256_permute2f128_ps(fours[i], fours[4 + i], 0x20);
        rows[4 + i] = _mm256_permute2f128_ps(fours[i], fours[4 + i], 0x31);
    }
}

static inline vec vec_load_f16(const void *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

static inline vec vec_load_bf16(const void *from)
{
    const __m256i codes = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(codes, 16));
}

/* Eight bytes as the upper halves of 16-bit lanes. */
static inline __m128i vec_load_bytes_high(const void *from)
{
    return _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_loadl_epi64(from));
}

static inline vec vec_load_e5m2(const void *from)
{
    return _mm256_cvtph_ps(vec_load_bytes_high(from));
}

/* With its exponent in that of an f16 an E4M3 number is 2^8 times too small; what would be 480 is
 * its NaN. */
static inline vec vec_load_e4m3(const void *from)
{
    const __m128i spread = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(from)), 7);
    const __m128i f16 = _mm_andnot_si128(_mm_set1_epi16(0x407f), spread);
    const vec value = _mm256_mul_ps(_mm256_cvtph_ps(f16), _mm256_set1_ps(256));
    const vec is_nan = _mm256_cmp_ps(vec_abs(value), _mm256_set1_ps(480), _CMP_GE_OQ);
    return _mm256_or_ps(value, is_nan);
}

static inline void vec_store_f16(void *to, vec a)
{
    _mm_storeu_si128(to, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline void vec_store_bf16(void *to, vec a)
{
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_number = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_ORD_Q));
    const __m256i chosen = _mm256_srli_epi32(_mm256_blendv_epi8(quiet, rounded, is_number), 16);
    const __m256i packed = _mm256_packus_epi32(chosen, chosen);
    _mm_storeu_si128(to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8)));
}

#endif
