/* fixed.cuh: latency.cu's only tile of keys where nobody looks for the largest score.
 *
 * Weights are exp2(score - FIXED_EXPONENT), whatever the scores are, so that the first keys are
 * weighed while the others are multiplied and the values come. Where a row's sum says that weights
 * did not fit their type, its warp computes the row once more, relative to its largest score; each
 * row goes by its own sum.
 *
 * Relative to the largest score the largest weight is exactly 1. Here it is rounded, which shows
 * where few keys have nearly all the weight. So rows are divided by the sum of what is multiplied,
 * rounded weights; LSE is made of the sum of the weights themselves. */
#ifndef FC_SM90_FIXED_CUH
#define FC_SM90_FIXED_CUH

#include "sm90/scores.cuh"

/* f16 holds weights up to 2¹⁶, so that a row's LSE may be 20 · ln 2 = 13.9. Weights keep all their bits
 * down to 2⁻¹⁴; where what rounding takes from them counts too, that has to have some. */
#define FIXED_EXPONENT 5.0f
#if ELEMENT_BF16
#define MOST_SUM 0x1p100f
#define LEAST_MEAN 0x1p-100f
#define LEAST_MEAN_OF_FEW LEAST_MEAN
#else
#define MOST_SUM 0x1p15f
#define LEAST_MEAN 0x1p-14f
#define LEAST_MEAN_OF_FEW 0x1p-10f
#endif

#define PIECE_GROUPS (PIECE / GROUP_KEYS)
#define ONES (ELEMENT_BF16 ? 0x3f803f80u : 0x3c003c00u)

typedef struct fixed_tile {
    tile_ends ends;
    float divisor[LANE_ROWS]; /* of a row's values */
    int fits[LANE_ROWS];      /* 1: its weights fit their type */
} fixed_tile;

/* 1. All rows, relative to the constant. */

/* Until at most so many groups of products are under way: a constant where the caller is unrolled.
 */
static __device__ __forceinline__ void wait_for_products(int pending)
{
    switch (pending) {
    case 0: wgmma_wait(0); break;
    case 1: wgmma_wait(1); break;
    case 2: wgmma_wait(2); break;
    case 3: wgmma_wait(3); break;
    case 4: wgmma_wait(4); break;
    default: wgmma_wait(5); break;
    }
}

/* 0, which the compiler cannot know. Exponentials that nothing needs at once it would move behind
 * the wait for the values. */
static __device__ __forceinline__ int zero_after(float sum)
{
    return (int)(__float_as_uint(sum) >> 31) & (sum < 0x1p127f);
}

/* Sums of rounded weights, by products with ones, for which the tensor cores have time: two, so
 * that one product need not wait for the other. */
typedef float rounded_sums[2][4];

static __device__ __forceinline__ void add_rounded(rounded_sums sums, group_weights weights,
                                                   int group)
{
#pragma unroll
    for (int step = 0; step < GROUP_STEPS; step++) {
        const int i = group * GROUP_STEPS + step;
        mma_elements(sums[i % 2], weights[step], ONES, ONES, i < 2);
    }
}

/* Scores of the first `keys` keys become weights, and these are multiplied with their values: not
 * waited for. */
static __device__ __forceinline__ void weigh_tile(out_sums out, softmax_state *softmax,
                                                  fixed_tile *tile, float scale_log2,
                                                  shared_tiles *shared, int keys, int count_rest)
{
    const float base[LANE_ROWS] = {FIXED_EXPONENT, FIXED_EXPONENT};
    score_sums scores;
    group_weights weights[GROUPS], rest[GROUPS];
    rounded_sums rounded = {};
    const int pieces = (keys + PIECE - 1) / PIECE;
    int started = 0; /* products of values */
#pragma unroll
    for (int piece = 0; piece < pieces; piece++)
        start_scores(scores, &tile->ends, shared, 0, 0, piece);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const int piece = group / PIECE_GROUPS, first_key = group * GROUP_KEYS;
        if (first_key >= keys)
            continue; /* nobody sees them */
        if (group % PIECE_GROUPS == 0)
            wait_for_products(pieces - 1 - piece + started);
        exponentiate(scores, softmax, base, scale_log2, first_key / 2,
                     (first_key + GROUP_KEYS) / 2);
        round_group(weights[group], rest[group], scores, group, count_rest);
        if (!count_rest)
            add_rounded(rounded, weights[group], group);
        if (group < PIECE_GROUPS - 1)
            continue; /* the values may still be on their way */
        if (group == PIECE_GROUPS - 1)
            mbarrier_wait(&shared->v_full[0], zero_after(softmax->sum[0] + softmax->sum[1]));
        /* Of the first piece all, and then one after the other. */
#pragma unroll
        for (int ready = 0; ready < GROUPS; ready++) {
            if (ready > group || (ready < group && group >= PIECE_GROUPS))
                continue;
            start_values(out, weights[ready], shared, 0, ready, ready == 0);
            started++;
            if (count_rest) {
                start_values(out, rest[ready], shared, 0, ready, 0);
                started++;
            }
        }
    }
#pragma unroll
    for (int piece = pieces; piece < PIECES; piece++)
        mbarrier_wait(&shared->k_full[0][piece], 0); /* the block may not end before they are there */
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        softmax->sum[r] = quad_sum(softmax->sum[r]);
        tile->divisor[r] = count_rest ? softmax->sum[r] : rounded[0][r * 2] + rounded[1][r * 2];
    }
}

/* Of a row that sees so many keys. NaN does not fit. */
static __device__ __forceinline__ int weights_fit(float sum, int keys)
{
    const float least = ALL_KEYS || keys >= FEW_KEYS ? LEAST_MEAN : LEAST_MEAN_OF_FEW;
    return keys <= 0 || (sum <= MOST_SUM && sum >= (float)keys * least);
}

static __device__ __forceinline__ void add_fixed_tile(const attention_args *args,
                                                      const block_work *w, shared_tiles *shared,
                                                      int warp_row, float scale_log2, out_sums out,
                                                      softmax_state *softmax, fixed_tile *tile,
                                                      int count_rest)
{
    int sees[LANE_ROWS];
    tile->ends = find_ends(args, w, warp_row, w->first_tile * KV_TILE);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        sees[r] = w->tiles > 0 ? min(tile->ends.end[r] + lane_id() % 4 * 2, KV_TILE) : 0;
        softmax->max[r] = sees[r] > 0 ? FIXED_EXPONENT : negative_infinity();
        softmax->sum[r] = tile->divisor[r] = 0.0f;
    }
    if (w->tiles > 0) {
        if (count_rest)
            weigh_tile(out, softmax, tile, scale_log2, shared, KEYS_OF_FEW, 1);
        else
            weigh_tile(out, softmax, tile, scale_log2, shared, KV_TILE, 0);
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        tile->fits[r] = weights_fit(softmax->sum[r], sees[r]);
}

/* 2. Rows that do not fit, relative to their largest score: by one warp, of what still lies in
 * shared memory, 16 keys at a time, twice. */

/* Scores of 16 keys, as score tiles 0 and 1. */
static __device__ __forceinline__ void score_keys(score_sums scores, shared_tiles *shared,
                                                  int first_key, const int end[LANE_ROWS])
{
    element *q = shared->q[group_id()] + warp_in_group() * WARP_ROWS * HEAD_DIM;
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++) {
        unsigned query[ROW_GROUPS][4];
        load_query_step(query, q, step);
        score_step(scores, query, shared->k[0][0] + first_key * HEAD_DIM, step, 0, 2, step == 0);
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        hide_from(scores, r, 0, 2, end[r] - first_key);
}

static __device__ __forceinline__ void find_largest(softmax_state *softmax, float base[LANE_ROWS],
                                                    shared_tiles *shared, const fixed_tile *tile,
                                                    float scale_log2)
{
    float largest[LANE_ROWS] = {negative_infinity(), negative_infinity()};
    score_sums scores;
#pragma unroll 1
    for (int key = 0; key < KV_TILE; key += 16) {
        score_keys(scores, shared, key, tile->ends.end);
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            largest[r] = lane_maximum(scores, r, 0, 2, largest[r]);
    }
    forget(softmax);
    set_maximum(largest, softmax, base, scale_log2);
}

static __device__ __forceinline__ void compute_exactly(out_sums out, softmax_state *softmax,
                                                       fixed_tile *tile, shared_tiles *shared,
                                                       float scale_log2)
{
    out_sums exact_out = {};
    softmax_state exact;
    float base[LANE_ROWS];
    score_sums scores;
    find_largest(&exact, base, shared, tile, scale_log2);
#pragma unroll 1
    for (int key = 0; key < KV_TILE; key += 16) {
        element *values = shared->v[0][0] + key * VALUE_DIM;
        score_keys(scores, shared, key, tile->ends.end);
        exponentiate(scores, &exact, base, scale_log2, 0, STEP_SCORES);
        value_step(exact_out, scores, values, 0, 0, &exact, base, scale_log2);
        value_step_rest(exact_out, scores, values, 0);
    }
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float sum = quad_sum(exact.sum[r]);
        softmax->max[r] = tile->fits[r] ? softmax->max[r] : exact.max[r];
        softmax->sum[r] = tile->fits[r] ? softmax->sum[r] : sum;
        tile->divisor[r] = tile->fits[r] ? tile->divisor[r] : sum;
#pragma unroll
        for (int i = 0; i < OUT_TILES * 2; i++) {
            float *kept = &out[0][i / 2][r * 2 + i % 2];
            *kept = tile->fits[r] ? *kept : exact_out[0][i / 2][r * 2 + i % 2];
        }
    }
}

#endif
