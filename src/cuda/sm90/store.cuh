/* store.cuh: rows of the result from the registers of a warpgroup into global memory. */
#ifndef FC_SM90_STORE_CUH
#define FC_SM90_STORE_CUH

#include "sm80/store.cuh"

/* Word i of lane t of four lanes goes to word t of lane i. */
static __device__ __forceinline__ void transpose_quad(unsigned words[4])
{
    const int t = lane_id() % 4;
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit)
                continue;
            const unsigned sent = t & bit ? words[i] : words[i | bit];
            const unsigned got = __shfl_xor_sync(ALL_LANES, sent, bit);
            words[i] = t & bit ? got : words[i];
            words[i | bit] = t & bit ? words[i | bit] : got;
        }
}

/* 32 columns of a row, from first_column on. Four lanes hold 2 of each 8; exchanged, each has 8
 * neighbouring ones, a 16-byte store. */
static __device__ __forceinline__ void store_columns(const attention_args *args, element *row,
                                                     int first_column, const float sums[4][2],
                                                     float factor, int row_is_there)
{
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = pack_elements(sums[i][0] * factor, sums[i][1] * factor);
    transpose_quad(words);
    const int column = first_column + lane_id() % 4 * CHUNK;
    if (row_is_there && column < args->value_dim)
        store_global_16(row + column, make_uint4(words[0], words[1], words[2], words[3]));
}

#endif
