/* wide.cu: attention over many query rows of up to 256 dims, where a block may have 180 KB of shared
 * memory.
 *
 * A block owns 128 query rows, each of two teams of four warps half of them. Of a tile of 64 keys a
 * warp scores 32 for 32 of its team's rows; the weights go through shared memory, and it multiplies
 * those of all 64 rows with 64 dims of the values: what it reads serves more products than in
 * prefill.cu, whose warps have 16 rows, all keys and all dims. The second team is half a tile behind
 * the first: while one scores, which keeps shared memory busy, the other multiplies values, which
 * keeps tensor cores busy. Keys and values come in the order in which the first team wants them,
 * through SLOTS tiles that they take in turn. A block's number says which rows it takes (problem.cuh).
 * docs/kernels/sm80.md. */
#include "kernel_shape.h"
#include "ptx_barrier.cuh"
#include "ptx_common.cuh"

/* 1. Shape. */

#define HEAD_DIM 256
#define VALUE_DIM HEAD_DIM
#define TEAM_WARPS 4
#define TEAM_ROWS 64
#define TEAM_THREADS (TEAM_WARPS * WARP_LANES)
#define THREADS (2 * TEAM_THREADS)
#define QUERY_TILE (2 * TEAM_ROWS)
#define KV_TILE 64
#define SLOTS 3

/* What a warp scores: 32 rows, 32 keys. */
#define ROW_GROUPS 2
#define SCORE_KEYS 32
#define SCORE_TILES (SCORE_KEYS / 8)

/* What it multiplies values for: all rows of the team, some dims. */
#define OUT_GROUPS (TEAM_ROWS / 16)
#define WARP_DIMS (VALUE_DIM / TEAM_WARPS)
#define WARP_TILES (WARP_DIMS / 8)

#define HEADS_SHARE_TILES 0

#include "sm80/wide_team.cuh"

KERNEL_SHAPE_OF(KERNEL_NAME) = {QUERY_TILE, KV_TILE, THREADS, (int)sizeof(shared_tiles),
                                ALL_KEYS ? GRID_TILES : GRID_GROUPS};

/* 2. Steps, in calling order. */

/* What a thread loads of every tile of its team's. */
typedef struct tile_stream {
    const element *first; /* its chunk of the sequence's first row that it loads */
    long long row_stride;
    int place;   /* in a slot, of the first chunk of a tile */
    int end_row; /* counted from that row on; none where its chunk is behind the dims */
} tile_stream;

/* A team's way over the block's tiles of keys, from the first on. */
typedef struct tile_walk {
    int first, end;     /* the block's tiles */
    int first_straight; /* from here on, exponents stay relative to what they are relative to */
    int end_inner;      /* from here on, some row of the team does not see all keys */
    int team_end;       /* from here on, none sees any */
    int tile;           /* whose weights there are */
    int slot;           /* of what the team's next step wants */
    tile_stream stream; /* of what the team loads */
} tile_walk;

/* What this thread loads of a tensor. */
static __device__ __forceinline__ tile_stream stream_of(const sequence_share *share,
                                                        const void *tensor,
                                                        const tensor_strides *strides, int dims)
{
    const int thread = thread_id() % TEAM_THREADS;
    const int row = thread / (HEAD_DIM / CHUNK), column = thread % (HEAD_DIM / CHUNK) * CHUNK;
    element *origin = SHARED_MEMORY(element);
    tile_stream stream;
    stream.first = (const element *)tensor + first_kv_index(share, strides) +
                   STRIDE_UNIT * times_stride(row, strides->row) + column;
    stream.row_stride = strides->row;
    stream.place = number_now((int)(tile_element(origin, HEAD_DIM, row, column) - origin));
    stream.end_row = column < dims ? share->kv_rows - row : 0;
    return stream;
}

/* The first team loads all keys, the second all values; a thread one chunk of every fourth row. Not by
 * copy_rows: with no register to spare the compiler finds its addresses again for every chunk. */
static __device__ __forceinline__ void load_tile(const warp_share *warp, const tile_walk *walk,
                                                 int tile, int slot)
{
    enum { ROWS_APART = TEAM_THREADS / (HEAD_DIM / CHUNK) };
    static_assert(ROWS_APART == 4, "the swizzle repeats after eight rows, every second chunk");
    const tile_stream *from = &walk->stream;
    if (tile < walk->end) {
        const element *global =
            from->first + STRIDE_UNIT * times_stride(tile * KV_TILE, from->row_stride);
        element *to = warp->shared->slots[slot] + from->place;
        const int rows_left = from->end_row - tile * KV_TILE;
#pragma unroll
        for (int i = 0; i < KV_TILE / ROWS_APART; i++) {
            cp_async_16_or_zero((i % 2 ? columns_on(to, 4 * CHUNK) : to) +
                                    i * ROWS_APART * HEAD_DIM,
                                global, i * ROWS_APART < rows_left);
            global += STRIDE_UNIT * times_stride(ROWS_APART, from->row_stride);
        }
    }
    cp_async_commit();
}

static __device__ __forceinline__ int slots_on(int slot, int count)
{
    slot += count;
    return slot >= SLOTS ? slot - SLOTS : slot;
}

/* The next step of both teams: what they want is there. */
static __device__ __forceinline__ void meet_block(void)
{
    cp_async_wait(0);
    barrier_wait_apart(1, THREADS);
}

/* To a tile's values. The first team's step h comes with the second's step h - 1, and nobody wants
 * what came two before: its slot takes the next in the order K0 K1 V0 K2 V1 K3 … */
static __device__ __forceinline__ void turn_to_values(const warp_share *warp, const tile_walk *walk)
{
    meet_block();
    load_tile(warp, walk, walk->tile + 2 - warp->late, slots_on(walk->slot, 1 + warp->late));
}

/* Queries and the first keys; the second team lets the first go ahead by a step. */
static __device__ __forceinline__ void load_first(const warp_share *warp, const tile_walk *walk)
{
    copy_queries(warp->args, warp->share, warp->shared->q + warp->team_row * HEAD_DIM, TEAM_ROWS,
                 HEAD_DIM, warp->block_row + warp->team_row, thread_id() % TEAM_THREADS, TEAM_THREADS);
    cp_async_commit();
    if (!warp->late) {
        load_tile(warp, walk, walk->first, 0);
        load_tile(warp, walk, walk->first + 1, 1);
        cp_async_wait(1);
    }
    barrier_wait_apart(1, THREADS);
    if (warp->late) {
        meet_block();
        load_tile(warp, walk, walk->first, 2);
    }
}

static __device__ __forceinline__ void score_keys(const warp_share *warp, int slot,
                                                  float scores[ROW_GROUPS][SCORE_TILES][4])
{
    element *q = warp->shared->q + warp->score_row * HEAD_DIM;
    element *k = warp->shared->slots[slot] + warp->score_key * HEAD_DIM;
#pragma unroll
    for (int step = 0; step < QUERY_STEPS; step++) {
        unsigned query[ROW_GROUPS][4];
        load_query_step(query, q, step);
        score_step(scores, query, k, step, 0, SCORE_TILES, step == 0);
    }
}

static __device__ __forceinline__ void hide_scores(const warp_share *warp, int tile,
                                                   float scores[ROW_GROUPS][SCORE_TILES][4])
{
    hide_keys(scores, warp->args, warp->share, warp->block_row + warp->score_row,
              tile * KV_TILE + warp->score_key, warp->share->kv_rows);
}

/* out += P·V. Where weigh is 1, exponentials of the next tile's scores are spread between the matrix
 * instructions. */
static __device__ __forceinline__ void add_values(const warp_share *warp, int slot,
                                                  float out[OUT_GROUPS][WARP_TILES][4],
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  softmax_state *softmax, int weigh)
{
    enum { PAIRS = WARP_TILES / 2, EACH = TILE_SCORES / (KV_TILE / 16 * PAIRS) };
    element *p = tile_element(warp->shared->weights + warp->team_row * KV_TILE, KV_TILE,
                              lane_id() % 16, lane_id() / 16 * CHUNK);
    element *v = tile_element(warp->shared->slots[slot] + warp->first_dim, VALUE_DIM,
                              lane_id() % 16, lane_id() / 16 * CHUNK);
#pragma unroll
    for (int step = 0; step < KV_TILE / 16; step++) {
        unsigned weights[OUT_GROUPS][4];
#pragma unroll
        for (int group = 0; group < OUT_GROUPS; group++)
            ldmatrix_x4(weights[group], columns_on(p, step * 16) + group * 16 * KV_TILE);
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++) {
            const int done = (step * PAIRS + pair) * EACH;
            unsigned values[4];
            ldmatrix_x4_trans(values, columns_on(v, pair * 16) + step * 16 * VALUE_DIM);
#pragma unroll
            for (int group = 0; group < OUT_GROUPS; group++) {
                mma_elements(out[group][2 * pair], weights[group], values[0], values[1], 0);
                mma_elements(out[group][2 * pair + 1], weights[group], values[2], values[3], 0);
            }
            if (weigh)
                exponentiate(scores, softmax, softmax->max, warp->scale_log2, done, done + EACH);
        }
    }
}

/* The same key by key, for the rows that see it; weights of hidden keys are -0. is_rest: of weights,
 * with any sign: an infinite value was counted with the weights. */
static __device__ __forceinline__ void add_values_by_key(const warp_share *warp, int slot,
                                                         float out[OUT_GROUPS][WARP_TILES][4],
                                                         int is_rest)
{
    element *p = warp->shared->weights + (warp->team_row + lane_id() / 4) * KV_TILE;
    element *v = warp->shared->slots[slot] + warp->first_dim;
#pragma unroll 1
    for (int key = 0; key < KV_TILE; key++) {
        unsigned values[WARP_TILES];
#pragma unroll
        for (int n = 0; n < WARP_TILES; n++)
            values[n] =
                *(unsigned *)tile_element(v, VALUE_DIM, key, n * 8 + lane_id() % 4 * 2);
#pragma unroll
        for (int i = 0; i < OUT_GROUPS * 2; i++) {
            const element bits = p[i * 8 * KV_TILE + (key ^ lane_id() / 4 * CHUNK)];
            const float weight = element_to_f32(bits);
#pragma unroll
            for (int n = 0; n < WARP_TILES * 2; n++) {
                float *sum = &out[i / 2][n / 2][i % 2 * 2 + n % 2];
                const float value = element_to_f32((element)(values[n / 2] >> n % 2 * 16));
                const int counts = bits != 0x8000u && (!is_rest || value - value == 0.0f);
                *sum = counts ? fmaf(weight, value, *sum) : *sum;
            }
        }
    }
}

/* How a tile whose scores may move the maximum is multiplied: hidden values may be NaN or infinite,
 * which shows in the result, and then the rows are computed once more, carefully: by key. */
typedef struct tile_manner {
    int by_key;
    int count_rest;
} tile_manner;

static __device__ __forceinline__ tile_manner manner_of(const warp_share *warp,
                                                        const key_limits *limits, int tile,
                                                        int careful)
{
    const int first_key = tile * KV_TILE;
    const int at_boundary =
        first_key < limits->all_first || first_key + KV_TILE > limits->all_end;
    tile_manner manner;
    manner.by_key = careful && at_boundary;
    manner.count_rest = at_boundary && see_few_keys(warp->args, limits);
    return manner;
}

/* Any tile's scores become weights. */
static __device__ __forceinline__ void weigh_tile(const warp_share *warp, tile_manner manner,
                                                  float scores[ROW_GROUPS][SCORE_TILES][4],
                                                  float out[OUT_GROUPS][WARP_TILES][4],
                                                  softmax_state *softmax, packed_weights *weights,
                                                  packed_weights *rest)
{
    float base[LANE_ROWS];
    move_team_maximum(warp, scores, out, softmax, base);
    if (manner.by_key)
        exponentiate_marked(scores, softmax, base, warp->scale_log2);
    else
        exponentiate(scores, softmax, base, warp->scale_log2, 0, TILE_SCORES);
    pack_weights(scores, weights);
    if (!ALL_KEYS && manner.count_rest)
        pack_rest(scores, weights, rest);
}

/* Multiplies any tile's weights, which the team has left. */
static __device__ __forceinline__ void add_any(const warp_share *warp, tile_manner manner, int slot,
                                               float out[OUT_GROUPS][WARP_TILES][4],
                                               const packed_weights *rest)
{
#pragma unroll 1
    for (int part = 0; part < (!ALL_KEYS && manner.count_rest ? 2 : 1); part++) {
        if (part == 1) {
            meet_team(warp);
            leave_weights(warp, rest);
            meet_team(warp);
        }
        if (!ALL_KEYS && manner.by_key)
            add_values_by_key(warp, slot, out, part);
        else
            add_values(warp, slot, out, 0, 0, 0);
    }
}

/* To the scores of the tile after the walk's, whose weights the team gets. From tile first_hidden on
 * rows may not see all keys. */
static __device__ __forceinline__ void turn_to_scores(const warp_share *warp, tile_walk *walk,
                                                      const packed_weights *weights,
                                                      int first_hidden,
                                                      float scores[ROW_GROUPS][SCORE_TILES][4])
{
    meet_block();
    leave_weights(warp, weights);
    score_keys(warp, walk->slot, scores);
    if (!ALL_KEYS && walk->tile + 1 >= first_hidden)
        hide_scores(warp, walk->tile + 1, scores);
    walk->slot = slots_on(walk->slot, 1);
}

/* The last tile's weights, which no scores come with. */
static __device__ __forceinline__ void turn_to_last_values(const warp_share *warp, tile_walk *walk,
                                                           const packed_weights *weights)
{
    meet_block();
    leave_weights(warp, weights);
    walk->slot = slots_on(walk->slot, 1);
    turn_to_values(warp, walk);
}

/* A team's rows over all keys that the block's rows see. Its steps: scores of the first tile; then for
 * every tile the scores of the one after it, and its own values. At the end there may be tiles of which
 * it sees nothing. */
static __device__ __forceinline__ void attend(const warp_share *warp, tile_walk *walk,
                                              const key_limits *limits, int careful,
                                              float out[OUT_GROUPS][WARP_TILES][4],
                                              softmax_state *softmax)
{
    float scores[ROW_GROUPS][SCORE_TILES][4];
    packed_weights weights, rest;
    tile_manner manner = manner_of(warp, limits, walk->first, careful);
    load_first(warp, walk);
    score_keys(warp, 0, scores);
    if (!ALL_KEYS)
        hide_scores(warp, walk->first, scores);
    weigh_tile(warp, manner, scores, out, softmax, &weights, &rest);
    walk->slot = 1;
    walk->tile = walk->first;
#pragma unroll 1
    for (; (careful || !ALL_KEYS) && walk->tile + 1 < walk->first_straight; walk->tile++) {
        turn_to_scores(warp, walk, &weights, 0, scores);
        turn_to_values(warp, walk);
        add_any(warp, manner, walk->slot, out, &rest);
        manner = manner_of(warp, limits, walk->tile + 1, careful);
        weigh_tile(warp, manner, scores, out, softmax, &weights, &rest);
        walk->slot = slots_on(walk->slot, 1);
    }
    if (careful || (!ALL_KEYS && walk->tile + 1 == walk->team_end)) {
        turn_to_last_values(warp, walk, &weights);
        add_any(warp, manner, walk->slot, out, &rest);
    } else {
#pragma unroll 1
        for (; walk->tile + 1 < walk->team_end; walk->tile++) {
            turn_to_scores(warp, walk, &weights, walk->end_inner, scores);
            turn_to_values(warp, walk);
            add_values(warp, walk->slot, out, scores, softmax, 1);
            pack_weights(scores, &weights);
            walk->slot = slots_on(walk->slot, 1);
        }
        turn_to_last_values(warp, walk, &weights);
        add_values(warp, walk->slot, out, scores, softmax, 0);
    }
    walk->slot = slots_on(walk->slot, 1);
#pragma unroll 1
    for (walk->tile++; !ALL_KEYS && walk->tile < walk->end; walk->tile++) {
        meet_block();
        walk->slot = slots_on(walk->slot, 1);
        turn_to_values(warp, walk);
        walk->slot = slots_on(walk->slot, 1);
    }
    if (!warp->late)
        barrier_wait_apart(1, THREADS);
}

/* Every row has seen a tile's worth of keys, or all that the block's rows have in common, where
 * exponents stay as they are. Both teams get there at the same tile: compute-sanitizer's racecheck
 * takes barriers of which they have a different number for a race. */
static __device__ __forceinline__ tile_walk limit_walk(const warp_share *warp,
                                                       const key_limits *block,
                                                       const key_limits *team, int careful)
{
    tile_walk walk;
    walk.first = block->first / KV_TILE;
    walk.end = (block->end + KV_TILE - 1) / KV_TILE;
    walk.team_end = ALL_KEYS ? walk.end
                             : clamp_int((team->end + KV_TILE - 1) / KV_TILE, walk.first + 1,
                                         walk.end);
    walk.first_straight = walk.team_end;
    if (!careful && (ALL_KEYS || !see_few_keys(warp->args, team)))
        walk.first_straight = min((block->all_first + 2 * KV_TILE - 1) / KV_TILE, walk.team_end);
    walk.end_inner = team->all_end / KV_TILE;
    return walk;
}

/* The block's rows over all keys. careful: only those that came out wrong are stored. Returns whether
 * this thread knows of one that did. */
static __device__ __forceinline__ int attend_rows(const attention_args *args, int careful)
{
    const int late = warp_id() / TEAM_WARPS;
    const block_place place = find_place(args, (int)blockIdx.x);
    if (!ALL_KEYS && place.batch >= args->batch)
        return 0;
    const sequence_share share = find_share(args, place.batch, place.head_group);
    const int team_warp = warp_id() % TEAM_WARPS;
    warp_share warp;
    warp.args = args;
    warp.share = &share;
    warp.shared = SHARED_MEMORY(shared_tiles);
    const tile_stream stream =
        late ? stream_of(&share, args->v, STRIDES(args, v), args->value_dim)
             : stream_of(&share, args->k, STRIDES(args, k), args->head_dim);
    warp.late = late;
    warp.block_row = place.tile * QUERY_TILE;
    warp.team_row = late * TEAM_ROWS;
    warp.score_row = warp.team_row + team_warp % 2 * WARP_ROWS;
    warp.score_key = team_warp / 2 * SCORE_KEYS;
    warp.first_dim = team_warp * WARP_DIMS;
    warp.scale_log2 = args->scale_log2;
    if (warp.block_row >= share.rows)
        return 0;
    const key_limits block = limits_of_rows(args, &share, warp.block_row, QUERY_TILE);
    const key_limits team =
        limits_of_rows(args, &share, warp.block_row + warp.team_row, TEAM_ROWS);
    tile_walk walk = limit_walk(&warp, &block, &team, careful);
    walk.stream = stream;
    float out[OUT_GROUPS][WARP_TILES][4] = {};
    softmax_state softmax;
    forget(&softmax);
    if (ALL_KEYS || walk.first < walk.end)
        attend(&warp, &walk, &team, careful, out, &softmax);
    meet_team(&warp);
    if (!careful)
        find_wrong(&warp, out);
    join_rows(&warp, &softmax);
    end_rows(&warp, careful);
    store_rows(&warp, careful, out);
    const int row = warp.team_row + thread_id() % TEAM_ROWS;
    return warp.block_row + row < share.rows && warp.shared->wrong[row];
}

/* A function of its own: inside the kernel it would take registers from what runs always. */
static __device__ __noinline__ void attend_again(const attention_args *args)
{
    attend_rows(args, 1);
}

/* 3. The kernel. */

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL_NAME(const __grid_constant__ attention_args args)
{
    if (__syncthreads_or(attend_rows(&args, 0)))
        attend_again(&args);
}
