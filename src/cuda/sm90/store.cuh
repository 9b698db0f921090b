/* store.cuh: rows of the result from the registers of a warpgroup into global memory. */
#ifndef FC_SM90_STORE_CUH
#define FC_SM90_STORE_CUH

#include "sm80/store.cuh"

/* Four lanes hold two each of every eight columns of a row. Where the lane's first of them goes, from
 * first_column on. */
static __device__ __forceinline__ element *lane_place(const attention_args *args,
                                                      const sequence_share *share, int packed_row,
                                                      int first_column)
{
    return (element *)args->out + q_index(args, share, STRIDES(args, out), packed_row) +
           first_column + lane_id() % 4 * 2;
}

/* Those of row r of `tiles` × 8 columns, of which `columns` are there. */
static __device__ __forceinline__ void store_words(element *place, const float (*sums)[4], int r,
                                                   float factor, int tiles, int columns)
{
#pragma unroll
    for (int n = 0; n < tiles; n++)
        if (n * 8 < columns)
            *(unsigned *)(place + n * 8) =
                pack_elements(sums[n][r * 2] * factor, sums[n][r * 2 + 1] * factor);
}

/* A warp's rows × 64 columns as tensor maps with a swizzle of 128 bytes lay them (panel.cuh). Of
 * the sums `tiles` × 8 columns are there, the rest is 0. */
#define PANEL_TILES (PANEL_DIMS / CHUNK)
static __device__ __forceinline__ void write_panel(element *panel, const float (*sums)[4],
                                                   const float factor[LANE_ROWS], int tiles)
{
    const int row = lane_row(0), column = lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < PANEL_TILES; n++)
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            *(unsigned *)(panel + (row + r * 8) * PANEL_DIMS + (n ^ row) * CHUNK + column) =
                n < tiles
                    ? pack_elements(sums[n][r * 2] * factor[r], sums[n][r * 2 + 1] * factor[r])
                    : 0;
}

#endif
