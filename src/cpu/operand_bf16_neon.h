/* operand_bf16_neon.h: what operand_bf16.h leaves to the instruction set, for NEON with BF16. */
#ifndef FC_CPU_OPERAND_BF16_NEON_H
#define FC_CPU_OPERAND_BF16_NEON_H

enum { OPERAND_GROUP = 4 }; /* elements of one column that lie side by side */

static inline void operand_store_two(operand *to, vec a, vec b)
{
    const bfloat16x8_t rounded = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a), b);
    vst1q_u16(to, vreinterpretq_u16_bf16(rounded));
}

/* to[i] = the elements of a column, side by side. count is a multiple of 8. */
static inline void operand_interleave(const operand *const rows[OPERAND_GROUP], int64_t column,
                                      int64_t count, operand *to)
{
    for (int64_t i = 0; i < count; i += 8) {
        uint16x8x4_t four;
        FC_UNROLL
        for (int row = 0; row < 4; row++)
            four.val[row] = vld1q_u16(rows[row] + column + i);
        vst4q_u16(to + OPERAND_GROUP * i, four);
    }
}

/* Whether 0 times any of them is 0, and none is subnormal, which matrix instructions take for 0.
 * count is a multiple of 8. */
static inline bool operand_row_is_tame(const operand *row, int64_t count)
{
    uint16x8_t wild = vdupq_n_u16(0);
    for (int64_t i = 0; i < count; i += 8) {
        const uint16x8_t size = vandq_u16(vld1q_u16(row + i), vdupq_n_u16(0x7fff));
        const uint16x8_t strange =
            vcgeq_u16(vsubq_u16(size, vdupq_n_u16(0x80)), vdupq_n_u16(0x7f00));
        wild = vorrq_u16(wild, vandq_u16(strange, vtstq_u16(size, size)));
    }
    return vmaxvq_u16(wild) == 0;
}

#endif
