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

#define WGMMA_SUMS_64(d)                                 \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),      \
    "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),      \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),    \
    "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),  \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),  \
    "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),  \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),  \
    "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WGMMA_NAMES_64                                                                 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define WGMMA_SCORES_OPERANDS_64 "%32, %33, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_64 "%34"
#define WGMMA_VALUES_OPERANDS_64 "{%32, %33, %34, %35}, %36, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_64 "%37"
#define WGMMA_SUMS_128(d)                                \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),      \
    "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),      \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),    \
    "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),  \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),  \
    "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),  \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),  \
    "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),  \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),  \
    "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),  \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),  \
    "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),  \
    "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),  \
    "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),  \
    "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),  \
    "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WGMMA_NAMES_128                                                                 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define WGMMA_SCORES_OPERANDS_128 "%64, %65, p, 1, 1, 0, 0;"
#define WGMMA_SCORES_SWITCH_128 "%66"
#define WGMMA_VALUES_OPERANDS_128 "{%64, %65, %66, %67}, %68, p, 1, 1, 1;"
#define WGMMA_VALUES_SWITCH_128 "%69"

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
                     #type " " WGMMA_NAMES_##columns ", " WGMMA_SCORES_OPERANDS_##columns "\n}"   \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "l"(left), "l"(right), "r"(accumulates));                                 \
    }                                                                                            \
    static __device__ __forceinline__ void wgmma_values_n##columns##_##type(                     \
        float sums[columns / 2], const unsigned left[4], unsigned long long right,               \
        int accumulates)                                                                         \
    {                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " WGMMA_VALUES_SWITCH_##columns            \
                     ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "."      \
                     #type " " WGMMA_NAMES_##columns ", " WGMMA_VALUES_OPERANDS_##columns "\n}"   \
                     : WGMMA_SUMS_##columns(sums)                                                \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),       \
                       "r"(accumulates));                                                        \
    }
DEFINE_WGMMA(64, f16)
DEFINE_WGMMA(64, bf16)
DEFINE_WGMMA(128, f16)
DEFINE_WGMMA(128, bf16)

#endif
