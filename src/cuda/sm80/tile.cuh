/* tile.cuh: one warp's step over a tile of keys: scores, softmax, weighted values.
 *
 * A warp owns ROW_GROUPS × 16 query rows. With g = lane / 4 and t = lane % 4, a lane holds of each
 * group the rows g and g + 8, and of each 8 keys or dims the columns 2t, 2t + 1 (ptx_mma.cuh). Rows
 * of a lane are numbered r = 2 · group + (0 or 1). */
#ifndef FC_SM80_TILE_CUH
#define FC_SM80_TILE_CUH

#include "ptx_warp.cuh"
#include "sm80/copy.cuh"

#ifndef ROW_GROUPS
#define ROW_GROUPS 1
#endif
/* 1: exponentials are spread between the matrix instructions of P·V. */
#ifndef INTERLEAVE
#define INTERLEAVE (!FEATURES)
#endif

#define WARP_ROWS (16 * ROW_GROUPS)
#define LANE_ROWS (2 * ROW_GROUPS)
#define OUT_TILES (VALUE_DIM / 8)
#define QUERY_STEPS (HEAD_DIM / 16)
#define STEP_SCORES (8 * ROW_GROUPS) /* that a lane has of 16 keys */
#define TILE_SCORES (ROW_GROUPS * SCORE_TILES * 4)

/* What exponents are relative to: the largest score so far, in base 2, or an earlier one that it did
 * not outgrow; and this lane's part of the sum. */
typedef struct softmax_state {
    float max[LANE_ROWS];
    float sum[LANE_ROWS];
} softmax_state;

/* Weights may grow to 2^8 before everything summed so far is made smaller: they keep all their bits,
 * and after a row's first keys that hardly ever happens. */
#define MAX_GROWTH 8.0f

/* No key seen yet. */
static __device__ __forceinline__ void forget(softmax_state *softmax)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        softmax->max[r] = negative_infinity();
        softmax->sum[r] = 0.0f;
    }
}

static __device__ __forceinline__ int lane_row(int r)
{
    return r / 2 * 16 + r % 2 * 8 + lane_id() / 4;
}

/* Score i of a lane, in any order. */
static __device__ __forceinline__ float *tile_score(float scores[ROW_GROUPS][SCORE_TILES][4], int i)
{
    return &scores[i / (SCORE_TILES * 4)][i / 4 % SCORE_TILES][i % 4];
}

static __device__ __forceinline__ void load_query_step(unsigned query[ROW_GROUPS][4], element *q,
                                                       int step)
{
#pragma unroll
    for (int group = 0; group < ROW_GROUPS; group++)
        ldmatrix_x4(query[group],
                    columns_on(tile_element(q, HEAD_DIM, group * 16 + lane_id() % 16,
                                            lane_id() / 16 * CHUNK),
                               step * 16));
}

/* scores of key_tiles × 8 keys, from score tile first_tile on, += Q·Kᵀ over one step of 16 dims, or
 * = where from_zero is 1. */
static __device__ __forceinline__ void score_step(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  const unsigned query[ROW_GROUPS][4], element *k,
                                                  int step, int first_tile, int key_tiles,
                                                  int from_zero)
{
    /* Matrices in this order make each right operand two neighbouring registers. */
    element *row = columns_on(tile_element(k, HEAD_DIM, lane_id() / 16 * 8 + lane_id() % 8,
                                           lane_id() / 8 % 2 * CHUNK),
                              step * 16);
#pragma unroll
    for (int pair = 0; pair < key_tiles / 2; pair++) {
        unsigned keys[4];
        ldmatrix_x4(keys, row + pair * 16 * HEAD_DIM);
#pragma unroll
        for (int group = 0; group < ROW_GROUPS; group++) {
            mma_elements(scores[group][first_tile + 2 * pair], query[group], keys[0], keys[1],
                         from_zero);
            mma_elements(scores[group][first_tile + 2 * pair + 1], query[group], keys[2], keys[3],
                         from_zero);
        }
    }
}

/* The largest of what was before and the lane's scores of row r in some score tiles. */
static __device__ __forceinline__ float lane_maximum(
    const float scores[ROW_GROUPS][SCORE_TILES][4], int r, int first_tile, int tiles, float before)
{
#pragma unroll
    for (int n = 0; n < tiles; n++) {
        const float *pair = &scores[r / 2][first_tile + n][r % 2 * 2];
        before = fmaxf(before, fmaxf(pair[0], pair[1]));
    }
    return before;
}

/* Whether scores of some row outgrew what its exponents are relative to, agreed on by all lanes. Then
 * new_max is what they are relative to from now on. Each row goes by its own scores alone. */
static __device__ __forceinline__ int outgrow_maximum(
    const float scores[ROW_GROUPS][SCORE_TILES][4], const softmax_state *softmax,
    float new_max[LANE_ROWS], float scale_log2)
{
    int outgrown = 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        new_max[r] =
            lane_maximum(scores, r, 0, SCORE_TILES, negative_infinity()) * scale_log2;
        outgrown |= new_max[r] > softmax->max[r] + MAX_GROWTH;
    }
    if (!__any_sync(ALL_LANES, outgrown))
        return 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float largest = quad_max(new_max[r]);
        new_max[r] = largest > softmax->max[r] + MAX_GROWTH ? largest : softmax->max[r];
    }
    return 1;
}

/* What exponents of a row are taken relative to: 0 where it has seen nothing, because -inf - -inf
 * would be NaN. */
static __device__ __forceinline__ float exponent_base(float max)
{
    return max == negative_infinity() ? 0.0f : max;
}

static __device__ __forceinline__ void find_base(const softmax_state *softmax,
                                                 float base[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        base[r] = exponent_base(softmax->max[r]);
}

/* What was summed of a row, by a factor. */
static __device__ __forceinline__ void shrink_row(float out[ROW_GROUPS][OUT_TILES][4],
                                                  softmax_state *softmax, int r, float factor)
{
    softmax->sum[r] *= factor;
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++) {
        out[r / 2][n][r % 2 * 2] *= factor;
        out[r / 2][n][r % 2 * 2 + 1] *= factor;
    }
}

/* Where a row's maximum moved, what was summed before, if anything, shrinks. */
static __device__ __forceinline__ void move_to_maximum(const float new_max[LANE_ROWS],
                                                       float out[ROW_GROUPS][OUT_TILES][4],
                                                       softmax_state *softmax)
{
    float correction[LANE_ROWS];
    int moved = 0;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        correction[r] = exp2_approx(softmax->max[r] - exponent_base(new_max[r]));
        moved |= new_max[r] != softmax->max[r] && softmax->max[r] != negative_infinity();
        softmax->max[r] = new_max[r];
    }
    if (!__any_sync(ALL_LANES, moved))
        return;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        shrink_row(out, softmax, r, correction[r]);
}

static __device__ __forceinline__ void move_maximum(const float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    float out[ROW_GROUPS][OUT_TILES][4],
                                                    softmax_state *softmax, float base[LANE_ROWS],
                                                    float scale_log2)
{
    float new_max[LANE_ROWS];
    if (outgrow_maximum(scores, softmax, new_max, scale_log2))
        move_to_maximum(new_max, out, softmax);
    find_base(softmax, base);
}

/* What exponents of a row's first scores are relative to. largest: of the lane's. */
static __device__ __forceinline__ void set_maximum(const float largest[LANE_ROWS],
                                                   softmax_state *softmax, float base[LANE_ROWS],
                                                   float scale_log2)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        softmax->max[r] = quad_max(largest[r]) * scale_log2;
        base[r] = exponent_base(softmax->max[r]);
    }
}

/* Exponents become relative to the largest score so far, whether it moved or not: for few rows and
 * few tiles that costs less than a branch, on both sides of which nothing can be mixed. largest: of
 * the lane's new scores. */
static __device__ __forceinline__ void renew_maximum(const float largest[LANE_ROWS],
                                                     float out[ROW_GROUPS][OUT_TILES][4],
                                                     softmax_state *softmax,
                                                     float base[LANE_ROWS], float scale_log2)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float new_max = fmaxf(softmax->max[r], quad_max(largest[r]) * scale_log2);
        base[r] = exponent_base(new_max);
        const float correction = exp2_approx(softmax->max[r] - base[r]);
        softmax->max[r] = new_max;
        shrink_row(out, softmax, r, correction);
    }
}

/* Scores number first … end - 1 of a lane, 16 keys after 16 keys, become weights. */
static __device__ __forceinline__ void exponentiate(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    softmax_state *softmax,
                                                    const float base[LANE_ROWS], float scale_log2,
                                                    int first, int end)
{
#pragma unroll
    for (int i = first; i < end; i++) {
        const int group = i % STEP_SCORES / 8, r = group * 2 + i % 4 / 2;
        float *score = &scores[group][i / STEP_SCORES * 2 + i % 8 / 4][i % 4];
        *score = exp2_approx(fmaf(*score, scale_log2, -base[r]));
        softmax->sum[r] += *score;
    }
}

/* out += weights · V over 16 keys, for the 16 dims of one pair of output tiles. */
static __device__ __forceinline__ void value_pair(float out[ROW_GROUPS][OUT_TILES][4],
                                                  const unsigned weights[ROW_GROUPS][4], element *v,
                                                  int pair)
{
    unsigned values[4];
    ldmatrix_x4_trans(values,
                      columns_on(tile_element(v, VALUE_DIM, lane_id() % 16, lane_id() / 16 * CHUNK),
                                 pair * 16));
#pragma unroll
    for (int group = 0; group < ROW_GROUPS; group++) {
        mma_elements(out[group][2 * pair], weights[group], values[0], values[1], 0);
        mma_elements(out[group][2 * pair + 1], weights[group], values[2], values[3], 0);
    }
}

/* out += P·V over 16 keys. Two neighbouring results of Q·Kᵀ are, rounded, a left operand. Where
 * exponentiate_next is 1, the next 16 keys' exponentials are spread between the matrix
 * instructions, which leave the other units idle. */
static __device__ __forceinline__ void value_step(float out[ROW_GROUPS][OUT_TILES][4],
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  element *v, int step, int exponentiate_next,
                                                  softmax_state *softmax,
                                                  const float base[LANE_ROWS], float scale_log2)
{
    const int per_pair = (STEP_SCORES + OUT_TILES / 2 - 1) / (OUT_TILES / 2);
    unsigned weights[ROW_GROUPS][4];
#pragma unroll
    for (int group = 0; group < ROW_GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = &scores[group][2 * step + i / 2][i % 2 * 2];
            weights[group][i] = pack_elements(pair[0], pair[1]);
        }
#pragma unroll
    for (int pair = 0; pair < OUT_TILES / 2; pair++) {
        value_pair(out, weights, v, pair);
        if (exponentiate_next)
            exponentiate(scores, softmax, base, scale_log2,
                         (step + 1) * STEP_SCORES + min(pair * per_pair, STEP_SCORES),
                         (step + 1) * STEP_SCORES + min((pair + 1) * per_pair, STEP_SCORES));
    }
}

/* What rounding the weights of 16 keys took away, times V. Weights of 16 bits are exact enough where
 * a row sees many keys, and their errors average out; where it sees few, this is added. */
static __device__ __forceinline__ void value_step_rest(
    float out[ROW_GROUPS][OUT_TILES][4], const float scores[ROW_GROUPS][SCORE_TILES][4], element *v,
    int step)
{
    unsigned rest[ROW_GROUPS][4];
#pragma unroll
    for (int group = 0; group < ROW_GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = &scores[group][2 * step + i / 2][i % 2 * 2];
            const unsigned rounded = pack_elements(pair[0], pair[1]);
            rest[group][i] = pack_elements(pair[0] - element_to_f32((element)(rounded & 0xffffu)),
                                           pair[1] - element_to_f32((element)(rounded >> 16)));
        }
#pragma unroll
    for (int pair = 0; pair < OUT_TILES / 2; pair++)
        value_pair(out, rest, v, pair);
}

/* Values that are infinite or NaN may not reach rows that do not see their key, and 0 · NaN is NaN:
 * such tiles go the slow way below. Returns whether this thread's chunks of a tile have any. */
static __device__ __forceinline__ unsigned find_not_finite(const element *tile, int elements,
                                                           int thread, int threads)
{
    unsigned found = 0;
    for (int i = thread * CHUNK; i < elements; i += threads * CHUNK) {
        const uint4 chunk = *(const uint4 *)(tile + i);
        found |= not_finite(chunk.x) | not_finite(chunk.y) | not_finite(chunk.z) |
                 not_finite(chunk.w);
    }
    return found;
}

/* Bit l is set where lane l holds sums of its row r that are not finite. */
static __device__ __forceinline__ unsigned lanes_not_finite(const float (*sums)[4], int tiles, int r)
{
    float nothing = 0.0f; /* stays 0 unless a sum is infinite or NaN */
#pragma unroll
    for (int n = 0; n < tiles; n++)
        nothing = fmaf(sums[n][r * 2], 0.0f, fmaf(sums[n][r * 2 + 1], 0.0f, nothing));
    return __ballot_sync(ALL_LANES, nothing != 0.0f);
}

/* A hidden key weighs -0, which nothing else gives, so that it can still be told later. */
static __device__ __forceinline__ void exponentiate_marked(
    float scores[ROW_GROUPS][SCORE_TILES][4], softmax_state *softmax, const float base[LANE_ROWS],
    float scale_log2)
{
#pragma unroll
    for (int i = 0; i < TILE_SCORES; i++) {
        const int group = i / (SCORE_TILES * 4), r = group * 2 + i % 4 / 2;
        float *score = &scores[group][i / 4 % SCORE_TILES][i % 4];
        const int hidden = *score == negative_infinity();
        const float weight = exp2_approx(fmaf(*score, scale_log2, -base[r]));
        softmax->sum[r] += weight;
        *score = hidden ? -0.0f : weight;
    }
}

/* This lane's weight number r of a score tile and column that are known at run time only. */
static __device__ __forceinline__ float pick_weight(const float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    int r, int score_tile, int column)
{
    float weight = 0.0f;
#pragma unroll
    for (int n = 0; n < SCORE_TILES; n++)
        if (n == score_tile)
            weight = scores[r / 2][n][r % 2 * 2 + column];
    return weight;
}

/* out += P·V, key by key, for the rows that see it; weights are marked. Rarely run, so that its code
 * is kept small: it would push the rest out of the instruction cache. v is the row of score tile
 * first_tile's first key. */
static __device__ __forceinline__ void value_keys_one_by_one(
    float out[ROW_GROUPS][OUT_TILES][4], const float scores[ROW_GROUPS][SCORE_TILES][4], element *v,
    int first_tile, int keys)
{
#pragma unroll 1
    for (int key = 0; key < keys; key++) {
        float weight[LANE_ROWS];
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++) {
            const float even = pick_weight(scores, r, first_tile + key / 8, 0);
            const float odd = pick_weight(scores, r, first_tile + key / 8, 1);
            weight[r] = __shfl_sync(ALL_LANES, key % 2 ? odd : even,
                                    lane_id() / 4 * 4 + key % 8 / 2);
        }
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++) {
            const element *pair = tile_element(v, VALUE_DIM, key, n * 8 + lane_id() % 4 * 2);
            const float value[2] = {element_to_f32(pair[0]), element_to_f32(pair[1])};
#pragma unroll
            for (int i = 0; i < LANE_ROWS * 2; i++) {
                float *sum = &out[i / 4][n][i % 4];
                const int seen = __float_as_uint(weight[i / 2]) != 0x80000000u;
                *sum = seen ? fmaf(weight[i / 2], value[i % 2], *sum) : *sum;
            }
        }
    }
}

#endif
