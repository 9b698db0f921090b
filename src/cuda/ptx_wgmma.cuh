/* ptx_wgmma.cuh: products of a warpgroup, four warps in a row, on operands in shared memory (sm_90a).
 * They run while the warps go on: wgmma_fence before the first one, and again after registers they
 * use were written; wgmma_commit closes a group; until wgmma_wait nobody touches sums or operands.
 *
 * Warp w holds rows 16w … 16w+15 of the 64 of a result; within them sums[4j … 4j+3] are, like those
 * of an m16n8k16 product, columns 8j … 8j+7. */
#ifndef FC_PTX_WGMMA_CUH
#define FC_PTX_WGMMA_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most `pending` (a constant) groups are under way. */
#define wgmma_wait(pending) \
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory")

/* How the 16-byte chunks of an operand lie: as a tensor map of the same name puts them. */
enum { SWIZZLE_NONE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

/* An operand in shared memory whose rows run along the sum (K-major): 8 rows are stride_bytes from
 * the next 8; leading_bytes matters without swizzle alone: from 8 columns to the next. Whose rows
 * run across it (values): 8 rows are stride_bytes from the next 8, and a swizzle's width of columns
 * leading_bytes from the next. */
static __device__ __forceinline__ unsigned long long
matrix_descriptor(const void *shared, int leading_bytes, int stride_bytes, int swizzle)
{
    return (unsigned long long)((shared_address(shared) & 0x3ffffu) >> 4) |
           (unsigned long long)(leading_bytes >> 4) << 16 |
           (unsigned long long)(stride_bytes >> 4) << 32 | (unsigned long long)swizzle << 62;
}

/* The sums of 16 columns a lane has 8 of: as operands of an asm statement, and their names in it. */
#define WGMMA_SUMS(d, i)                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]),      \
    "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_NAMES_AT_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NAMES_AT_8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_AT_16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_AT_24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_AT_32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_AT_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_AT_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_AT_56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_AT_64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_AT_72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_AT_80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_AT_88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_AT_96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_AT_104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_AT_112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_AT_120 "%120, %121, %122, %123, %124, %125, %126, %127"

#define WGMMA_SUMS_16(d) WGMMA_SUMS(d, 0)
#define WGMMA_NAMES_16 WGMMA_NAMES_AT_0
#define WGMMA_SUMS_32(d) WGMMA_SUMS_16(d), WGMMA_SUMS(d, 8)
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", " WGMMA_NAMES_AT_8
#define WGMMA_SUMS_48(d) WGMMA_SUMS_32(d), WGMMA_SUMS(d, 16)
#define WGMMA_NAMES_48 WGMMA_NAMES_32 ", " WGMMA_NAMES_AT_16
#define WGMMA_SUMS_64(d) WGMMA_SUMS_48(d), WGMMA_SUMS(d, 24)
#define WGMMA_NAMES_64 WGMMA_NAMES_48 ", " WGMMA_NAMES_AT_24
#define WGMMA_SUMS_80(d) WGMMA_SUMS_64(d), WGMMA_SUMS(d, 32)
#define WGMMA_NAMES_80 WGMMA_NAMES_64 ", " WGMMA_NAMES_AT_32
#define WGMMA_SUMS_96(d) WGMMA_SUMS_80(d), WGMMA_SUMS(d, 40)
#define WGMMA_NAMES_96 WGMMA_NAMES_80 ", " WGMMA_NAMES_AT_40
#define WGMMA_SUMS_112(d) WGMMA_SUMS_96(d), WGMMA_SUMS(d, 48)
#define WGMMA_NAMES_112 WGMMA_NAMES_96 ", " WGMMA_NAMES_AT_48
#define WGMMA_SUMS_128(d) WGMMA_SUMS_112(d), WGMMA_SUMS(d, 56)
#define WGMMA_NAMES_128 WGMMA_NAMES_112 ", " WGMMA_NAMES_AT_56
#define WGMMA_SUMS_144(d) WGMMA_SUMS_128(d), WGMMA_SUMS(d, 64)
#define WGMMA_NAMES_144 WGMMA_NAMES_128 ", " WGMMA_NAMES_AT_64
#define WGMMA_SUMS_160(d) WGMMA_SUMS_144(d), WGMMA_SUMS(d, 72)
#define WGMMA_NAMES_160 WGMMA_NAMES_144 ", " WGMMA_NAMES_AT_72
#define WGMMA_SUMS_176(d) WGMMA_SUMS_160(d), WGMMA_SUMS(d, 80)
#define WGMMA_NAMES_176 WGMMA_NAMES_160 ", " WGMMA_NAMES_AT_80
#define WGMMA_SUMS_192(d) WGMMA_SUMS_176(d), WGMMA_SUMS(d, 88)
#define WGMMA_NAMES_192 WGMMA_NAMES_176 ", " WGMMA_NAMES_AT_88
#define WGMMA_SUMS_208(d) WGMMA_SUMS_192(d), WGMMA_SUMS(d, 96)
#define WGMMA_NAMES_208 WGMMA_NAMES_192 ", " WGMMA_NAMES_AT_96
#define WGMMA_SUMS_224(d) WGMMA_SUMS_208(d), WGMMA_SUMS(d, 104)
#define WGMMA_NAMES_224 WGMMA_NAMES_208 ", " WGMMA_NAMES_AT_104
#define WGMMA_SUMS_240(d) WGMMA_SUMS_224(d), WGMMA_SUMS(d, 112)
#define WGMMA_NAMES_240 WGMMA_NAMES_224 ", " WGMMA_NAMES_AT_112
#define WGMMA_SUMS_256(d) WGMMA_SUMS_240(d), WGMMA_SUMS(d, 120)
#define WGMMA_NAMES_256 WGMMA_NAMES_240 ", " WGMMA_NAMES_AT_120

/* The operands after the sums, whose names depend on how many those are. */
#define WGMMA_SCORES_64 "%32, %33, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_64 "%34"
#define WGMMA_VALUES_64 "{%32, %33, %34, %35}, %36, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_64 "%37"
#define WGMMA_SCORES_80 "%40, %41, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_80 "%42"
#define WGMMA_VALUES_80 "{%40, %41, %42, %43}, %44, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_80 "%45"
#define WGMMA_SCORES_96 "%48, %49, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_96 "%50"
#define WGMMA_VALUES_96 "{%48, %49, %50, %51}, %52, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_96 "%53"
#define WGMMA_SCORES_128 "%64, %65, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_128 "%66"
#define WGMMA_VALUES_128 "{%64, %65, %66, %67}, %68, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_128 "%69"
#define WGMMA_SCORES_176 "%88, %89, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_176 "%90"
#define WGMMA_VALUES_176 "{%88, %89, %90, %91}, %92, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_176 "%93"
#define WGMMA_SCORES_192 "%96, %97, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_192 "%98"
#define WGMMA_VALUES_192 "{%96, %97, %98, %99}, %100, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_192 "%101"
#define WGMMA_SCORES_256 "%128, %129, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_256 "%130"
#define WGMMA_VALUES_256 "{%128, %129, %130, %131}, %132, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_256 "%133"

/* sums = left · right, plus what they held where `accumulates` is not 0. Scores: both operands
 * in shared memory, rows along the sum. Values: the left one in registers (ptx_mma.cuh), the right
 * one in shared memory with rows across the sum. */
#define DEFINE_WGMMA(columns, type)                                                              \
    static __device__ __forceinline__ void wgmma_scores_n##columns##_##type(                     \
        float sums[columns / 2], unsigned long long left, unsigned long long right,              \
        int accumulates)                                                                         \
    {                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " WGMMA_SCORES_SWITCH_##columns            \
                     ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "."      \
                     #type " {" WGMMA_NAMES_##columns "}, " WGMMA_SCORES_##columns "\n}"   \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "l"(left), "l"(right), "r"(accumulates));                                 \
    }                                                                                            \
    static __device__ __forceinline__ void wgmma_values_n##columns##_##type(                     \
        float sums[columns / 2], const unsigned left[4], unsigned long long right,               \
        int accumulates)                                                                         \
    {                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " WGMMA_VALUES_SWITCH_##columns            \
                     ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "."      \
                     #type " {" WGMMA_NAMES_##columns "}, " WGMMA_VALUES_##columns "\n}"   \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),       \
                       "r"(accumulates));                                                        \
    }
DEFINE_WGMMA(64, f16)
DEFINE_WGMMA(64, bf16)
DEFINE_WGMMA(80, f16)
DEFINE_WGMMA(80, bf16)
DEFINE_WGMMA(96, f16)
DEFINE_WGMMA(96, bf16)
DEFINE_WGMMA(128, f16)
DEFINE_WGMMA(128, bf16)
DEFINE_WGMMA(176, f16)
DEFINE_WGMMA(176, bf16)
DEFINE_WGMMA(192, f16)
DEFINE_WGMMA(192, bf16)
DEFINE_WGMMA(256, f16)
DEFINE_WGMMA(256, bf16)

#endif
