/* operand_bf16.h: operands of the matrix step are bf16: so are Q, K and V, and the weights are
 * rounded to it. */
#ifndef FC_CPU_OPERAND_BF16_H
#define FC_CPU_OPERAND_BF16_H

#include "cpu/load.h"

typedef uint16_t operand;
enum { OPERAND_PAIR = 2 }; /* elements of one column that lie side by side */

static inline void operand_store(operand *to, vec a)
{
    const __m256bh rounded = _mm512_cvtneps_pbh(a);
    memcpy(to, &rounded, sizeof rounded);
}

static inline float operand_value(operand a)
{
    return fc_bf16_to_float(a);
}

static inline operand operand_of(float a)
{
    return fc_bf16_from_double((double)a);
}

static inline void operand_load_row(fc_type type, const void *base, int64_t index, int64_t stride,
                                    int64_t count, float factor, operand *to)
{
    (void)type; /* bf16, which has no scale */
    (void)factor;
    const operand *from = (const operand *)base + index;
    if (stride == 1)
        memcpy(to, from, (size_t)count * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * stride];
}

/* Whether 0 times any of them is 0, and none is subnormal, which matrix instructions take for 0. */
static inline bool operand_row_is_tame(const operand *row, int64_t count)
{
    bool wild = false;
    for (int64_t i = 0; i < count; i++) {
        const operand exponent = row[i] & 0x7f80, fraction = row[i] & 0x7f;
        wild |= exponent == 0x7f80 || (exponent == 0 && fraction != 0);
    }
    return !wild;
}

#endif
