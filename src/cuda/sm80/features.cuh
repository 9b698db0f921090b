/* features.cuh: what changes scores between Q·Kᵀ and the softmax, and weights after it.
 *
 * Causal and window limits and the end of the keys are in every variant, applied at boundary tiles
 * alone. Soft-cap, ALiBi, bias, mask and dropout are run-time branches of the FEATURES variants. */
#ifndef FC_SM80_FEATURES_CUH
#define FC_SM80_FEATURES_CUH

#include "sm80/tile.cuh"

/* Hides keys of some score tiles, for row r: those from `end` on, which the lane counts from its own
 * first key. */
static __device__ __forceinline__ void hide_from(float scores[ROW_GROUPS][SCORE_TILES][4], int r,
                                                 int first_tile, int tiles, int end)
{
#pragma unroll
    for (int i = 0; i < tiles * 2; i++) {
        const int tile = first_tile + i / 2;
        if (tile * 8 + i % 2 >= end)
            scores[r / 2][tile][r % 2 * 2 + i % 2] = negative_infinity();
    }
}

/* Hides the keys outside the limits of each row and those from end_key on; scores start at key
 * first_key. */
static __device__ __forceinline__ void hide_keys(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                 const attention_args *args,
                                                 const sequence_share *share, int first_row,
                                                 int first_key, int end_key)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = row_of(args, first_row + lane_row(r));
        const int lane_key = first_key + lane_id() % 4 * 2;
        const int first = first_key_of(args, share, row) - lane_key;
        hide_from(scores, r, 0, SCORE_TILES,
                  min(end_key_of(args, share, row), end_key) - lane_key);
        /* A window. With ONLY_FIRST_KEYS there is none, and the loop is empty. */
        if (!ONLY_FIRST_KEYS && args->window_left < 0)
            continue;
#pragma unroll
        for (int i = 0; i < (ONLY_FIRST_KEYS ? 0 : SCORE_TILES * 2); i++) {
            const int key = i / 2 * 8 + i % 2;
            if (key < first)
                scores[r / 2][i / 2][r % 2 * 2 + i % 2] = negative_infinity();
        }
    }
}

/* Rows that may see fewer keys than this have the rest of their weights counted too. */
#define FEW_KEYS 64

static __device__ __forceinline__ int see_few_keys(const attention_args *args,
                                                   const key_limits *limits)
{
    return limits->all_end - limits->all_first < FEW_KEYS ||
           (FEATURES && (args->more.alibi || args->more.bias || args->more.mask));
}

#if FEATURES

static __device__ __forceinline__ float load_bias(const attention_args *args, long long index,
                                                  int is_f32)
{
    if (is_f32)
        return ((const float *)args->more.bias)[index];
    const unsigned short bits = ((const unsigned short *)args->more.bias)[index];
    return args->more.bias_type == ARGS_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/* What a soft-cap makes of scores, in base 2. */
typedef struct score_cap {
    float inner_log2; /* of 2x below, for a score of 1 */
    float cap_log2;
} score_cap;

static __device__ __forceinline__ score_cap find_cap(const attention_args *args)
{
    const score_cap cap = {2.0f * args->scale_log2 * reciprocal_approx(args->more.softcap),
                           args->more.softcap * LOG2_E};
    return cap;
}

/* cap(scale · score) in base 2. tanh(x) = 1 - 2 / (1 + exp(2x)), with an error of some 1e-7 of 1. */
static __device__ __forceinline__ float cap_score(score_cap cap, float score)
{
    const float power = exp2_approx(score * cap.inner_log2);
    return fmaf(-2.0f * cap.cap_log2, reciprocal_approx(1.0f + power), cap.cap_log2);
}

static __device__ __forceinline__ void cap_scores(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  const attention_args *args)
{
    const score_cap cap = find_cap(args);
    if (args->more.softcap > 0.0f)
#pragma unroll
        for (int i = 0; i < TILE_SCORES; i++)
            *tile_score(scores, i) = cap_score(cap, *tile_score(scores, i));
    else
#pragma unroll
        for (int i = 0; i < TILE_SCORES; i++)
            *tile_score(scores, i) *= args->scale_log2;
}

/* What ALiBi takes from a score in base 2 for each key of distance. */
static __device__ __forceinline__ float alibi_slope(const attention_args *args,
                                                    const sequence_share *share, int head)
{
    return args->more.alibi[share->batch * args->more.alibi_batch_stride + head] * LOG2_E;
}

/* score + bias in base 2, or -inf where that is the bias, also where the score is NaN. */
static __device__ __forceinline__ float bias_score(float score, float bias)
{
    return bias == negative_infinity() ? bias : fmaf(bias, LOG2_E, score);
}

/* Score i of row r, by keys. */
static __device__ __forceinline__ float *lane_score(float scores[ROW_GROUPS][SCORE_TILES][4], int r,
                                                    int i)
{
    return &scores[r / 2][i / 2][r % 2 * 2 + i % 2];
}

/* Index of score i's bias or mask. These end with the keys: behind the last one its own is taken, for
 * a score that is hidden later. Without a branch, so that many are under way at once. */
static __device__ __forceinline__ long long broadcast_index(long long row_index, long long step,
                                                            int lane_key, int i, int last_key)
{
    return row_index + min(lane_key + i / 2 * 8 + i % 2, last_key) * step;
}

/* Of a row: more would take registers. */
#define SCORES_AT_ONCE (SCORE_TILES < 8 ? SCORE_TILES * 2 : 16)

/* is_f32, of the bias, is known to the compiler: no branch between two loads. */
static __device__ __forceinline__ void add_bias(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                const attention_args *args, int r,
                                                long long row_index, int lane_key, int last_key,
                                                int is_f32)
{
    const long long step = args->more.bias_strides.key;
#pragma unroll
    for (int first = 0; first < SCORE_TILES * 2; first += SCORES_AT_ONCE) {
        float bias[SCORES_AT_ONCE];
#pragma unroll
        for (int i = 0; i < SCORES_AT_ONCE; i++)
            bias[i] = load_bias(
                args, broadcast_index(row_index, step, lane_key, first + i, last_key), is_f32);
#pragma unroll
        for (int i = 0; i < SCORES_AT_ONCE; i++) {
            float *score = lane_score(scores, r, first + i);
            *score = bias_score(*score, bias[i]);
        }
    }
}

static __device__ __forceinline__ void apply_mask(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  const attention_args *args, int r,
                                                  long long row_index, int lane_key, int last_key)
{
    const long long step = args->more.mask_strides.key;
#pragma unroll
    for (int first = 0; first < SCORE_TILES * 2; first += SCORES_AT_ONCE) {
        int visible[SCORES_AT_ONCE];
#pragma unroll
        for (int i = 0; i < SCORES_AT_ONCE; i++)
            visible[i] = args->more.mask[broadcast_index(row_index, step, lane_key, first + i,
                                                         last_key)];
#pragma unroll
        for (int i = 0; i < SCORES_AT_ONCE; i++) {
            float *score = lane_score(scores, r, first + i);
            *score = visible[i] ? *score : negative_infinity();
        }
    }
}

static __device__ __forceinline__ long long broadcast_row(const broadcast_strides *strides,
                                                          int batch, int head, int row)
{
    return batch * strides->batch + head * strides->head + row * strides->row;
}

/* scores become cap(scale · q·k) + alibi + bias in base 2; masked keys are -inf. Keys outside of a row's
 * limits, and those from end_key on, are still to be hidden. */
static __device__ __forceinline__ void shape_scores(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    const attention_args *args,
                                                    const sequence_share *share, int first_row,
                                                    int first_key, int end_key)
{
    cap_scores(scores, args);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int packed_row = min(first_row + lane_row(r), share->rows - 1);
        const int row = row_of(args, packed_row), head = head_of(args, share, packed_row);
        const int lane_key = first_key + lane_id() % 4 * 2;
        if (args->more.alibi) {
            const float slope = alibi_slope(args, share, head);
#pragma unroll
            for (int i = 0; i < SCORE_TILES * 2; i++)
                *lane_score(scores, r, i) -=
                    slope *
                    fabsf((float)(row + share->shift - (lane_key + i / 2 * 8 + i % 2)));
        }
        const long long bias_row =
            broadcast_row(&args->more.bias_strides, share->batch, head, row);
        if (args->more.bias && args->more.bias_type == ARGS_F32)
            add_bias(scores, args, r, bias_row, lane_key, end_key - 1, 1);
        else if (args->more.bias)
            add_bias(scores, args, r, bias_row, lane_key, end_key - 1, 0);
        if (args->more.mask)
            apply_mask(scores, args, r,
                       broadcast_row(&args->more.mask_strides, share->batch, head, row), lane_key,
                       end_key - 1);
    }
}

/* The same for one key that is within the row's limits. */
static __device__ __forceinline__ float shape_score(const attention_args *args,
                                                    const sequence_share *share, int packed_row,
                                                    int key, float score)
{
    const int row = row_of(args, packed_row), head = head_of(args, share, packed_row);
    const broadcast_strides *bias = &args->more.bias_strides, *mask = &args->more.mask_strides;
    score = args->more.softcap > 0.0f ? cap_score(find_cap(args), score)
                                      : score * args->scale_log2;
    if (args->more.alibi)
        score -= alibi_slope(args, share, head) * fabsf((float)(row + share->shift - key));
    if (args->more.bias)
        score = bias_score(
            score, load_bias(args, broadcast_row(bias, share->batch, head, row) + key * bias->key,
                             args->more.bias_type == ARGS_F32));
    if (args->more.mask &&
        !args->more.mask[broadcast_row(mask, share->batch, head, row) + key * mask->key])
        score = negative_infinity();
    return score;
}

/* Philox4x32-10: words[…] of one counter, as flashcore.h defines dropout. */
static __device__ __noinline__ uint4 random_words(uint4 counter, unsigned key0, unsigned key1)
{
#pragma unroll 1
    for (int round = 0; round < 10; round++) {
        const unsigned low0 = 0xD2511F53u * counter.x, high0 = __umulhi(0xD2511F53u, counter.x);
        const unsigned low1 = 0xCD9E8D57u * counter.z, high1 = __umulhi(0xCD9E8D57u, counter.z);
        counter.x = high1 ^ counter.y ^ key0;
        counter.y = low1;
        counter.z = high0 ^ counter.w ^ key1;
        counter.w = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* The words of the block of four keys that `key` lies in. */
static __device__ __forceinline__ uint4 dropout_words(const attention_args *args,
                                                      const sequence_share *share, int packed_row,
                                                      int key)
{
    const unsigned line =
        (unsigned)(share->batch * args->q_heads) + (unsigned)head_of(args, share, packed_row);
    return random_words(make_uint4((unsigned)key / 4, (unsigned)row_of(args, packed_row), line,
                                   args->more.dropout_offset[0]),
                        args->more.dropout_seed[0],
                        args->more.dropout_seed[1] ^ args->more.dropout_offset[1]);
}

/* Dropped weights become 0 after they were summed. A lane's two keys lie in one block of four. */
static __device__ __forceinline__ void drop_weights(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    const attention_args *args,
                                                    const sequence_share *share, int first_row,
                                                    int first_key)
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
#pragma unroll
        for (int n = 0; n < SCORE_TILES; n++) {
            const int key = first_key + n * 8 + lane_id() % 4 * 2;
            const uint4 words = dropout_words(args, share, first_row + lane_row(r), key);
            float *weight = &scores[r / 2][n][r % 2 * 2];
            if ((key % 4 ? words.z : words.x) < args->more.dropout_threshold)
                weight[0] *= 0.0f;
            if ((key % 4 ? words.w : words.y) < args->more.dropout_threshold)
                weight[1] *= 0.0f;
        }
}

/* The same for one weight. */
static __device__ __forceinline__ float drop_weight(const attention_args *args,
                                                    const sequence_share *share, int packed_row,
                                                    int key, float weight)
{
    const uint4 words = dropout_words(args, share, packed_row, key);
    const unsigned low = key % 2 ? words.y : words.x, high = key % 2 ? words.w : words.z;
    return (key % 4 < 2 ? low : high) < args->more.dropout_threshold ? 0.0f * weight : weight;
}

#endif

/* Whether some row may not see some key of a tile. */
static __device__ __forceinline__ int may_hide_keys(const attention_args *args, int at_boundary)
{
    return at_boundary || (FEATURES && (args->more.mask || args->more.bias));
}

/* Scores become weights: marked where values will be summed key by key; else, with INTERLEAVE, of
 * the first 16 keys, and value_step does the others. */
static __device__ __forceinline__ void weigh_scores(float scores[ROW_GROUPS][SCORE_TILES][4],
                                                    softmax_state *softmax,
                                                    const float base[LANE_ROWS], float scale_log2,
                                                    int by_key, const attention_args *args,
                                                    const sequence_share *share, int first_row,
                                                    int first_key)
{
    if (by_key)
        exponentiate_marked(scores, softmax, base, scale_log2);
    else
        exponentiate(scores, softmax, base, scale_log2, 0,
                     INTERLEAVE ? STEP_SCORES : TILE_SCORES);
#if FEATURES
    if (args->more.dropout_threshold)
        drop_weights(scores, args, share, first_row, first_key);
#endif
}

#endif
