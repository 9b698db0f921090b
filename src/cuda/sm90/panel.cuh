/* panel.cuh: operands of wgmma in shared memory, as tensor maps with a swizzle of 128 bytes put them.
 *
 * A tile of rows lies in panels of 64 dims: panel after panel, in each row after row of 128 bytes
 * whose 16-byte chunk c lies at c ^ (row % 8). Panels begin at multiples of 1024 bytes. */
#ifndef FC_SM90_PANEL_CUH
#define FC_SM90_PANEL_CUH

#include "ptx_bulk.cuh"
#include "ptx_wgmma.cuh"
#include "sm80/problem.cuh"

#define PANEL_DIMS 64
#define PANELS(dims) (((dims) + PANEL_DIMS - 1) / PANEL_DIMS) /* the last may be half empty */
#define PANELS_DIMS(dims) (PANELS(dims) * PANEL_DIMS)

/* Descriptors count in units of 16 bytes. */
#define PANEL_UNITS(rows) ((rows) * PANEL_DIMS * 2 / 16)

#define WGMMA_NAME_EXPANDED(what, columns, type) wgmma_##what##_n##columns##_##type
#define WGMMA_NAME(what, columns, type) WGMMA_NAME_EXPANDED(what, columns, type)
#if ELEMENT_BF16
#define WGMMA_SCORES(columns) WGMMA_NAME(scores, columns, bf16)
#define WGMMA_VALUES(columns) WGMMA_NAME(values, columns, bf16)
#else
#define WGMMA_SCORES(columns) WGMMA_NAME(scores, columns, f16)
#define WGMMA_VALUES(columns) WGMMA_NAME(values, columns, f16)
#endif

/* Rows along the sum: Q and K. Step 16 dims on: 32 bytes, or the next panel. */
static __device__ __forceinline__ unsigned long long along_descriptor(const element *tile)
{
    return matrix_descriptor(tile, 0, 1024, SWIZZLE_128);
}

static __device__ __forceinline__ int along_step(int step, int rows)
{
    return step / 4 * PANEL_UNITS(rows) + step % 4 * 2;
}

/* Rows across the sum: V. A step is 16 rows. */
static __device__ __forceinline__ unsigned long long across_descriptor(const element *tile,
                                                                       int rows)
{
    return matrix_descriptor(tile, rows * PANEL_DIMS * 2, 1024, SWIZZLE_128);
}

static __device__ __forceinline__ int across_step(int step)
{
    return PANEL_UNITS(step * 16);
}

/* The maps of packed rows know one sequence. */
static __device__ __forceinline__ int map_batch(const sequence_share *share, const int *cumulative)
{
    return LENGTHS_IN_MEMORY && cumulative ? 0 : share->batch;
}

static __device__ __forceinline__ int is_paged(const attention_args *args)
{
    return FEATURES && args->more.page_size.divisor;
}

/* Where the first of a box of keys lies in the tensor maps, whose last axis is the pages or else the
 * batch. Behind the end of a sequence there may be no page: any will do. */
static __device__ __forceinline__ page_place find_box(const attention_args *args,
                                                      const sequence_share *share, int key)
{
    if (is_paged(args))
        return find_page(args, share, min(key, share->kv_rows - 1));
    page_place place;
    place.page = map_batch(share, args->cu_kv);
    place.row = share->kv_first + key;
    return place;
}

/* Whether something else lies behind the keys of a sequence; otherwise tensor maps end with them, and
 * give 0. */
static __device__ __forceinline__ int has_neighbours(const attention_args *args)
{
    return (LENGTHS_IN_MEMORY && (args->cu_kv || args->kv_lengths)) || is_paged(args);
}

/* A weight of 0 does not hide a value that is NaN: rows of a tile from `first` on become 0. By several
 * threads, which meet before they multiply. */
static __device__ __forceinline__ void clear_rows(element *tile, int rows, int dims, int first,
                                                  int thread, int threads)
{
#pragma unroll
    for (int panel = 0; panel < PANELS(dims); panel++)
#pragma unroll 1
        for (int i = first * PANEL_DIMS + thread * CHUNK; i < rows * PANEL_DIMS;
             i += threads * CHUNK)
            *(uint4 *)(tile + panel * rows * PANEL_DIMS + i) = make_uint4(0, 0, 0, 0);
    fence_async();
}

/* By one thread: a box of rows from all panels of a tile, which has `rows` of them. */
static __device__ __forceinline__ void load_panels(element *tile, const tensor_map *map, int rows,
                                                   int dims, int row, int head, int batch,
                                                   mbarrier *barrier)
{
#pragma unroll
    for (int panel = 0; panel < PANELS(dims); panel++)
        tensor_load(tile + panel * rows * PANEL_DIMS, map, panel * PANEL_DIMS, row, head, batch,
                    barrier);
}

#endif
