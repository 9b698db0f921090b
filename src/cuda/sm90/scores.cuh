/* scores.cuh: what latency.cu does with a tile of keys: its products, what hides keys, weights that
 * are rounded. */
#ifndef FC_SM90_SCORES_CUH
#define FC_SM90_SCORES_CUH

#include "sm90/fetch.cuh"

/* The keys of a tile that rows see, from the lane's first one on: row r those before end[r], all
 * rows of the block those before all. */
typedef struct tile_ends {
    int end[LANE_ROWS];
    int all;
} tile_ends;

/* Whether some row does not see some key of a piece. */
static __device__ __forceinline__ int is_cut(const tile_ends *ends, int piece)
{
    return ends->all < (piece + 1) * PIECE;
}

static __device__ __forceinline__ void hide_ends(score_sums scores, const tile_ends *ends,
                                                 int piece)
{
    if (is_cut(ends, piece))
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            hide_from(scores, r, piece * PIECE_TILES, PIECE_TILES, ends->end[r]);
}

/* Sums of a piece that is cut begin with -inf for keys that a row does not see: found while they
 * are still to come, that takes no time. */
static __device__ __forceinline__ void begin_with_ends(score_sums scores, const tile_ends *ends,
                                                       int piece)
{
#pragma unroll
    for (int i = 0; i < PIECE_TILES * 4; i++)
        scores[0][piece * PIECE_TILES + i / 4][i % 4] = 0.0f;
    hide_ends(scores, ends, piece);
}

static __device__ __forceinline__ void start_scores(score_sums scores, const tile_ends *ends,
                                                    shared_tiles *shared, int stage, int parity,
                                                    int piece)
{
    const unsigned long long left = along_descriptor(shared->q[group_id()]);
    const unsigned long long right = along_descriptor(shared->k[stage][piece]);
    const int cut = HIDES_FIRST && is_cut(ends, piece);
    if (cut)
        begin_with_ends(scores, ends, piece);
    mbarrier_wait(&shared->k_full[stage][piece], parity);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++)
        WGMMA_SCORES(PIECE)
    (&scores[0][piece * PIECE_TILES][0], left + along_step(step, GROUP_ROWS),
     right + along_step(step, PIECE), cut || step > 0);
    wgmma_commit();
}

static __device__ __forceinline__ tile_ends find_ends(const attention_args *args,
                                                      const block_work *w, int warp_row,
                                                      int first_key)
{
    tile_ends ends;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        ends.end[r] =
            (ALL_KEYS ? w->limits.end : end_key_of(args, &w->share, warp_row + lane_row(r))) -
            first_key - lane_id() % 4 * 2;
    ends.all = w->limits.all_end - first_key;
    return ends;
}

/* A group: keys whose weights are found, rounded and multiplied with their values at a time. */
#define GROUPS (KV_TILE / GROUP_KEYS)
#define GROUP_STEPS (GROUP_KEYS / 16)
typedef unsigned group_weights[GROUP_STEPS][4];

/* rest: what rounding took from them, where that counts. */
static __device__ __forceinline__ void round_group(group_weights weights, group_weights rest,
                                                   const score_sums scores, int group,
                                                   int count_rest)
{
#pragma unroll
    for (int i = 0; i < GROUP_STEPS * 4; i++) {
        const float *pair = &scores[0][group * GROUP_STEPS * 2 + i / 2][i % 2 * 2];
        const unsigned rounded = pack_elements(pair[0], pair[1]);
        weights[i / 4][i % 4] = rounded;
        if (count_rest)
            rest[i / 4][i % 4] =
                pack_elements(pair[0] - element_to_f32((element)(rounded & 0xffffu)),
                              pair[1] - element_to_f32((element)(rounded >> 16)));
    }
}

/* A group's weights times their values, added to what out holds unless it `begins`. */
static __device__ __forceinline__ void start_values(out_sums out, group_weights weights,
                                                    shared_tiles *shared, int stage, int group,
                                                    int begins)
{
    const int first_key = group * GROUP_KEYS;
    const unsigned long long right = across_descriptor(shared->v[stage][first_key / PIECE], PIECE);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < GROUP_STEPS; step++)
        WGMMA_VALUES(VALUE_DIM)
    (&out[0][0][0], weights[step], right + across_step(first_key % PIECE / 16 + step),
     !begins || step > 0);
    wgmma_commit();
}

/* Rows that see few keys see these at most: the last of a warpgroup's rows sees GROUP_ROWS - 1 more
 * than the first. */
#define KEYS_OF_FEW (FIRST_KEYS ? min(KV_TILE, 2 * FEW_KEYS) : KV_TILE)

#endif
