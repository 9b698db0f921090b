/* store.cuh: rows of the result from the registers of a warpgroup into global memory. Four lanes hold
 * two each of every eight columns of a row. */
#ifndef FC_SM90_STORE_CUH
#define FC_SM90_STORE_CUH

#include "sm80/store.cuh"

static __device__ __forceinline__ element *row_place(const attention_args *args,
                                                     const sequence_share *share, int packed_row)
{
    return (element *)args->out + q_index(args, share, STRIDES(args, out), packed_row);
}

/* Row r of `tiles` × 8 columns, of which `columns` are there, as the lanes hold it. */
static __device__ __forceinline__ void store_words(element *place, const float (*sums)[4], int r,
                                                   float factor, int tiles, int columns)
{
#pragma unroll
    for (int n = 0; n < tiles; n++)
        if (n * 8 < columns)
            *(unsigned *)(place + n * 8 + lane_id() % 4 * 2) =
                pack_elements(sums[n][r * 2] * factor, sums[n][r * 2 + 1] * factor);
}

/* The same of sums that are divided already, 16 bytes a lane, for which lanes exchange what they hold.
 * That takes registers, but words take a third of a microsecond longer to get to memory. `columns` is
 * 0 where the row is not there; place is that of chunk lane_id() % 4. */
static __device__ __forceinline__ void store_chunks(element *place, const float (*sums)[4], int r,
                                                    int tiles, int columns)
{
#pragma unroll
    for (int first = 0; first < tiles; first += 4) {
        unsigned words[4];
#pragma unroll
        for (int n = 0; n < 4; n++)
            words[n] = pack_elements(sums[first + n][r * 2], sums[first + n][r * 2 + 1]);
        const uint4 chunk = quad_transpose(words);
        if ((first + lane_id() % 4) * CHUNK < columns)
            store_global_16(place + first * CHUNK, chunk);
    }
}

/* A warp's rows × 64 columns as tensor maps with a swizzle of 128 bytes lay them (panel.cuh). Of
 * the sums `tiles` × 8 columns are there, the rest is 0. */
#define PANEL_TILES (PANEL_DIMS / CHUNK)
static __device__ __forceinline__ void write_panel(element *panel, const float (*sums)[4],
                                                   const float factor[LANE_ROWS], int tiles)
{
    const int row = lane_id() % 16, chunk = lane_id() % 8 ^ lane_id() / 16;
#pragma unroll
    for (int n = 0; n < PANEL_TILES; n += 2) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int tile = n + i / 2, r = i % 2;
            words[i] = tile < tiles ? pack_elements(sums[tile][r * 2] * factor[r],
                                                    sums[tile][r * 2 + 1] * factor[r])
                                    : 0;
        }
        stmatrix_x4(panel + row * PANEL_DIMS + (n ^ chunk) * CHUNK, words);
    }
}

#endif
