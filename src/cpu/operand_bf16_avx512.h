/* operand_bf16_avx512.h: what operand_bf16.h leaves to the instruction set, for AVX512-BF16. */
#ifndef FC_CPU_OPERAND_BF16_AVX512_H
#define FC_CPU_OPERAND_BF16_AVX512_H

enum { OPERAND_GROUP = 2 }; /* elements of one column that lie side by side */

/* One store for both: a tile's row that is read soon after must not lie in two of them. */
static inline void operand_store_two(operand *to, vec a, vec b)
{
    const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
    memcpy(to, &rounded, sizeof rounded);
}

/* to[i] = the elements of a column, side by side. count is a multiple of 32. */
static inline void operand_interleave(const operand *const rows[OPERAND_GROUP], int64_t column,
                                      int64_t count, operand *to)
{
    const __m512i low_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    for (int64_t i = 0; i < count; i += 32) {
        const __m512i even = _mm512_loadu_si512(rows[0] + column + i);
        const __m512i odd = _mm512_loadu_si512(rows[1] + column + i);
        /* Of each four columns and the four after them; then all in their order. */
        const __m512i a = _mm512_unpacklo_epi16(even, odd), b = _mm512_unpackhi_epi16(even, odd);
        _mm512_storeu_si512(to + 2 * i, _mm512_permutex2var_epi64(a, low_half, b));
        _mm512_storeu_si512(to + 2 * i + 32, _mm512_permutex2var_epi64(a, high_half, b));
    }
}

/* Whether 0 times any of them is 0, and none is subnormal, which matrix instructions take for 0.
 * count is a multiple of 32. */
static inline bool operand_row_is_tame(const operand *row, int64_t count)
{
    const __m512i smallest = _mm512_set1_epi16(0x80), normal = _mm512_set1_epi16(0x7f00);
    __mmask32 wild = 0;
    for (int64_t i = 0; i < count; i += 32) {
        const __m512i bits = _mm512_loadu_si512(row + i);
        const __m512i size = _mm512_and_si512(bits, _mm512_set1_epi16(0x7fff));
        wild |= _mm512_mask_cmpge_epu16_mask(_mm512_test_epi16_mask(size, size),
                                             _mm512_sub_epi16(size, smallest), normal);
    }
    return wild == 0;
}

#endif
