/* basic.cu: small kernels for warps and barriers, each right, or wrong in one way that BROKEN names:
 * the emulator must report it. */
#include "kernel_shape.h"
#include "ptx_barrier.cuh"
#include "ptx_common.cuh"

#include "emu_kernels.h"

#define NOTHING 0
#define BARRIER_COUNT_DIFFERS 1
#define BARRIER_NOT_REACHED 2
#define LANE_NOT_IN_MASK 3
#define LANE_HAS_LEFT 4
#define WARP_DIVERGED 5
#define ATOMIC_AND_PLAIN 6
#define PAST_SHARED_MEMORY 7
#define MISALIGNED_SHARED 8
#define WROTE_INPUT_GUARD 9
#define BLOCKS_WRITE_THE_SAME 10
#define CLEARED_DURING_USE 11
#define WARPS_AT_TWO_BARRIERS 12
#ifndef BROKEN
#define BROKEN NOTHING
#endif

#define KERNEL(suffix) PASTE_NAMES(KERNEL_NAME, suffix)

typedef struct basic_memory {
    unsigned slots[64];
    unsigned count;
} basic_memory;
KERNEL_SHAPE_OF(KERNEL(_basic)) = {0, 0, 128, (int)sizeof(basic_memory)};

/* Warps 0 and 1 hand slots to warps 2 and 3 through a numbered barrier. */
static __device__ unsigned hand_over(basic_memory *shared)
{
    if (warp_id() < 2) {
        shared->slots[thread_id()] = (unsigned)thread_id();
        barrier_arrive(1, 128);
        return 0;
    }
#if BROKEN == BARRIER_NOT_REACHED
    if (warp_id() == 3)
        return 0;
#endif
    barrier_wait(1, BROKEN == BARRIER_COUNT_DIFFERS && warp_id() == 3 ? 96 : 128);
    return shared->slots[127 - thread_id()];
}

static __device__ unsigned add_lanes(unsigned value)
{
    const unsigned mask = BROKEN == LANE_NOT_IN_MASK ? 0x7fffffffu : ALL_LANES;
#if BROKEN == LANE_NOT_IN_MASK
    if (lane_id() == 31)
        return 0;
#endif
#if BROKEN == WARP_DIVERGED
    if (lane_id() % 2)
        return value + (unsigned)__any_sync(ALL_LANES, value > 5);
#endif
    return value + __shfl_xor_sync(mask, value, 1);
}

extern "C" __global__ void __launch_bounds__(128) KERNEL(_basic)(const kernel_args args)
{
    basic_memory *shared = SHARED_MEMORY(basic_memory);
    if (thread_id() == 0)
        shared->count = 0;
#if BROKEN == WARPS_AT_TWO_BARRIERS
    if (warp_id() == 0)
        __syncthreads();
    else
#endif
        __syncthreads();
#if BROKEN == CLEARED_DURING_USE
    if (thread_id() == 127)
        for (int i = 0; i < 64; i++) /* which a compiler could make a memset */
            shared->slots[i] = 0;
#endif
#if BROKEN == LANE_HAS_LEFT
    if (thread_id() == 77)
        return;
#endif
#if BROKEN == ATOMIC_AND_PLAIN
    if (thread_id() == 5)
        shared->count = 1;
#endif
    atomicAdd(&shared->count, 1u);
#if BROKEN == PAST_SHARED_MEMORY
    shared->slots[thread_id()] = 0;
#endif
#if BROKEN == MISALIGNED_SHARED
    *(unsigned long long *)(shared->slots + 1) = 0;
#endif
    const unsigned handed = add_lanes(hand_over(shared));
    const int votes = __syncthreads_count(handed > 100);
    args.output[thread_id()] = (float)(handed + shared->count * 1000 + (unsigned)votes * 1000000);
#if BROKEN == WROTE_INPUT_GUARD
    if (thread_id() == 0)
        args.output[128] = 0.0f;
#endif
}

KERNEL_SHAPE_OF(KERNEL(_blocks)) = {0, 0, 32, 4};

/* Every block has its own part of the output, and counts itself in the last place. */
extern "C" __global__ void __launch_bounds__(32) KERNEL(_blocks)(const kernel_args args)
{
    const int block = BROKEN == BLOCKS_WRITE_THE_SAME ? (int)blockIdx.x / 2 : (int)blockIdx.x;
    args.output[block * 32 + lane_id()] = (float)lane_id();
    if (lane_id() == 0)
        atomicAdd((unsigned *)args.output + 128, 1u);
}
