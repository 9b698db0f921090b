/* ptx_wgmma8.cuh: products of a warpgroup on FP8 operands (sm_90a), 32 dims at a time. As in
 * ptx_wgmma.cuh, but the rows of every operand in shared memory run along the sum: there are no
 * others for 8 bits. */
#ifndef FC_PTX_WGMMA8_CUH
#define FC_PTX_WGMMA8_CUH

#include "ptx_wgmma.cuh"

#define WGMMA8_SCORES_OPERANDS_64 "%32, %33, p, 1, 1;"
#define WGMMA8_VALUES_OPERANDS_64 "{%32, %33, %34, %35}, %36, p, 1, 1;"
#define WGMMA8_SCORES_OPERANDS_128 "%64, %65, p, 1, 1;"
#define WGMMA8_VALUES_OPERANDS_128 "{%64, %65, %66, %67}, %68, p, 1, 1;"

/* Scores: both operands in shared memory. Values: the left one in registers (ptx_mma8.cuh). */
#define DEFINE_WGMMA8(columns, type)                                                             \
    static __device__ __forceinline__ void wgmma_scores_n##columns##_##type(                     \
        float sums[columns / 2], unsigned long long left, unsigned long long right,              \
        int accumulates)                                                                         \
    {                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " WGMMA_SCORES_SWITCH_##columns            \
                     ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k32.f32." #type "."      \
                     #type " {" WGMMA_NAMES_##columns "}, " WGMMA8_SCORES_OPERANDS_##columns "\n}"  \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "l"(left), "l"(right), "r"(accumulates));                                 \
    }                                                                                            \
    static __device__ __forceinline__ void wgmma_values_n##columns##_##type(                     \
        float sums[columns / 2], const unsigned left[4], unsigned long long right,               \
        int accumulates)                                                                         \
    {                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " WGMMA_VALUES_SWITCH_##columns            \
                     ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k32.f32." #type "."      \
                     #type " {" WGMMA_NAMES_##columns "}, " WGMMA8_VALUES_OPERANDS_##columns "\n}"  \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),       \
                       "r"(accumulates));                                                        \
    }
DEFINE_WGMMA8(64, e4m3)
DEFINE_WGMMA8(64, e5m2)
DEFINE_WGMMA8(128, e4m3)
DEFINE_WGMMA8(128, e5m2)
#undef DEFINE_WGMMA8

#endif
