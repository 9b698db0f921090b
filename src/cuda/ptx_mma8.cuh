/* ptx_mma8.cuh: the tensor cores' m16n8k32 product of 8-bit operands: FP8 with FP32 sums (sm_89), and
 * signed integers with integer sums (sm_80).
 *
 * A register has four elements, the first in its lowest byte. With g = lane / 4 and t = lane % 4 a
 * lane holds
 *   left operand  16×32   [0] row g   dims 4t … 4t+3    [2] row g   dims 4t+16 … 4t+19
 *                         [1] row g+8 dims 4t … 4t+3    [3] row g+8 dims 4t+16 … 4t+19
 *   right operand 32×8    [0] rows 4t … 4t+3 of column g      [1] rows 4t+16 … 4t+19
 *   result        16×8    as of m16n8k16 (ptx_mma.cuh) */
#ifndef FC_PTX_MMA8_CUH
#define FC_PTX_MMA8_CUH

#include "ptx_common.cuh"

/* result += left · right. */
#define DEFINE_MMA8(name, types, sum_type, constraint)                                            \
    static __device__ __forceinline__ void name(sum_type result[4], const unsigned left[4],       \
                                                unsigned right_0, unsigned right_1)               \
    {                                                                                             \
        asm("mma.sync.aligned.m16n8k32.row.col." types                                            \
            " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
            : constraint(result[0]), constraint(result[1]), constraint(result[2]),                \
              constraint(result[3])                                                               \
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1)); \
    }
DEFINE_MMA8(mma_m16n8k32_e4m3, "f32.e4m3.e4m3.f32", float, "+f")
DEFINE_MMA8(mma_m16n8k32_e5m2, "f32.e5m2.e5m2.f32", float, "+f")
DEFINE_MMA8(mma_m16n8k32_s8, "s32.s8.s8.s32", int, "+r")
#undef DEFINE_MMA8

#endif
