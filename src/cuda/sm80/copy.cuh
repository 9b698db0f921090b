/* copy.cuh: rows of Q, K and V from global memory into swizzled tiles of shared memory.
 *
 * A tile's row has no padding; its 16-byte chunk c lies at c ^ (row % 8), so that the eight rows
 * that one phase of ldmatrix reads fall on different banks. */
#ifndef FC_SM80_COPY_CUH
#define FC_SM80_COPY_CUH

#include "ptx_async.cuh"
#include "sm80/problem.cuh"

static __device__ __forceinline__ element *tile_element(element *tile, int dims, int row,
                                                        int column)
{
    return tile + row * dims + (column ^ row % 8 * CHUNK);
}

/* From an element of a tile's first 16 columns to that of the same row so many on, in steps of 16; or
 * of its first 8, in steps of 8.
 * One address and exclusive ors: each of these found by itself would hold a register. */
static __device__ __forceinline__ element *columns_on(element *at, int columns)
{
    element *origin = SHARED_MEMORY(element);
    return origin + ((int)(at - origin) ^ columns % 64) + columns / 64 * 64;
}

/* Any strides: element by element. */
static __device__ __noinline__ void gather_chunk(element *shared, const element *global,
                                                 long long stride, int count)
{
    for (int i = 0; i < CHUNK; i++)
        shared[i] = i < count ? global[i * stride] : (element)0;
}

/* Copies up to 8 elements of a row, from `column` on; what lies outside becomes 0: memory there may
 * hold NaN, and 0 · NaN is NaN. */
static __device__ __forceinline__ void copy_chunk(const attention_args *args, element *shared,
                                                  const element *row, long long stride, int column,
                                                  int dims, int row_is_there)
{
    if (!FEATURES || args->more.vector_loads)
        cp_async_16_or_zero(shared, row + column, row_is_there && column < dims);
    else
        gather_chunk(shared, row + column * stride, stride, row_is_there ? dims - column : 0);
}

/* Where a sequence's rows lie in Q, K or V of one head; paged ones are looked up row by row. */
typedef struct row_source {
    const element *first; /* row 0, the first dim wanted */
    const tensor_strides *strides;
    long long row_stride, dim_stride; /* two of them, by value: five registers less */
    int dims;  /* from `first` on */
    int paged; /* 1: `first` is row 0 of page 0 */
} row_source;

static __device__ __forceinline__ row_source find_keys(const attention_args *args,
                                                       const sequence_share *share,
                                                       const void *tensor,
                                                       const tensor_strides *strides, int dims,
                                                       int first_dim)
{
    row_source source;
    source.paged = FEATURES && args->more.page_size.divisor;
    source.first = (const element *)tensor +
                   (source.paged ? share->kv_head * strides->head
                                 : first_kv_index(share, strides)) +
                   first_dim * DIM_STRIDE(strides);
    source.strides = strides;
    source.row_stride = strides->row;
    source.dim_stride = DIM_STRIDE(strides);
    source.dims = dims - first_dim;
    return source;
}

/* From `first` to a row. */
static __device__ __forceinline__ long long row_offset(const attention_args *args,
                                                       const sequence_share *share,
                                                       const row_source *source, int row)
{
    if (!source->paged)
        return STRIDE_UNIT * times_stride(row, source->row_stride);
    const page_place place = find_page(args, share, row);
    return place.page * source->strides->batch + place.row * source->row_stride;
}

#if FEATURES

/* Rows first_row … end_row - 1, tile_rows of them at most, into a tile. */
static __device__ __forceinline__ void copy_rows(const attention_args *args,
                                                 const sequence_share *share,
                                                 const row_source *source, element *tile,
                                                 int tile_rows, int tile_dims, int first_row,
                                                 int end_row, int thread, int threads)
{
    const int chunks = tile_dims / CHUNK;
    for (int i = thread; i < tile_rows * chunks; i += threads) {
        const int row = i / chunks, column = i % chunks * CHUNK;
        const int source_row = min(first_row + row, end_row - 1);
        copy_chunk(args, tile_element(tile, tile_dims, row, column),
                   source->first + row_offset(args, share, source, source_row),
                   source->dim_stride, column, source->dims, first_row + row < end_row);
    }
}

#else

/* Here a thread's chunks lie in one column, a fixed number of rows apart: an address in global memory
 * is one addition, and those in shared memory are few, because the swizzle repeats after eight rows. */
static __device__ __forceinline__ void copy_rows(const attention_args *args,
                                                 const sequence_share *share,
                                                 const row_source *source, element *tile,
                                                 int tile_rows, int tile_dims, int first_row,
                                                 int end_row, int thread, int threads)
{
    const int chunks = tile_dims / CHUNK;
    const int rows_apart = threads / chunks;
    const int row = thread / chunks, column = thread % chunks * CHUNK;
    const int rows_left = column < source->dims ? end_row - first_row - row : 0;
    const element *global =
        source->first + STRIDE_UNIT * times_stride(first_row + row, source->row_stride) + column;
    const long long apart = STRIDE_UNIT * times_stride(rows_apart, source->row_stride);
#pragma unroll
    for (int first = 0; first < tile_rows; first += rows_apart) {
        if (rows_apart <= tile_rows || row < tile_rows)
            cp_async_16_or_zero(tile_element(tile, tile_dims, first % 8 + row, column) +
                                    first / 8 * 8 * tile_dims,
                                global, first < rows_left);
        global += apart;
    }
}

#endif

/* Query rows first_row … of the sequence. Where heads are packed, a tile's rows come from several
 * of them. */
static __device__ __forceinline__ void copy_queries(const attention_args *args,
                                                    const sequence_share *share, element *tile,
                                                    int tile_rows, int tile_dims, int first_row,
                                                    int thread, int threads)
{
    const int chunks = tile_dims / CHUNK;
    if (!HEADS_SHARE_TILES || args->packed_heads.divisor == 1) {
        row_source source;
        source.paged = 0;
        source.first = (const element *)args->q + q_index(args, share, STRIDES(args, q), 0);
        source.strides = STRIDES(args, q);
        source.row_stride = STRIDES(args, q)->row;
        source.dim_stride = DIM_STRIDE(STRIDES(args, q));
        source.dims = args->head_dim;
        copy_rows(args, share, &source, tile, tile_rows, tile_dims, first_row, share->rows, thread,
                  threads);
    } else {
#pragma unroll 1
        for (int i = thread; i < tile_rows * chunks; i += threads) {
            const int row = i / chunks, column = i % chunks * CHUNK;
            const int packed_row = min(first_row + row, share->rows - 1);
            copy_chunk(args, tile_element(tile, tile_dims, row, column),
                       (const element *)args->q +
                           q_index(args, share, STRIDES(args, q), packed_row),
                       DIM_STRIDE(STRIDES(args, q)), column, args->head_dim,
                       first_row + row < share->rows);
        }
    }
}

#endif
