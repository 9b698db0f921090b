/* operand_f32.h: operands of the matrix step are floats, whatever type the tensors have. */
#ifndef FC_CPU_OPERAND_F32_H
#define FC_CPU_OPERAND_F32_H

#include "cpu/load.h"

typedef float operand;
enum { OPERAND_GROUP = 1 }; /* elements of one column that lie side by side */

static inline void operand_store_two(operand *to, vec a, vec b)
{
    vec_store(to, a);
    vec_store(to + VEC_LANES, b);
}

static inline float operand_value(operand a)
{
    return a;
}

static inline operand operand_of(float a)
{
    return a;
}

static inline void operand_load_row(fc_type type, const void *base, int64_t index, int64_t stride,
                                    int64_t count, float factor, operand *to)
{
    load_floats(type, base, index, stride, count, factor, to);
}

/* Whether a row of the tensor is a row of operands. */
static inline bool operand_in_place(fc_type type, int64_t stride, const float *scales)
{
    return type == FC_F32 && stride == 1 && !scales;
}

/* to[i] = the elements of a column, side by side */
static inline void operand_interleave(const operand *const rows[OPERAND_GROUP], int64_t column,
                                      int64_t count, operand *to)
{
    memcpy(to, rows[0] + column, (size_t)count * sizeof *to);
}

/* Whether 0 times any of them is 0. count is a multiple of VEC_LANES. */
static inline bool operand_row_is_tame(const operand *row, int64_t count)
{
    vec zeros = vec_zero();
    for (int64_t i = 0; i < count; i += VEC_LANES)
        zeros = vec_fma(vec_load(row + i), vec_zero(), zeros);
    return vec_sum(zeros) == 0;
}

#endif
