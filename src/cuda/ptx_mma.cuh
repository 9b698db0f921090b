/* ptx_mma.cuh: the tensor cores' m16n8k16 product and the loads that feed it.
 *
 * With g = lane / 4 and t = lane % 4 a lane holds
 *   left operand  16×16   [0] row g   dims 2t, 2t+1     [2] row g   dims 2t+8, 2t+9
 *                         [1] row g+8 dims 2t, 2t+1     [3] row g+8 dims 2t+8, 2t+9
 *   right operand 16×8    [0] rows 2t, 2t+1 of column g       [1] rows 2t+8, 2t+9
 *   result        16×8    [0] [1] row g columns 2t, 2t+1      [2] [3] row g+8
 * Two results side by side are therefore, rounded to f16, a left operand. */
#ifndef FC_PTX_MMA_CUH
#define FC_PTX_MMA_CUH

#include "ptx_common.cuh"

/* result += left · right, FP32 sums of f16 or bf16 operands. */
#define MMA_M16N8K16(type)                                                                    \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                        \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                     \
        : "+f"(result[0]), "+f"(result[1]), "+f"(result[2]), "+f"(result[3])                  \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1))

/* result = left · right: no registers have to be cleared first. */
#define MMA_M16N8K16_FROM_ZERO(type)                                                            \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                          \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"                   \
        : "=f"(result[0]), "=f"(result[1]), "=f"(result[2]), "=f"(result[3])                    \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1),   \
          "f"(0.0f))

static __device__ __forceinline__ void mma_m16n8k16_f16(float result[4], const unsigned left[4],
                                                        unsigned right_0, unsigned right_1)
{
    MMA_M16N8K16("f16");
}

static __device__ __forceinline__ void mma_m16n8k16_f16_from_zero(float result[4],
                                                                  const unsigned left[4],
                                                                  unsigned right_0,
                                                                  unsigned right_1)
{
    MMA_M16N8K16_FROM_ZERO("f16");
}

static __device__ __forceinline__ void mma_m16n8k16_bf16(float result[4], const unsigned left[4],
                                                         unsigned right_0, unsigned right_1)
{
    MMA_M16N8K16("bf16");
}

static __device__ __forceinline__ void mma_m16n8k16_bf16_from_zero(float result[4],
                                                                   const unsigned left[4],
                                                                   unsigned right_0,
                                                                   unsigned right_1)
{
    MMA_M16N8K16_FROM_ZERO("bf16");
}

/* Four 8×8 matrices of 16-bit elements from shared memory. Lanes 8i … 8i+7 give the addresses of the rows of
 * matrix i (16 bytes each, aligned); matrix[i] becomes elements 2t, 2t+1 of its row g. */
static __device__ __forceinline__ void ldmatrix_x4(unsigned matrix[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* The same, transposed: matrix[i] becomes elements g of its rows 2t, 2t+1. */
static __device__ __forceinline__ void ldmatrix_x4_trans(unsigned matrix[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* The way back (sm_90). */
static __device__ __forceinline__ void stmatrix_x4(void *row, const unsigned matrix[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(matrix[0]), "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
                 : "memory");
}

#endif
