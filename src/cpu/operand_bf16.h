/* operand_bf16.h: operands of the matrix step are bf16: so are Q, K and V, and the weights are
 * rounded to it. */
#ifndef FC_CPU_OPERAND_BF16_H
#define FC_CPU_OPERAND_BF16_H

#include "cpu/load.h"

typedef uint16_t operand;

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
    load_halves(base, index, stride, count, to);
}

/* Whether a row of the tensor is a row of operands. */
static inline bool operand_in_place(fc_type type, int64_t stride, const float *scales)
{
    (void)type;
    (void)scales;
    return stride == 1;
}

#if defined(FC_VEC_NEON)
#include "cpu/operand_bf16_neon.h"
#else
#include "cpu/operand_bf16_avx512.h"
#endif

#endif
