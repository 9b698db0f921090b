/* matmul.h: the innermost matrix step, C (+)= A · B, for MATMUL_ROWS rows of A at a time.
 *
 * A is row-major. B is packed in panels of MATMUL_COLUMNS columns, row after row; forms with 16-bit
 * operands keep OPERAND_GROUP elements of a column side by side: as many rows are interleaved.
 * depth is a multiple of MATMUL_DEPTH; rows, columns and depth that are not there hold zeros. Every
 * element of C is summed over k in the same order, whatever tile it is in. */
#ifndef FC_CPU_MATMUL_H
#define FC_CPU_MATMUL_H

#include "cpu/operand.h"

#if defined(FC_MATMUL_AMX)
#include "cpu/matmul_amx.h"
#elif defined(FC_MATMUL_DOT)
#include "cpu/matmul_dot.h"
#elif defined(FC_MATMUL_BFMMLA)
#include "cpu/matmul_bfmmla.h"
#elif defined(FC_VEC_NEON)
#include "cpu/matmul_neon.h"
#else
#include "cpu/matmul_broadcast.h"
#endif

/* What a thread does before its first and after its last step. */
#if !defined(MATMUL_HAS_STATE)
static inline void matmul_begin(void)
{
}

static inline void matmul_end(void)
{
}
#endif

typedef struct matmul_step {
    const operand *a;
    int64_t a_stride;
    const operand *b;
    int64_t panel_stride; /* elements from panel to panel */
    int64_t depth;
    int64_t panels;
    float *c;
    int64_t c_stride;
    bool accumulate;
} matmul_step;

FC_SPECIALISED void matmul_panels(const matmul_step *s, bool accumulate)
{
    const operand *b = s->b;
    float *c = s->c;
    for (int64_t panel = 0; panel < s->panels; panel++) {
        matmul_block(s->a, s->a_stride, b, s->depth, c, s->c_stride, accumulate);
        b += s->panel_stride;
        c += MATMUL_COLUMNS;
    }
}

/* Not inlined: within a large function the loop's pointers would not stay in registers. */
static __attribute__((noinline)) void matmul(const matmul_step *s)
{
    if (s->accumulate)
        matmul_panels(s, true);
    else
        matmul_panels(s, false);
}

/* to[column] += factor · (row k of the panel) */
static inline void matmul_add_row(const operand *panel, int64_t k, float factor, float *to)
{
    const operand *row = panel + k / OPERAND_GROUP * OPERAND_GROUP * MATMUL_COLUMNS;
    for (int64_t column = 0; column < MATMUL_COLUMNS; column++)
        to[column] += factor * operand_value(row[column * OPERAND_GROUP + k % OPERAND_GROUP]);
}

#endif
