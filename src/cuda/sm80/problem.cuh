/* problem.cuh: which sequence, heads, rows and keys a block works on, and where they lie.
 *
 * Rows are counted packed: where the query heads of one KV head share a tile (args.packed_heads),
 * packed row r is row r / packed_heads of head r % packed_heads. */
#ifndef FC_SM80_PROBLEM_CUH
#define FC_SM80_PROBLEM_CUH

#include "attention_args.h"
#include "sm80/element.cuh"

/* 1: any strides, paged keys, and whatever changes scores or weights. */
#ifndef FEATURES
#define FEATURES 0
#endif

/* 1: rows see all keys, in whole tiles, and out has a tensor map where maps are used. */
#ifndef ALL_KEYS
#define ALL_KEYS 0
#endif

/* 1: rows see the keys from the first to one that depends on the row, and nobody looks for other
 * limits. */
#ifndef ONLY_FIRST_KEYS
#define ONLY_FIRST_KEYS 0
#endif

/* With either no heads share a tile, no lengths lie in memory, and there are no sinks and no negative
 * scale. */
#define ROWS_ALONE (ALL_KEYS || ONLY_FIRST_KEYS)

/* 0: args.packed_heads is 1, and nobody looks. */
#ifndef HEADS_SHARE_TILES
#define HEADS_SHARE_TILES (!ROWS_ALONE)
#endif

/* 0: no lengths lie in memory, and nobody looks. */
#ifndef LENGTHS_IN_MEMORY
#define LENGTHS_IN_MEMORY (!ROWS_ALONE)
#endif

static __device__ __forceinline__ int divide(int number, fast_divisor by)
{
    return by.magic ? (int)(__umulhi((unsigned)number, by.magic) >> by.shift) : number;
}

/* The same of a number that all threads have. Uniform registers can be multiplied like this, but not by
 * __umulhi, so that the result takes no register of a thread. */
static __device__ __forceinline__ int divide_uniform(int number, fast_divisor by)
{
    const unsigned long long product = (unsigned long long)(unsigned)number * by.magic;
    return by.magic ? (int)((unsigned)(product >> 32) >> by.shift) : number;
}

static __device__ __forceinline__ int remainder_of(int number, fast_divisor by)
{
    return number - divide(number, by) * by.divisor;
}

typedef struct sequence_share {
    int batch;
    int head; /* the first query head of the tile */
    int kv_head;
    int rows; /* packed rows of the sequence */
    int kv_rows;
    int shift;             /* row i stands at key i + shift */
    int q_first, kv_first; /* rows of the packed tensor before this sequence */
} sequence_share;

/* The index arrays are the caller's, in device memory that nobody has checked: whatever they hold,
 * no row outside the tensors is touched. */
static __device__ __forceinline__ int clamp_int(int value, int least, int most)
{
    return max(least, min(value, most));
}

static __device__ __forceinline__ int sequence_span(const int *cumulative, int batch, int longest,
                                                    int all_rows, int *first)
{
    const int begin = clamp_int(cumulative[batch], 0, all_rows);
    *first = begin;
    return clamp_int(cumulative[batch + 1] - begin, 0, min(longest, all_rows - begin));
}

static __device__ __forceinline__ int first_head(const attention_args *args, int head_group)
{
    return HEADS_SHARE_TILES ? head_group * args->packed_heads.divisor : head_group;
}

static __device__ __forceinline__ sequence_share find_share(const attention_args *args, int batch,
                                                            int head_group)
{
    sequence_share share;
    share.batch = batch;
    share.head = first_head(args, head_group);
    share.kv_head = divide(share.head, args->heads_per_kv);
    share.rows = args->q_length;
    share.kv_rows = args->kv_length;
    share.q_first = share.kv_first = 0;
    if (LENGTHS_IN_MEMORY && args->cu_q)
        share.rows =
            sequence_span(args->cu_q, batch, args->q_length, args->packed_q_rows, &share.q_first);
    if (LENGTHS_IN_MEMORY && args->cu_kv)
        share.kv_rows = sequence_span(args->cu_kv, batch, args->kv_length, args->packed_kv_rows,
                                      &share.kv_first);
    if (LENGTHS_IN_MEMORY && args->kv_lengths)
        share.kv_rows = clamp_int(args->kv_lengths[batch], 0, args->kv_length);
    share.shift = args->top_left ? 0 : share.kv_rows - share.rows;
    if (HEADS_SHARE_TILES)
        share.rows *= args->packed_heads.divisor;
    return share;
}

/* Which rows block `number` of grid.x takes. Where blocks come in groups of sequences, of a group those
 * come first that see the most keys: a long block that started last would be waited for. Where all rows
 * see all keys there are no groups. */
typedef struct block_place {
    int tile;
    int batch; /* more than there are: nothing to do */
    int head_group;
} block_place;

static __device__ __forceinline__ block_place find_place(const attention_args *args, int number)
{
    const int from_end = (int)gridDim.x - 1 - number;
    block_place place;
    if (ALL_KEYS) {
        place.tile = from_end;
        place.batch = args->first_batch + (int)blockIdx.z;
        place.head_group = (int)blockIdx.y;
        return place;
    }
    place.tile = divide_uniform(from_end, args->sequences);
    const int sequence = ((int)blockIdx.y - place.tile) * args->sequences.divisor + from_end;
    place.batch = divide_uniform(sequence, args->head_groups);
    place.head_group = sequence - place.batch * args->head_groups.divisor;
    return place;
}

static __device__ __forceinline__ int row_of(const attention_args *args, int packed_row)
{
    return HEADS_SHARE_TILES ? divide(packed_row, args->packed_heads) : packed_row;
}

static __device__ __forceinline__ int head_of(const attention_args *args,
                                              const sequence_share *share, int packed_row)
{
    return HEADS_SHARE_TILES ? share->head + remainder_of(packed_row, args->packed_heads)
                             : share->head;
}

/* Strides count elements where FEATURES is 1, else chunks, which need one instruction a product. */
#if FEATURES
typedef element_strides tensor_strides;
#define STRIDE_UNIT 1
#define STRIDES(args, tensor) (&(args)->more.tensor##_strides)
#define DIM_STRIDE(strides) ((strides)->dim)
#else
typedef row_strides tensor_strides;
#define STRIDE_UNIT CHUNK
#define STRIDES(args, tensor) (&(args)->tensor##_chunks)
#define DIM_STRIDE(strides) 1
#endif

static __device__ __forceinline__ long long times_stride(int number, long long stride)
{
    return FEATURES ? number * stride : (long long)number * (int)stride;
}

/* Index of the first element of a packed row in Q or out. */
static __device__ __forceinline__ long long q_index(const attention_args *args,
                                                    const sequence_share *share,
                                                    const tensor_strides *strides,
                                                    int packed_row)
{
    return STRIDE_UNIT *
           (times_stride(share->batch, strides->batch) +
            times_stride(head_of(args, share, packed_row), strides->head) +
            times_stride(share->q_first + row_of(args, packed_row), strides->row));
}

/* The same of the sequence's first key in K or V, which is not paged. */
static __device__ __forceinline__ long long first_kv_index(const sequence_share *share,
                                                           const tensor_strides *strides)
{
    return STRIDE_UNIT * (times_stride(share->batch, strides->batch) +
                          times_stride(share->kv_head, strides->head) +
                          times_stride(share->kv_first, strides->row));
}

/* Where a key of paged K or V lies. */
typedef struct page_place {
    int page;
    int row;
} page_place;

static __device__ __forceinline__ page_place find_page(const attention_args *args,
                                                       const sequence_share *share, int key)
{
    const int *pages = args->more.page_table + share->batch * args->more.page_table_stride;
    const int index = divide(key, args->more.page_size);
    page_place place;
    place.page = clamp_int(pages[index], 0, args->more.page_count - 1);
    place.row = key - index * args->more.page_size.divisor;
    return place;
}

/* Floats from a row of args.partial_out to the next: whole stores of 16 bytes. */
static __device__ __forceinline__ int partial_stride(const attention_args *args)
{
    return (args->value_dim + 3) / 4 * 4;
}

/* The keys [first, end) that causal and window limits leave to a row. */
static __device__ __forceinline__ int first_key_of(const attention_args *args,
                                                   const sequence_share *share, int row)
{
    return ONLY_FIRST_KEYS || args->window_left < 0
               ? 0
               : max(0, row + share->shift - args->window_left);
}

static __device__ __forceinline__ int end_key_of(const attention_args *args,
                                                 const sequence_share *share, int row)
{
    return !ONLY_FIRST_KEYS && args->window_right < 0
               ? share->kv_rows
               : min(share->kv_rows, row + share->shift + args->window_right + 1);
}

/* What the rows of a tile see: some of them the keys [first, end), all of them
 * [all_first, all_end). */
typedef struct key_limits {
    int first, end;
    int all_first, all_end;
} key_limits;

static __device__ __forceinline__ key_limits limits_of_rows(const attention_args *args,
                                                            const sequence_share *share,
                                                            int first_packed, int packed_rows)
{
    const int first_row = row_of(args, first_packed);
    const int last_row = row_of(args, min(first_packed + packed_rows, share->rows) - 1);
    key_limits limits;
    limits.first = first_key_of(args, share, first_row);
    limits.end = end_key_of(args, share, last_row);
    limits.all_first = first_key_of(args, share, last_row);
    limits.all_end = end_key_of(args, share, first_row);
    return limits;
}

#endif
