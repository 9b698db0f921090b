/* reading.cu: reads memory once, as fast as it comes. */
#include "floors/floor_args.h"
#include "kernel_shape.h"
#include "ptx_memory.cuh"

#define THREADS 512
#define LOADS 8 /* of a thread under way at a time */

KERNEL_SHAPE_OF(KERNEL_NAME) = {0, 0, THREADS, 0};

static __device__ unsigned sum_of(uint4 chunk)
{
    return chunk.x + chunk.y + chunk.z + chunk.w;
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const floor_args args)
{
    const uint4 *memory = (const uint4 *)args.memory;
    const long long thread = (long long)blockIdx.x * THREADS + thread_id();
    const long long threads = (long long)gridDim.x * THREADS;
    unsigned total = 0;
    long long chunk = thread;
    for (; chunk + (LOADS - 1) * threads < args.chunks; chunk += LOADS * threads) {
        uint4 chunks[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            chunks[i] = load_global_16(memory + chunk + i * threads);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            total += sum_of(chunks[i]);
    }
    for (; chunk < args.chunks; chunk += threads)
        total += sum_of(load_global_16(memory + chunk));
    args.results[thread] = total;
}
