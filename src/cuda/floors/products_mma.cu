/* products_mma.cu: as many f16 products as mma can do: nothing but products, on registers. */
#include "floors/floor_args.h"
#include "floors/operand.cuh"
#include "kernel_shape.h"
#include "ptx_mma.cuh"

#define THREADS (FLOOR_MMA_WARPS * WARP_LANES)
#define LEFT 2
#define RIGHT (FLOOR_MMA_SUMS / LEFT)

KERNEL_SHAPE_OF(KERNEL_NAME) = {0, 0, THREADS, 0};

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const floor_args args)
{
    unsigned left[LEFT][4], right[RIGHT][2];
    float sums[FLOOR_MMA_SUMS][4] = {};
    const unsigned first = (unsigned)thread_id() * (4 * LEFT + 2 * RIGHT);
#pragma unroll
    for (int i = 0; i < 4 * LEFT; i++)
        left[i / 4][i % 4] = operand_pair(first + i);
#pragma unroll
    for (int i = 0; i < 2 * RIGHT; i++)
        right[i / 2][i % 2] = operand_pair(first + 4 * LEFT + i);

    for (int round = 0; round < args.rounds; round++) {
#pragma unroll
        for (int i = 0; i < FLOOR_MMA_SUMS; i++)
            mma_m16n8k16_f16(sums[i], left[i % LEFT], right[i / LEFT][0], right[i / LEFT][1]);
    }

    float total = 0;
#pragma unroll
    for (int i = 0; i < 4 * FLOOR_MMA_SUMS; i++)
        total += sums[i / 4][i % 4];
    args.results[blockIdx.x * THREADS + thread_id()] = __float_as_uint(total);
}
