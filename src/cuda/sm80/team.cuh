/* team.cuh: what the warps of latency.cu's block share: its shared memory, and their results, which
 * become one at the end.
 *
 * A team works on its own keys, each of its warps on its own rows. At the end every team leaves what
 * it summed in shared memory. Then ROW_THREADS threads join and store a row. */
#ifndef FC_SM80_TEAM_CUH
#define FC_SM80_TEAM_CUH

#include "ptx_barrier.cuh"
#include "sm80/again.cuh"

#define BLOCK_ROWS (TEAM_WARPS * WARP_ROWS)
#define ROW_THREADS (THREADS / BLOCK_ROWS)
#define ROW_CHUNKS (VALUE_DIM / CHUNK / ROW_THREADS) /* of a thread: number thread, + ROW_THREADS, … */

static_assert(VALUE_DIM % (CHUNK * ROW_THREADS) == 0, "a row's threads have whole chunks");
static_assert(!ONE_ROUND || ROW_CHUNKS == 1, "rows are mended a chunk a thread");

/* 1. Shared memory. */

/* A row of sums: of all chunks the first four columns, then the others. So threads read neighbouring
 * pieces of four, and the padding of both halves puts what lanes write at different banks. */
#define HALF_ROW (VALUE_DIM / 2 + 4)
typedef float row_sums[2][HALF_ROW];

/* A number of a row from each team. Rows begin at different banks. */
typedef float of_teams[TEAMS % 8 == 4 ? TEAMS : TEAMS + 4];

/* 1: an L4 has no room for the queries of so many rows beside their sums, which take their place too. */
#define SUMS_TAKE_ALL (BLOCK_ROWS * (HEAD_DIM * 2 + TEAMS * (VALUE_DIM + 8) * 4) > 99 * 1024)

#if SUMS_TAKE_ALL

typedef struct shared_tiles {
    union {
        struct {
            element q[BLOCK_ROWS * HEAD_DIM];
            element slots[TEAMS][SLOTS][SLOT_KEYS * HEAD_DIM];
        };
        row_sums sums[TEAMS][BLOCK_ROWS]; /* at the end */
    };
    of_teams max[BLOCK_ROWS];
    of_teams sum[BLOCK_ROWS];
} shared_tiles;

#define TEAM_SLOTS(shared, team) (shared)->slots[team]
#define TEAM_SUMS(shared, team) (shared)->sums[team]

#else

typedef union team_space {
    element slots[SLOTS][SLOT_KEYS * HEAD_DIM];
    row_sums sums[BLOCK_ROWS]; /* at the end */
} team_space;

typedef struct shared_tiles {
    element q[BLOCK_ROWS * HEAD_DIM];
    team_space teams[TEAMS];
    of_teams max[BLOCK_ROWS];
    of_teams sum[BLOCK_ROWS];
} shared_tiles;

#define TEAM_SLOTS(shared, team) (shared)->teams[team].slots
#define TEAM_SUMS(shared, team) (shared)->teams[team].sums

#endif

static_assert(!SUMS_TAKE_ALL || HELD_STEPS == QUERY_STEPS, "queries are read before anything ends");

KERNEL_SHAPE_OF(KERNEL_NAME) = {BLOCK_ROWS, TEAMS *WARP_KEYS, THREADS, (int)sizeof(shared_tiles)};

/* 2. Teams. */

static __device__ __forceinline__ int team_id(void)
{
    return warp_id() / TEAM_WARPS;
}

/* Of the block's rows. */
static __device__ __forceinline__ int first_row_of_warp(void)
{
    return warp_id() % TEAM_WARPS * WARP_ROWS;
}

static __device__ __forceinline__ int row_in_block(int r)
{
    return first_row_of_warp() + lane_row(r);
}

static __device__ __forceinline__ element *queries_of_warp(shared_tiles *shared)
{
    return shared->q + first_row_of_warp() * HEAD_DIM;
}

static __device__ __forceinline__ void meet_team(void)
{
    if (TEAM_WARPS == 1)
        __syncwarp();
    else
        barrier_wait(1 + team_id(), TEAM_THREADS);
}

/* A number of each row, which its four lanes have. */
static __device__ __forceinline__ void leave_number(of_teams *rows, const float numbers[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        if (lane_id() % 4 == 0)
            rows[row_in_block(r)][team_id()] = numbers[r];
}

static __device__ __forceinline__ float largest_of_teams(const of_teams of_row)
{
    float largest = of_row[0];
#pragma unroll
    for (int team = 1; team < TEAMS; team++)
        largest = fmaxf(largest, of_row[team]);
    return largest;
}

/* 3. The end, in calling order. */

static __device__ __forceinline__ void leave_sums(shared_tiles *shared,
                                                  const float out[ROW_GROUPS][OUT_TILES][4],
                                                  const softmax_state *softmax)
{
    const int column = lane_id() % 4 * 2; /* of a chunk */
    if (SUMS_TAKE_ALL)
        __syncthreads();
    else
        meet_team(); /* done with its slots, which the sums replace */
    float sums[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        float *row = TEAM_SUMS(shared, team_id())[row_in_block(r)][column / 4] + column % 4;
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++)
            *(float2 *)(row + n * 4) =
                make_float2(out[r / 2][n][r % 2 * 2], out[r / 2][n][r % 2 * 2 + 1]);
        sums[r] = quad_sum(softmax->sum[r]);
    }
    leave_number(shared->sum, sums);
    leave_number(shared->max, softmax->max);
    __syncthreads();
}

static __device__ __forceinline__ int joined_row(void)
{
    return thread_id() / ROW_THREADS;
}

static __device__ __forceinline__ int joined_column(int chunk)
{
    return (chunk * ROW_THREADS + thread_id() % ROW_THREADS) * CHUNK;
}

/* Where a thread stores; NULL: nothing. */
typedef struct thread_places {
    element *out[ROW_CHUNKS]; /* where out takes whole chunks */
    float *lse;
} thread_places;

static __device__ __forceinline__ thread_places find_places(const attention_args *args,
                                                            const sequence_share *share,
                                                            int first_row)
{
    thread_places places = {};
    const int row = first_row + joined_row(), is_there = row < share->rows;
    if (PLACES_FIRST && !is_there)
        return places; /* the branch also keeps the compiler from looking things up before copies */
    element *out = (element *)args->out + q_index(args, share, STRIDES(args, out), row);
    float *lse = args->lse + lse_index(args, share, row);
#pragma unroll
    for (int i = 0; i < ROW_CHUNKS; i++)
        places.out[i] = (element *)address_now(
            is_there && joined_column(i) < args->value_dim ? out + joined_column(i) : NULL);
    places.lse = (float *)address_now(
        args->lse && is_there && thread_id() % ROW_THREADS == 0 ? lse : NULL);
    return places;
}

/* Maximum and sum of a row over all teams, and what each team's part of it is worth. */
static __device__ __forceinline__ float2 join_row(shared_tiles *shared, int row,
                                                  float worth[TEAMS])
{
    const float largest = largest_of_teams(shared->max[row]);
    const float base = exponent_base(largest);
    float sum = 0.0f;
#pragma unroll
    for (int team = 0; team < TEAMS; team++) {
        worth[team] = exp2_approx(shared->max[row][team] - base);
        sum += shared->sum[row][team] * worth[team];
    }
    return make_float2(largest, sum);
}

/* A thread's chunk of its row, over all teams: its first four columns, and the others. */
typedef float chunk_sums[2][4];

static __device__ __forceinline__ void join_chunk(chunk_sums joined, shared_tiles *shared,
                                                  int chunk, const float worth[TEAMS],
                                                  float factor)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float *sums = joined[half];
#pragma unroll
        for (int team = 0; team < TEAMS; team++) {
            const float4 part = *(const float4 *)(TEAM_SUMS(shared, team)[joined_row()][half] +
                                                  joined_column(chunk) / 2);
            sums[0] = team == 0 ? part.x * worth[0] : fmaf(part.x, worth[team], sums[0]);
            sums[1] = team == 0 ? part.y * worth[0] : fmaf(part.y, worth[team], sums[1]);
            sums[2] = team == 0 ? part.z * worth[0] : fmaf(part.z, worth[team], sums[2]);
            sums[3] = team == 0 ? part.w * worth[0] : fmaf(part.w, worth[team], sums[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[i] *= factor;
    }
}

/* One split's row, for merge.cu. */
static __device__ __forceinline__ long long partial_row(const attention_args *args,
                                                        const sequence_share *share, int split,
                                                        int packed_row)
{
    return (((long long)split * args->batch + share->batch) * args->q_heads +
            head_of(args, share, packed_row)) *
               args->q_length +
           row_of(args, packed_row);
}

/* A chunk is a sector of 32 bytes. Two threads write it together, first the one's, then the
 * other's: with each its own, every store would be half sectors. */
static __device__ __forceinline__ void store_partial(const attention_args *args,
                                                     long long partial_row, int column,
                                                     const chunk_sums joined, int is_there)
{
    const int odd = thread_id() % 2;
    float first[4], second[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float other = __shfl_xor_sync(ALL_LANES, odd ? joined[0][i] : joined[1][i], 1);
        first[i] = odd ? other : joined[0][i];
        second[i] = odd ? joined[1][i] : other;
    }
    column += odd * (4 - CHUNK);
    float *place = args->partial_out + partial_row * partial_stride(args) + column;
    if (is_there && column < args->value_dim)
        *(float4 *)place = make_float4(first[0], first[1], first[2], first[3]);
    if (is_there && column + CHUNK < args->value_dim)
        *(float4 *)(place + CHUNK) = make_float4(second[0], second[1], second[2], second[3]);
}

static __device__ __forceinline__ void store_chunk(const attention_args *args,
                                                   const sequence_share *share, int row,
                                                   int column, element *place,
                                                   const chunk_sums joined)
{
    if (!FEATURES || args->more.vector_stores) {
        /* No branch: the compiler would look for the sums behind it. */
        store_global_16_if(place,
                           make_uint4(pack_elements(joined[0][0], joined[0][1]),
                                      pack_elements(joined[0][2], joined[0][3]),
                                      pack_elements(joined[1][0], joined[1][1]),
                                      pack_elements(joined[1][2], joined[1][3])),
                           place != NULL);
        return;
    }
    if (row >= share->rows)
        return;
    const long long index = q_index(args, share, STRIDES(args, out), row);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (column + i < args->value_dim)
            store_element(args, index + (column + i) * DIM_STRIDE(STRIDES(args, out)),
                          joined[i / 4][i % 4]);
}

/* Rows that hidden values made infinite or NaN, once more. A warp has joined those of its threads. */
static __device__ __forceinline__ void mend_rows(const attention_args *args,
                                                 const sequence_share *share, int first_row,
                                                 const chunk_sums joined)
{
    const unsigned threads = lanes_not_finite(joined, 2, 0) | lanes_not_finite(joined, 2, 1);
    if (!threads)
        return;
    const sequence_share copy = *share; /* a function that is called wants it in memory */
#pragma unroll 1
    for (int lane = 0; lane < WARP_LANES; lane += ROW_THREADS) {
        const int row = first_row + (thread_id() - lane_id() + lane) / ROW_THREADS;
        if ((threads >> lane & ((1u << ROW_THREADS) - 1)) && row < copy.rows)
            compute_row_again(args, &copy, row, 0, args->value_dim);
    }
}

static __device__ __forceinline__ void join_teams(const attention_args *args,
                                                  const sequence_share *share,
                                                  shared_tiles *shared, int first_row, int split,
                                                  const thread_places *places)
{
    const int is_split = !ONE_ROUND && args->splits.divisor > 1;
    const int row = first_row + joined_row();
    float worth[TEAMS];
    chunk_sums joined;
    const float2 max_sum = join_row(shared, joined_row(), worth);
    const row_end end = finish_row(args, max_sum.x, max_sum.y, head_of(args, share, row),
                                   !ONE_ROUND && !is_split);
    const long long partial = is_split ? partial_row(args, share, split, row) : 0;
#pragma unroll
    for (int i = 0; i < ROW_CHUNKS; i++) {
        join_chunk(joined, shared, i, worth, end.factor);
        if (is_split)
            store_partial(args, partial, joined_column(i), joined, row < share->rows);
        else
            store_chunk(args, share, row, joined_column(i), places->out[i], joined);
    }
    if (is_split && thread_id() % ROW_THREADS == 0 && row < share->rows)
        args->partial_lse[partial] = lse_log2_of(end);
    if (!is_split && places->lse)
        *places->lse = lse_log2_of(end) * LN_2;
    if (ROUND_HIDES)
        mend_rows(args, share, first_row, joined);
}

#endif
