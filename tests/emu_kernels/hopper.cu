/* hopper.cu: small kernels for what sm_90 brings, each right, or wrong in one way that BROKEN names:
 * the emulator must report it. On a GPU the right ones show that the emulator agrees with it. */
#include "kernel_shape.h"
#include "ptx_bulk.cuh"
#include "ptx_cluster.cuh"
#include "ptx_common.cuh"
#include "ptx_launch.cuh"
#include "ptx_mbarrier.cuh"
#include "ptx_mma8.cuh"
#include "ptx_wgmma8.cuh"

#include "emu_kernels.h"

#define NOTHING 0
#define COPY_NOT_WAITED_FOR 1
#define TOO_MANY_BYTES_EXPECTED 2
#define WRONG_STRIDE 3
#define WRONG_SWIZZLE 4
#define PRODUCT_NOT_WAITED_FOR 5
#define NO_PROXY_FENCE 6
#define PHASE_NOT_FLIPPED 7
#define STAGE_NOT_FREE 8
#define NO_CLUSTER_BARRIER 9
#define LEFT_TOO_EARLY 10
#define OVERWRITTEN_DURING_STORE 11
#define NO_WGMMA_FENCE 12
#define SUMS_WRITTEN_AFTER_FENCE 13
#define LEFT_WRITTEN_AFTER_FENCE 14
#define LEFT_WRITTEN_DURING_PRODUCT 15
#define PREVIOUS_NOT_WAITED_FOR 16
#define BARRIER_BEFORE_WAIT 17
#define REGISTERS_SWAPPED 18
#define SHORT_STEP 19
#define RELAY_DOES_NOT_WAIT 20
#define OVERWRITTEN_AFTER_PRODUCT 21
#define COPY_LEFT_BEHIND 22
#ifndef BROKEN
#define BROKEN NOTHING
#endif

#define KERNEL(suffix) PASTE_NAMES(KERNEL_NAME, suffix)
#define SHAPE(suffix, threads, shared) \
    KERNEL_SHAPE_OF(KERNEL(suffix)) = {0, 0, threads, (int)sizeof(shared)}

/* Row and column of sum i of a lane, in a warpgroup's 64 rows. */
static __device__ int sum_row(int i)
{
    return warp_id() % 4 * 16 + lane_id() / 4 + i / 2 % 2 * 8;
}

static __device__ int sum_column(int i)
{
    return i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
}

static __device__ void store_sums(float *output, const float sums[COLUMNS / 2])
{
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++)
        output[sum_row(i) * COLUMNS + sum_column(i)] = sums[i];
}

/* 1. left · rightᵀ: two boxes by tensor map, multiplied where they lie. */

typedef struct scores_memory {
    unsigned short left[ROWS * COLUMNS];
    unsigned short right[ROWS * COLUMNS];
    mbarrier arrived;
} scores_memory;
SHAPE(_scores, 128, scores_memory);

static __device__ void multiply_scores(float sums[COLUMNS / 2], const scores_memory *shared)
{
    const int stride_bytes = BROKEN == WRONG_STRIDE ? 512 : 1024;
    const int swizzle = BROKEN == WRONG_SWIZZLE ? SWIZZLE_64 : SWIZZLE_128;
#if BROKEN != NO_WGMMA_FENCE
    wgmma_fence();
#endif
#pragma unroll
    for (int step = 0; step < COLUMNS / 16; step++)
        wgmma_scores_n64_f16(
            sums, matrix_descriptor(shared->left + step * 16, 0, stride_bytes, swizzle),
            matrix_descriptor(shared->right + step * 16, 0, 1024, SWIZZLE_128), step > 0);
    wgmma_commit();
#if BROKEN != PRODUCT_NOT_WAITED_FOR
    wgmma_wait(0);
#endif
}

extern "C" __global__ void __launch_bounds__(128) KERNEL(_scores)(
    const __grid_constant__ kernel_args args)
{
    scores_memory *shared = SHARED_MEMORY(scores_memory);
    float sums[COLUMNS / 2];
    if (thread_id() == 0) {
        mbarrier_init(&shared->arrived, 1);
        fence_mbarriers();
    }
    __syncthreads();
    wait_for_previous_kernel();
    if (thread_id() == 0) {
        mbarrier_arrive_expect(&shared->arrived,
                               2 * TILE_BYTES + (BROKEN == TOO_MANY_BYTES_EXPECTED ? 16 : 0));
        tensor_load(shared->left, &args.left, 0, 0, 0, 0, &shared->arrived);
        tensor_load(shared->right, &args.right, 0, 0, 0, 0, &shared->arrived);
    }
#if BROKEN != COPY_NOT_WAITED_FOR
    mbarrier_wait(&shared->arrived, 0);
#endif
    let_next_kernel_start();
    multiply_scores(sums, shared);
    store_sums(args.output, sums);
#if BROKEN == COPY_LEFT_BEHIND
    __syncthreads();
    if (thread_id() == 0) {
        mbarrier_arrive_expect(&shared->arrived, TILE_BYTES);
        tensor_load(shared->left, &args.left, 0, 0, 0, 0, &shared->arrived);
    }
#endif
}

/* 2. left · right: the left operand in registers, the right one put in shared memory by hand. */

typedef struct values_memory {
    unsigned short right[ROWS * COLUMNS];
} values_memory;
SHAPE(_values, 128, values_memory);

static __device__ void load_values(unsigned short *tile, const unsigned short *rows)
{
    for (int i = thread_id(); i < ROWS * COLUMNS / 8; i += 128) {
        const int row = i / 8, chunk = (i % 8) ^ (row % 8);
        *(uint4 *)(tile + row * COLUMNS + chunk * 8) = *(const uint4 *)(rows + i * 8);
    }
}

static __device__ void load_fragment(unsigned fragment[4], const unsigned short *rows, int step)
{
    for (int i = 0; i < 4; i++) {
        const int row = warp_id() * 16 + lane_id() / 4 + i % 2 * 8;
        const int column = step * 16 + lane_id() % 4 * 2 + i / 2 * 8;
        fragment[i] = *(const unsigned *)(rows + row * COLUMNS + column);
    }
}

extern "C" __global__ void __launch_bounds__(128) KERNEL(_values)(
    const __grid_constant__ kernel_args args)
{
    values_memory *shared = SHARED_MEMORY(values_memory);
    const unsigned short *left = (const unsigned short *)args.input;
    unsigned fragments[COLUMNS / 16][4];
    float sums[COLUMNS / 2];
#pragma unroll
    for (int step = 0; step < COLUMNS / 16; step++)
        load_fragment(fragments[step], left, step);
    load_values(shared->right, left + ROWS * COLUMNS);
#if BROKEN != NO_PROXY_FENCE
    fence_async();
#endif
    __syncthreads();
    wgmma_fence();
#if BROKEN == SUMS_WRITTEN_AFTER_FENCE
    sums[5] = 0.0f;
#endif
#if BROKEN == LEFT_WRITTEN_AFTER_FENCE
    fragments[1][2] = 0;
#endif
#pragma unroll
    for (int step = 0; step < COLUMNS / 16; step++)
        wgmma_values_n64_f16(sums, fragments[step],
                             matrix_descriptor(shared->right + step * 16 * COLUMNS, 0, 1024,
                                               SWIZZLE_128),
                             step > 0);
    wgmma_commit();
#if BROKEN == LEFT_WRITTEN_DURING_PRODUCT
    fragments[3][0] = 0;
#endif
    wgmma_wait(0);
#if BROKEN == OVERWRITTEN_AFTER_PRODUCT
    if (thread_id() == 0)
        shared->right[0] = 7; /* its own warp's product is over */
#endif
    store_sums(args.output, sums);
}

/* 3. Rows through a ring of stages: one warp fetches, another adds up columns. */

typedef struct pipeline_memory {
    float rows[STAGES][ROW_FLOATS];
    mbarrier full[STAGES], empty[STAGES];
} pipeline_memory;
SHAPE(_pipeline, 64, pipeline_memory);

static __device__ void fetch_rows(const kernel_args *args, pipeline_memory *shared)
{
    for (int row = 0; row < PIPELINE_ROWS; row++) {
        const int stage = row % STAGES;
#if BROKEN != STAGE_NOT_FREE
        mbarrier_wait(&shared->empty[stage], (row / STAGES + 1) % 2);
#endif
        mbarrier_arrive_expect(&shared->full[stage], ROW_FLOATS * 4);
        bulk_load(shared->rows[stage], (const float *)args->input + row * ROW_FLOATS,
                  ROW_FLOATS * 4, &shared->full[stage]);
    }
}

static __device__ void add_rows(float sums[ROW_FLOATS / 32], pipeline_memory *shared)
{
    for (int row = 0; row < PIPELINE_ROWS; row++) {
        const int stage = row % STAGES;
        mbarrier_wait(&shared->full[stage], BROKEN == PHASE_NOT_FLIPPED ? 0 : row / STAGES % 2);
#pragma unroll
        for (int i = 0; i < ROW_FLOATS / 32; i++)
            sums[i] += shared->rows[stage][i * 32 + lane_id()];
        mbarrier_arrive(&shared->empty[stage]);
    }
}

extern "C" __global__ void __launch_bounds__(64) KERNEL(_pipeline)(
    const __grid_constant__ kernel_args args)
{
    pipeline_memory *shared = SHARED_MEMORY(pipeline_memory);
    float sums[ROW_FLOATS / 32] = {};
    if (thread_id() == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared->full[stage], 1);
            mbarrier_init(&shared->empty[stage], 32);
        }
        fence_mbarriers();
    }
    __syncthreads();
    if (thread_id() == 32)
        fetch_rows(&args, shared);
    if (warp_id() > 0)
        return;
    add_rows(sums, shared);
#pragma unroll
    for (int i = 0; i < ROW_FLOATS / 32; i++)
        args.output[i * 32 + lane_id()] = sums[i];
}

/* 4. Two blocks that read a box together and write into each other's shared memory. */

typedef struct cluster_memory {
    unsigned short box[ROWS * COLUMNS];
    unsigned stored[32], sent[32];
    mbarrier box_arrived, words_arrived;
} cluster_memory;
SHAPE(_cluster, 32, cluster_memory);

static __device__ void exchange(cluster_memory *shared)
{
    const int other = 1 - cluster_rank();
    const unsigned value = (unsigned)(cluster_rank() * 100 + lane_id());
    store_cluster(cluster_address(&shared->stored[lane_id()], other), value);
    store_cluster_async(cluster_address(&shared->sent[lane_id()], other), value + 1000,
                        cluster_address(&shared->words_arrived, other));
}

extern "C" __global__ void __launch_bounds__(32) KERNEL(_cluster)(
    const __grid_constant__ kernel_args args)
{
    cluster_memory *shared = SHARED_MEMORY(cluster_memory);
    float *output = args.output + cluster_rank() * 96;
    if (lane_id() == 0) {
        mbarrier_init(&shared->box_arrived, 1);
        mbarrier_init(&shared->words_arrived, 1);
        fence_mbarriers();
        mbarrier_arrive_expect(&shared->box_arrived, TILE_BYTES);
        mbarrier_arrive_expect(&shared->words_arrived, 32 * 4);
    }
    cluster_arrive();
    cluster_wait();
    if (cluster_rank() == 0 && lane_id() == 0)
        tensor_load_multicast(shared->box, &args.left, 0, 0, 0, 0, &shared->box_arrived, 3);
    exchange(shared);
#if BROKEN != NO_CLUSTER_BARRIER && BROKEN != LEFT_TOO_EARLY
    cluster_arrive();
    cluster_wait();
#endif
    mbarrier_wait(&shared->box_arrived, 0);
    mbarrier_wait(&shared->words_arrived, 0);
#if BROKEN == LEFT_TOO_EARLY
    if (cluster_rank() == 0)
        return;
    output[lane_id()] = (float)load_cluster(cluster_address(&shared->stored[lane_id()], 0));
#else
    output[lane_id()] = (float)shared->stored[lane_id()];
#endif
    output[32 + lane_id()] = (float)shared->sent[lane_id()];
    output[64 + lane_id()] = (float)(shared->box[lane_id() * COLUMNS] & 0x3ff);
}

/* 5. A box that hangs over the tensor's end, doubled and stored through another map. */

typedef struct box_memory {
    unsigned short box[ROWS * COLUMNS];
    mbarrier arrived;
} box_memory;
SHAPE(_box, 128, box_memory);

extern "C" __global__ void __launch_bounds__(128) KERNEL(_box)(
    const __grid_constant__ kernel_args args)
{
    box_memory *shared = SHARED_MEMORY(box_memory);
    if (thread_id() == 0) {
        mbarrier_init(&shared->arrived, 1);
        fence_mbarriers();
    }
    __syncthreads();
    if (thread_id() == 0) {
        mbarrier_arrive_expect(&shared->arrived, TILE_BYTES);
        tensor_load(shared->box, &args.left, 0, 40, 0, 0, &shared->arrived);
    }
    mbarrier_wait(&shared->arrived, 0);
    for (int i = thread_id(); i < ROWS * COLUMNS; i += 128)
        shared->box[i] = (unsigned short)(shared->box[i] + 1);
#if BROKEN != NO_PROXY_FENCE
    fence_async();
#endif
    __syncthreads();
    if (thread_id() == 0) {
        tensor_store(&args.result, shared->box, 0, 0, 0, 0);
        bulk_commit();
#if BROKEN == OVERWRITTEN_DURING_STORE
        shared->box[0] = 7;
#endif
        bulk_wait_read(0);
        shared->box[1] = 7;
        bulk_wait(0);
    }
}

/* 6. A kernel that lets the next one start at once, one that may stand between, and one that uses
 * what the first wrote. */

SHAPE(_first, 64, unsigned[1]);

extern "C" __global__ void __launch_bounds__(64) KERNEL(_first)(
    const __grid_constant__ kernel_args args)
{
    let_next_kernel_start();
    args.output[thread_id()] = (float)thread_id();
}

SHAPE(_relay, 64, unsigned[1]);

extern "C" __global__ void __launch_bounds__(64) KERNEL(_relay)(
    const __grid_constant__ kernel_args args)
{
#if BROKEN != RELAY_DOES_NOT_WAIT
    wait_for_previous_kernel();
#endif
    let_next_kernel_start();
}

SHAPE(_second, 64, unsigned[1]);

/* One thread waits, the barrier tells the others. */
extern "C" __global__ void __launch_bounds__(64) KERNEL(_second)(
    const __grid_constant__ kernel_args args)
{
#if BROKEN == BARRIER_BEFORE_WAIT
    __syncthreads();
#endif
#if BROKEN != PREVIOUS_NOT_WAITED_FOR
    if (thread_id() == 40)
        wait_for_previous_kernel();
#endif
#if BROKEN != BARRIER_BEFORE_WAIT
    __syncthreads();
#endif
    args.output[64 + thread_id()] = args.output[63 - thread_id()] + 1.0f;
}

/* 7. left · rightᵀ of 8-bit elements, 64 rows of COLUMNS8 each: a warp has 16 rows of the result. */

typedef struct eight_bit_memory {
    unsigned char left[TILE_BYTES], right[TILE_BYTES];
} eight_bit_memory;

static __device__ unsigned four_bytes(const unsigned char *rows, int row, int column)
{
    return *(const unsigned *)(rows + row * COLUMNS8 + column);
}

static __device__ void load_left8(unsigned left[4], const unsigned char *rows, int step)
{
    for (int i = 0; i < 4; i++) {
        const int high = BROKEN == REGISTERS_SWAPPED ? i / 2 : i % 2;
        const int far = BROKEN == REGISTERS_SWAPPED ? i % 2 : i / 2;
        left[i] = four_bytes(rows, warp_id() * 16 + lane_id() / 4 + high * 8,
                             step * 32 + lane_id() % 4 * 4 + far * 16);
    }
}

#define DEFINE_MMA8_KERNEL(suffix, type, sum_type)                                              \
    SHAPE(suffix, 128, unsigned[1]);                                                            \
    extern "C" __global__ void __launch_bounds__(128)                                           \
        KERNEL(suffix)(const __grid_constant__ kernel_args args)                                \
    {                                                                                           \
        const unsigned char *rows = (const unsigned char *)args.input;                          \
        for (int tile = 0; tile < COLUMNS / 8; tile++) {                                        \
            sum_type sums[4] = {};                                                              \
            for (int step = 0; step < 4; step++) {                                              \
                const int row = tile * 8 + lane_id() / 4;                                       \
                const int column = step * 32 + lane_id() % 4 * 4;                               \
                unsigned left[4];                                                               \
                load_left8(left, rows, step);                                                   \
                mma_m16n8k32_##type(sums, left, four_bytes(rows + TILE_BYTES, row, column),     \
                                    four_bytes(rows + TILE_BYTES, row, column + 16));           \
            }                                                                                   \
            for (int i = 0; i < 4; i++)                                                         \
                args.output[sum_row(i) * COLUMNS + tile * 8 + sum_column(i)] = (float)sums[i];  \
        }                                                                                       \
    }
DEFINE_MMA8_KERNEL(_mma_s8, s8, int)
DEFINE_MMA8_KERNEL(_mma_e4m3, e4m3, float)
DEFINE_MMA8_KERNEL(_mma_e5m2, e5m2, float)

/* The same by wgmma: half of the elements from shared memory, the others' left operand from
 * registers. */
static __device__ void load_swizzled(unsigned char *tile, const unsigned char *rows)
{
    for (int i = thread_id(); i < TILE_BYTES / 16; i += 128)
        *(uint4 *)(tile + i / 8 * COLUMNS8 + ((i % 8) ^ (i / 8 % 8)) * 16) =
            *(const uint4 *)(rows + i * 16);
}

#define DEFINE_WGMMA8_KERNEL(suffix, type)                                                      \
    SHAPE(suffix, 128, eight_bit_memory);                                                       \
    extern "C" __global__ void __launch_bounds__(128)                                           \
        KERNEL(suffix)(const __grid_constant__ kernel_args args)                                \
    {                                                                                           \
        const unsigned char *rows = (const unsigned char *)args.input;                          \
        const int step_bytes = BROKEN == SHORT_STEP ? 16 : 32;                                  \
        eight_bit_memory *shared = SHARED_MEMORY(eight_bit_memory);                             \
        unsigned left[2][4];                                                                    \
        float sums[COLUMNS / 2] = {};                                                           \
        load_swizzled(shared->left, rows);                                                      \
        load_swizzled(shared->right, rows + TILE_BYTES);                                        \
        load_left8(left[0], rows, 2);                                                           \
        load_left8(left[1], rows, 3);                                                           \
        fence_async();                                                                          \
        __syncthreads();                                                                        \
        wgmma_fence();                                                                          \
        for (int step = 0; step < 2; step++)                                                    \
            wgmma_scores_n64_##type(                                                            \
                sums, matrix_descriptor(shared->left + step * step_bytes, 0, 1024, SWIZZLE_128), \
                matrix_descriptor(shared->right + step * 32, 0, 1024, SWIZZLE_128), 1);         \
        for (int step = 2; step < 4; step++)                                                    \
            wgmma_values_n64_##type(                                                            \
                sums, left[step - 2],                                                           \
                matrix_descriptor(shared->right + step * 32, 0, 1024, SWIZZLE_128), 1);         \
        wgmma_commit();                                                                         \
        wgmma_wait(0);                                                                          \
        store_sums(args.output, sums);                                                          \
    }
DEFINE_WGMMA8_KERNEL(_wgmma_e4m3, e4m3)
DEFINE_WGMMA8_KERNEL(_wgmma_e5m2, e5m2)
