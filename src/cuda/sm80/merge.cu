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

extern "C" __global__ void __launch_bounds__(THREADS)
    KERNEL_NAME(const __grid_constant__ line_aligned_args args)
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

    float largest = negative_infinity(), sum = 0.0f;
    for (int split = 0; split < args.splits.divisor; split++)
        largest = fmaxf(largest, args.partial_lse[split * rows + first]);
    const float base = exponent_base(largest);
    for (int split = 0; split < args.splits.divisor; split++)
        sum += exp2_approx(args.partial_lse[split * rows + first] - base);
    unpacked.more.dropout_scale = 1.0f; /* each share's output has it */
    const row_end end = finish_row(&unpacked, largest, sum, head, 1);

    const long long index = q_index(&unpacked, &share, STRIDES(&args, out), row);
    for (int dim = lane_id(); dim < args.value_dim; dim += WARP_LANES) {
        float value = 0.0f;
        for (int split = 0; split < args.splits.divisor; split++) {
            const long long part = split * rows + first;
            value += exp2_approx(args.partial_lse[part] - base) *
                     args.partial_out[part * partial_stride(&args) + dim];
        }
        store_element(&args, index + dim * STRIDES(&args, out)->dim, value * end.factor);
    }
    if (lane_id() == 0)
        store_lse(&unpacked, &share, row, end);
}
