/* merge.cu: joins what latency.cu's blocks found over their shares of the keys, in the order of the
 * shares whatever the order they were done in. A warp takes one query row.
 *
 * grid.x = rows / WARPS, grid.y = query head, grid.z = batch. */
#include "kernel_shape.h"
#include "ptx_common.cuh"

#define WARPS 4
#define THREADS (WARPS * WARP_LANES)
#define HEAD_DIM 64 /* of no meaning here */
#define VALUE_DIM 64
#define SCORE_TILES 1
#define FEATURES 1

#include "sm80/store.cuh"

KERNEL_SHAPE_OF(KERNEL_NAME) = {WARPS, 0, THREADS, 0};

static_assert(ARGS_MOST_SPLITS <= 2 * WARP_LANES, "a lane has two splits' weights");

/* What each split's part of a row counts for: lane l has that of the splits l and l + 32. */
typedef struct split_weights {
    float of_split[2];
    float largest, sum; /* over all splits */
} split_weights;

static __device__ __forceinline__ split_weights weigh_splits(const attention_args *args,
                                                             long long rows, long long row)
{
    split_weights weights;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int split = i * WARP_LANES + lane_id();
        weights.of_split[i] = split < args->splits.divisor ? args->partial_lse[split * rows + row]
                                                           : negative_infinity();
    }
    weights.largest = warp_max(fmaxf(weights.of_split[0], weights.of_split[1]));
    const float base = exponent_base(weights.largest);
#pragma unroll
    for (int i = 0; i < 2; i++)
        weights.of_split[i] = exp2_approx(weights.of_split[i] - base);
    weights.sum = warp_sum(weights.of_split[0] + weights.of_split[1]);
    return weights;
}

/* A lane's dims of a row, by every lane of the warp: from `dim` on, WARP_LANES apart. Several loads
 * are under way. */
#define LANE_DIMS 2
#define SPLITS_AT_ONCE 16
static __device__ __forceinline__ void add_splits(const attention_args *args,
                                                  const split_weights *weights, long long rows,
                                                  long long row, int dim, float sums[LANE_DIMS])
{
    const float *part = args->partial_out + row * partial_stride(args);
    const long long stride = rows * partial_stride(args);
    const int splits = args->splits.divisor;
    int place[LANE_DIMS];
#pragma unroll
    for (int i = 0; i < LANE_DIMS; i++) {
        sums[i] = 0.0f;
        place[i] = min(dim + i * WARP_LANES, args->value_dim - 1);
    }
#pragma unroll 1
    for (int first = 0; first < splits; first += SPLITS_AT_ONCE) {
        float values[SPLITS_AT_ONCE][LANE_DIMS];
#pragma unroll
        for (int i = 0; i < SPLITS_AT_ONCE * LANE_DIMS; i++)
            values[i / LANE_DIMS][i % LANE_DIMS] =
                part[min(first + i / LANE_DIMS, splits - 1) * stride + place[i % LANE_DIMS]];
#pragma unroll
        for (int i = 0; i < SPLITS_AT_ONCE; i++) {
            const int split = first + i;
            const float weight = __shfl_sync(
                ALL_LANES, split < WARP_LANES ? weights->of_split[0] : weights->of_split[1],
                split % WARP_LANES);
#pragma unroll
            for (int d = 0; d < LANE_DIMS; d++)
                sums[d] = split < splits ? fmaf(weight, values[i][d], sums[d]) : sums[d];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    attention_args unpacked = args;
    unpacked.packed_heads.divisor = 1;
    unpacked.packed_heads.magic = 0;
    const int head = (int)blockIdx.y;
    const sequence_share share =
        find_share(&unpacked, args.first_batch + (int)blockIdx.z, head);
    const int row = (int)blockIdx.x * WARPS + warp_id();
    if (row >= share.rows)
        return;
    const long long rows = (long long)args.batch * args.q_heads * args.q_length;
    const long long first = ((long long)share.batch * args.q_heads + head) * args.q_length + row;

    const split_weights weights = weigh_splits(&args, rows, first);
    unpacked.more.dropout_scale = 1.0f; /* each share's output has it */
    const row_end end = finish_row(&unpacked, weights.largest, weights.sum, head, 1);
    const long long index = q_index(&unpacked, &share, STRIDES(&args, out), row);
    for (int first_dim = 0; first_dim < args.value_dim; first_dim += LANE_DIMS * WARP_LANES) {
        float sums[LANE_DIMS];
        add_splits(&args, &weights, rows, first, first_dim + lane_id(), sums);
#pragma unroll
        for (int i = 0; i < LANE_DIMS; i++) {
            const int dim = first_dim + lane_id() + i * WARP_LANES;
            if (dim < args.value_dim)
                store_element(&args, index + dim * STRIDES(&args, out)->dim, sums[i] * end.factor);
        }
    }
    if (lane_id() == 0)
        store_lse(&unpacked, &share, row, end);
}
