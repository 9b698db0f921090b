/* products_wgmma.cu: as many f16 products as wgmma can do (sm_90a): the same two operands in shared
 * memory, again and again. */
#include "floors/floor_args.h"
#include "floors/operand.cuh"
#include "kernel_shape.h"
#include "ptx_bulk.cuh"
#include "ptx_wgmma.cuh"

#define THREADS (FLOOR_WGMMA_WARPGROUPS * 4 * WARP_LANES)
#define SUMS (FLOOR_WGMMA_COLUMNS / 2) /* of a lane */

/* Rows of 128 bytes, their chunks swizzled; which of the numbers lies where does not matter. */
typedef struct __align__(1024) operands
{
    unsigned left[64 * FLOOR_WGMMA_DIMS / 2];
    unsigned right[FLOOR_WGMMA_COLUMNS * FLOOR_WGMMA_DIMS / 2];
} operands;

KERNEL_SHAPE_OF(KERNEL_NAME) = {0, 0, THREADS, (int)sizeof(operands)};

static __device__ void fill_operands(operands *shared)
{
    unsigned *pairs = shared->left;
    for (int i = thread_id(); i < (int)(sizeof *shared / sizeof *pairs); i += THREADS)
        pairs[i] = operand_pair(i);
    fence_async();
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const floor_args args)
{
    operands *shared = SHARED_MEMORY(operands);
    fill_operands(shared);
    const unsigned long long left = matrix_descriptor(shared->left, 0, 1024, SWIZZLE_128);
    const unsigned long long right = matrix_descriptor(shared->right, 0, 1024, SWIZZLE_128);
    float sums[SUMS] = {};

    for (int round = 0; round < args.rounds; round++) {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < FLOOR_WGMMA_REPEATS; i++)
#pragma unroll
            for (int step = 0; step < FLOOR_WGMMA_DIMS / 16; step++)
                wgmma_scores_n256_f16(sums, left + step * 2, right + step * 2, 1);
        wgmma_commit();
        wgmma_wait(0);
    }

    float total = 0;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        total += sums[i];
    args.results[blockIdx.x * THREADS + thread_id()] = __float_as_uint(total);
}
