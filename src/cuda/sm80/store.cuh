/* store.cuh: the end of a row: its sum over the lanes, the sink, the division, and the stores. */
#ifndef FC_SM80_STORE_CUH
#define FC_SM80_STORE_CUH

#include "ptx_memory.cuh"
#include "sm80/tile.cuh"

typedef struct row_end {
    float factor; /* of the unnormalised output */
    float max_log2;
    float sum;
} row_end;

/* A sink is one more logit with no value behind it. */
static __device__ __forceinline__ row_end finish_row(const attention_args *args, float max_log2,
                                                     float sum, int head, int add_sink)
{
    row_end end;
    float factor = FEATURES ? args->more.dropout_scale : 1.0f;
    if (add_sink && args->sinks) {
        const float sink = args->sinks[head] * LOG2_E;
        const float new_max = fmaxf(max_log2, sink);
        const float base = exponent_base(new_max);
        const float correction = exp2_approx(max_log2 - base);
        sum = sum * correction + exp2_approx(sink - base);
        factor *= correction;
        max_log2 = new_max;
    }
    end.factor = sum == 0.0f ? 0.0f : factor * reciprocal_approx(sum);
    end.max_log2 = max_log2;
    end.sum = sum;
    return end;
}

/* -inf for a row that saw nothing. */
static __device__ __forceinline__ float lse_log2_of(row_end end)
{
    return end.max_log2 + log2_approx(end.sum);
}

static __device__ __forceinline__ long long lse_index(const attention_args *args,
                                                      const sequence_share *share, int packed_row)
{
    const row_strides *strides = &args->lse_strides;
    return (long long)share->batch * strides->batch +
           (long long)head_of(args, share, packed_row) * strides->head +
           (long long)(share->q_first + row_of(args, packed_row)) * strides->row;
}

static __device__ __forceinline__ void store_lse(const attention_args *args,
                                                 const sequence_share *share, int packed_row,
                                                 row_end end)
{
    if (args->lse)
        args->lse[lse_index(args, share, packed_row)] = lse_log2_of(end) * LN_2;
}

static __device__ __forceinline__ void store_element(const attention_args *args, long long index,
                                                     float value)
{
    if (args->more.out_type == ARGS_F32)
        ((float *)args->out)[index] = value;
    else
        ((unsigned short *)args->out)[index] =
            (unsigned short)(args->more.out_type == ARGS_BF16 ? pack_bf16x2(value, 0.0f)
                                                         : pack_f16x2(value, 0.0f));
}

/* Any layout and type of out: `tiles` × 8 columns from first_dim on, element by element; of the warp's
 * rows those whose bits are set. */
static __device__ __forceinline__ void store_rows_by_element(
    const attention_args *args, const sequence_share *share, int first_row, int first_dim,
    const float (*sums)[4], int tiles, const float factor[LANE_ROWS],
    unsigned rows)
{
    static_assert(!FEATURES || LANE_ROWS == 2, "two rows a lane");
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = first_row + lane_row(r);
        if (row >= share->rows || !(rows >> lane_row(r) & 1))
            continue;
        const long long index = q_index(args, share, STRIDES(args, out), row);
#pragma unroll
        for (int i = 0; i < tiles * 2; i++) {
            const int dim = first_dim + i / 2 * 8 + lane_id() % 4 * 2 + i % 2;
            if (dim < args->value_dim)
                store_element(args, index + dim * DIM_STRIDE(STRIDES(args, out)),
                              sums[i / 2][r % 2 * 2 + i % 2] * factor[r]);
        }
    }
}

/* Columns first_dim … of a warp's rows, held in a swizzled tile of elements, 16 bytes a store; those
 * rows whose bits are set. */
static __device__ __forceinline__ void store_tile(const attention_args *args,
                                                  const sequence_share *share, element *tile,
                                                  int first_row, int first_dim, unsigned rows)
{
    enum { ROW_CHUNKS = VALUE_DIM / CHUNK, ROWS_AT_ONCE = WARP_LANES / ROW_CHUNKS };
    /* Found here: else addresses hold registers through the whole kernel. */
    const unsigned lane = (unsigned)number_now(lane_id());
    const int row = (int)(lane / ROW_CHUNKS), column = (int)(lane % ROW_CHUNKS) * CHUNK;
    if (first_dim + column >= args->value_dim)
        return;
    if (HEADS_SHARE_TILES && args->packed_heads.divisor > 1) {
#pragma unroll 1
        for (int i = row; i < WARP_ROWS; i += ROWS_AT_ONCE)
            if (rows >> i & 1)
                store_global_16((element *)args->out +
                                    q_index(args, share, STRIDES(args, out), first_row + i) +
                                    first_dim + column,
                                *(uint4 *)tile_element(tile, VALUE_DIM, i, column));
        return;
    }
    element *place = (element *)args->out +
                     q_index(args, share, STRIDES(args, out), first_row + row) + first_dim + column;
    const long long apart =
        STRIDE_UNIT * times_stride(ROWS_AT_ONCE, STRIDES(args, out)->row);
    rows >>= row;
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i += ROWS_AT_ONCE) {
        const element *chunk =
            tile_element(tile, VALUE_DIM, i % 8 + row, column) + i / 8 * 8 * VALUE_DIM;
        store_global_16_if(place, *(const uint4 *)chunk, (int)(rows >> i & 1));
        place += apart;
    }
}

#endif
