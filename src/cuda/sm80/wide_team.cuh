/* wide_team.cuh: what the four warps of a team of wide.cu share: what exponents of a row are relative
 * to, its weights, and its end.
 *
 * Two warps have scores of a row, each of half of a tile's keys; all four have sums of it, each of
 * some dims. */
#ifndef FC_SM80_WIDE_TEAM_CUH
#define FC_SM80_WIDE_TEAM_CUH

#include "ptx_barrier.cuh"
#include "sm80/features.cuh"
#include "sm80/store.cuh"

/* 1. Shared memory. */

typedef struct shared_tiles {
    element q[QUERY_TILE * HEAD_DIM]; /* at the end the result */
    element slots[SLOTS][KV_TILE * HEAD_DIM];
    element weights[QUERY_TILE * KV_TILE];
    float halves[2][QUERY_TILE]; /* of the scores of each half of a tile's keys: largest, or sums */
    float rows[QUERY_TILE];      /* what sums of a row shrink by; at the end, its factor */
    int not_finite[TEAM_WARPS][QUERY_TILE]; /* of a warp's dims of a row */
    int wrong[QUERY_TILE];                  /* 1: the row is to be computed again */
} shared_tiles;

/* What a warp works on. Rows are counted in the block. */
typedef struct warp_share {
    const attention_args *args;
    const sequence_share *share;
    shared_tiles *shared;
    int late; /* 1: of the second team */
    int block_row;
    int team_row;  /* the first of the team */
    int score_row; /* the first that it scores */
    int score_key; /* of a tile, the first that it scores */
    int first_dim; /* of the values */
    float scale_log2;
} warp_share;

static __device__ __forceinline__ void meet_team(const warp_share *warp)
{
    barrier_wait_apart(2 + warp->late, TEAM_THREADS);
}

/* 2. Tile by tile. */

/* Exponents become relative to the largest score of a row so far: two warps have scores of it, and
 * all four of the team have sums of it to shrink. */
static __device__ __forceinline__ void move_team_maximum(
    const warp_share *warp, const float scores[ROW_GROUPS][SCORE_TILES][4],
    float out[OUT_GROUPS][WARP_TILES][4], softmax_state *softmax, float base[LANE_ROWS])
{
    shared_tiles *shared = warp->shared;
    const int half = warp->score_key / SCORE_KEYS;
    float largest[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        largest[r] = quad_max(lane_maximum(scores, r, 0, SCORE_TILES, negative_infinity()));
        if (lane_id() % 4 == 0)
            shared->halves[half][warp->score_row + lane_row(r)] = largest[r];
    }
    meet_team(warp);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = warp->score_row + lane_row(r);
        const float both = fmaxf(largest[r], shared->halves[1 - half][row]);
        const float new_max = fmaxf(softmax->max[r], both * warp->scale_log2);
        base[r] = exponent_base(new_max);
        const float correction = exp2_approx(softmax->max[r] - base[r]);
        softmax->max[r] = new_max;
        softmax->sum[r] *= correction;
        if (half == 0 && lane_id() % 4 == 0)
            shared->rows[row] = correction;
    }
    meet_team(warp);
#pragma unroll
    for (int i = 0; i < OUT_GROUPS * 2; i++) {
        const float correction = shared->rows[warp->team_row + i * 8 + lane_id() / 4];
#pragma unroll
        for (int n = 0; n < WARP_TILES * 2; n++)
            out[i / 2][n / 2][i % 2 * 2 + n % 2] *= correction;
    }
}

/* Weights as they are multiplied, two neighbours in a word; and what rounding took away of them, for
 * rows that see few keys. A hidden key's -0 stays what it is. */
typedef struct packed_weights {
    unsigned word[ROW_GROUPS][SCORE_TILES][2];
} packed_weights;

static __device__ __forceinline__ void pack_weights(const float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    packed_weights *weights)
{
#pragma unroll
    for (int i = 0; i < TILE_SCORES / 2; i++) {
        const float *pair = &scores[i / (2 * SCORE_TILES)][i / 2 % SCORE_TILES][i % 2 * 2];
        weights->word[i / (2 * SCORE_TILES)][i / 2 % SCORE_TILES][i % 2] =
            pack_elements(pair[0], pair[1]);
    }
}

static __device__ __forceinline__ float rest_of(float weight, unsigned rounded)
{
    return __float_as_uint(weight) == 0x80000000u
               ? weight
               : weight - element_to_f32((element)(rounded & 0xffffu));
}

static __device__ __forceinline__ void pack_rest(const float scores[ROW_GROUPS][SCORE_TILES][4],
                                                 const packed_weights *weights,
                                                 packed_weights *rest)
{
#pragma unroll
    for (int i = 0; i < TILE_SCORES / 2; i++) {
        const int group = i / (2 * SCORE_TILES), n = i / 2 % SCORE_TILES;
        const float *pair = &scores[group][n][i % 2 * 2];
        const unsigned rounded = weights->word[group][n][i % 2];
        rest->word[group][n][i % 2] =
            pack_elements(rest_of(pair[0], rounded), rest_of(pair[1], rounded >> 16));
    }
}

/* For the team, which is done with those of the tile before. */
static __device__ __forceinline__ void leave_weights(const warp_share *warp,
                                                     const packed_weights *weights)
{
    element *first = tile_element(warp->shared->weights + warp->score_row * KV_TILE, KV_TILE,
                                  lane_id() / 4, warp->score_key + lane_id() % 4 * 2);
#pragma unroll
    for (int i = 0; i < TILE_SCORES / 2; i++) {
        const int group = i / (2 * SCORE_TILES), n = i / 2 % SCORE_TILES;
        *(unsigned *)(columns_on(first, n * 8) + (group * 16 + i % 2 * 8) * KV_TILE) =
            weights->word[group][n][i % 2];
    }
}

/* 3. The end. */

/* Tells of the team's rows which have sums that are infinite or NaN. Such a row is wrong: a weight was
 * larger than an element can hold, or a value that the row does not see was NaN or infinite, or the
 * first scores were all -inf. */
static __device__ __forceinline__ void find_wrong(const warp_share *warp,
                                                  const float out[OUT_GROUPS][WARP_TILES][4])
{
    int *rows = warp->shared->not_finite[warp->first_dim / WARP_DIMS] + warp->team_row;
#pragma unroll
    for (int i = 0; i < OUT_GROUPS * 2; i++) {
        const unsigned lanes = lanes_not_finite(out[i / 2], WARP_TILES, i % 2);
        if (lane_id() % 4 == 0)
            rows[i * 8 + lane_id() / 4] = (lanes >> lane_id() & 15) != 0;
    }
}

/* The warps' sums and maxima of a row meet. */
static __device__ __forceinline__ void join_rows(const warp_share *warp,
                                                 const softmax_state *softmax)
{
    shared_tiles *shared = warp->shared;
    const int half = warp->score_key / SCORE_KEYS;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = warp->score_row + lane_row(r);
        const float sum = quad_sum(softmax->sum[r]);
        if (lane_id() % 4 == 0) {
            shared->halves[half][row] = sum;
            if (half == 0)
                shared->rows[row] = softmax->max[r];
        }
    }
    meet_team(warp);
}

/* Whether the row is stored now: where it came out right at first, or where it had not. */
static __device__ __forceinline__ int is_stored(const warp_share *warp, int row, int careful)
{
    return warp->block_row + row < warp->share->rows && warp->shared->wrong[row] == careful;
}

/* A thread a row: its factor, and its LSE. The first time a sum has to leave room: the reciprocal of
 * more than 2^126 counts as 0. */
static __device__ __forceinline__ void end_rows(const warp_share *warp, int careful)
{
    shared_tiles *shared = warp->shared;
    const int row = warp->team_row + thread_id() % TEAM_THREADS;
    if (thread_id() % TEAM_THREADS < TEAM_ROWS) {
        const float sum = shared->halves[0][row] + shared->halves[1][row];
        if (!careful)
            shared->wrong[row] = shared->not_finite[0][row] | shared->not_finite[1][row] |
                                 shared->not_finite[2][row] | shared->not_finite[3][row] |
                                 (0.0f * (0x1p2f * sum) != 0.0f);
        const row_end end =
            finish_row(warp->args, shared->rows[row], sum, warp->share->head, !ALL_KEYS);
        if (is_stored(warp, row, careful))
            store_lse(warp->args, warp->share, warp->block_row + row, end);
        shared->rows[row] = end.factor;
    }
    meet_team(warp);
}

/* A warp's dims of all rows go through its part of the team's queries to become 16-byte stores. */
static __device__ __forceinline__ void store_rows(const warp_share *warp, int careful,
                                                  const float out[OUT_GROUPS][WARP_TILES][4])
{
    enum { ROW_CHUNKS = WARP_DIMS / CHUNK, ROWS_AT_ONCE = WARP_LANES / ROW_CHUNKS };
    const attention_args *args = warp->args;
    element *tile =
        warp->shared->q + warp->team_row * HEAD_DIM + warp->first_dim * TEAM_ROWS;
    element *first = tile_element(tile, WARP_DIMS, lane_id() / 4, lane_id() % 4 * 2);
#pragma unroll
    for (int i = 0; i < OUT_GROUPS * 2; i++) {
        const float factor = warp->shared->rows[warp->team_row + i * 8 + lane_id() / 4];
#pragma unroll
        for (int n = 0; n < WARP_TILES; n++)
            *(unsigned *)(columns_on(first, n * 8) + i * 8 * WARP_DIMS) =
                pack_elements(out[i / 2][n][i % 2 * 2] * factor,
                              out[i / 2][n][i % 2 * 2 + 1] * factor);
    }
    __syncwarp();
    const int column = lane_id() % ROW_CHUNKS * CHUNK;
    if (warp->first_dim + column >= args->value_dim)
        return;
#pragma unroll 4
    for (int i = lane_id() / ROW_CHUNKS; i < TEAM_ROWS; i += ROWS_AT_ONCE) {
        const int row = warp->team_row + i;
        if (is_stored(warp, row, careful))
            store_global_16((element *)args->out +
                                q_index(args, warp->share, STRIDES(args, out),
                                        warp->block_row + row) +
                                warp->first_dim + column,
                            *(uint4 *)tile_element(tile, WARP_DIMS, i, column));
    }
}

#endif
