/* exchange.cuh: what the two blocks of a cluster send each other at the end of latency.cu.
 *
 * Each has summed over its half of the keys and finishes one half of the value dims, so that it needs
 * the other's maximum and sum, and the other's sums for that half. A thread sends to the thread of the
 * same number; st.async counts what comes on an mbarrier of the block that it comes to.
 *
 * Where all blocks send at once, each gets 14 bytes a clock. So nothing is sent twice, and of a sum as
 * few bytes as its result allows. */
#ifndef FC_SM90_EXCHANGE_CUH
#define FC_SM90_EXCHANGE_CUH

#include "ptx_bulk.cuh"
#include "ptx_cluster.cuh"
#include "sm90/weights.cuh"

/* 1: rows that see few keys see them in one tile, which both blocks then take: what they have summed
 * is whole, and nothing of what comes from the other counts. */
#define BOTH_TAKE_FEW (FIRST_KEYS && ONE_TILE && KV_TILE >= 2 * FEW_KEYS)

/* Of a sum that is sent. Results of many keys are small: 24 bits do, 16 of them significant, where the
 * result has 11 or 8. Results of few keys may lie between 2 and 4: there flashcore.h allows 2^-15 more
 * than what rounding to f16 takes, and 24 bits leave out up to 2^-14. */
#define SUM_BYTES (ALL_KEYS || BOTH_TAKE_FEW ? 3 : 4)
#define HALF_CHUNKS (OUT_TILES / 2 * 4 * SUM_BYTES / 16)
static_assert(OUT_TILES / 2 * 4 * SUM_BYTES % 16 == 0, "a half is whole chunks");

/* What comes from the other block. */
typedef struct exchange {
    uint4 state[CONSUMER_THREADS / 4]; /* maximum and sum of two rows, which four lanes share */
    uint4 half[HALF_CHUNKS][CONSUMER_THREADS];
    mbarrier state_there, half_there;
} exchange;

static __device__ __forceinline__ void make_exchange_barriers(exchange *other)
{
    mbarrier_init(&other->state_there, 1);
    mbarrier_arrive_expect(&other->state_there, (int)sizeof other->state);
    mbarrier_init(&other->half_there, 1);
    mbarrier_arrive_expect(&other->half_there, (int)sizeof other->half);
}

/* OUT_TILES / 2 × 8 value dims. */
typedef float half_sums[OUT_TILES / 2][4];

static __device__ __forceinline__ void take_half(half_sums half, const out_sums out, int which)
{
#pragma unroll
    for (int i = 0; i < OUT_TILES * 2; i++)
        half[i / 4][i % 4] = which ? out[0][i / 4 + OUT_TILES / 2][i % 4] : out[0][i / 4][i % 4];
}

static __device__ __forceinline__ uint4 pack_floats(float x, float y, float z, float w)
{
    return make_uint4(__float_as_uint(x), __float_as_uint(y), __float_as_uint(z),
                      __float_as_uint(w));
}

#if SUM_BYTES == 3

/* Four sums in three words: three in their lower bytes, the fourth in their upper ones. What is not
 * finite stays so. */
static __device__ __forceinline__ void pack_sums(unsigned words[3], const float sums[4])
{
    const unsigned fourth = __float_as_uint(sums[3]);
    words[0] = __byte_perm(__float_as_uint(sums[0]), fourth, 0x5321);
    words[1] = __byte_perm(__float_as_uint(sums[1]), fourth, 0x6321);
    words[2] = __byte_perm(__float_as_uint(sums[2]), fourth, 0x7321);
}

static __device__ __forceinline__ void unpack_sums(float sums[4], const unsigned words[3])
{
#pragma unroll
    for (int i = 0; i < 3; i++)
        sums[i] = __uint_as_float(words[i] << 8);
    sums[3] = __uint_as_float(__byte_perm(__byte_perm(words[0], words[1], 0x7300), words[2], 0x7320) &
                              ~0xffu);
}

#else

static __device__ __forceinline__ void pack_sums(unsigned words[4], const float sums[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = __float_as_uint(sums[i]);
}

static __device__ __forceinline__ void unpack_sums(float sums[4], const unsigned words[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] = __uint_as_float(words[i]);
}

#endif

/* Maximum and sum: known before the last values are multiplied, and needed first. Unless they count,
 * those of no key. */
static __device__ __forceinline__ void send_state(const softmax_state *softmax, int counts, int rank,
                                                  exchange *other)
{
    softmax_state sent = *softmax;
    if (!counts)
        forget(&sent);
    if (lane_id() % 4 == 0)
        store_cluster_async_16(cluster_address(&other->state[thread_id() / 4], 1 - rank),
                               pack_floats(sent.max[0], sent.max[1], sent.sum[0], sent.sum[1]),
                               cluster_address(&other->state_there, 1 - rank));
}

/* The half that the other block finishes. */
static __device__ __forceinline__ void send_half(const out_sums out, int rank,
                                                 exchange *other)
{
    const unsigned place = cluster_address(&other->half[0][thread_id()], 1 - rank);
    const unsigned barrier = cluster_address(&other->half_there, 1 - rank);
    half_sums sent;
    unsigned words[HALF_CHUNKS * 4];
    take_half(sent, out, 1 - rank);
#pragma unroll
    for (int n = 0; n < OUT_TILES / 2; n++)
        pack_sums(&words[n * SUM_BYTES], sent[n]);
#pragma unroll
    for (int i = 0; i < HALF_CHUNKS; i++)
        store_cluster_async_16(place + (unsigned)(i * CONSUMER_THREADS * (int)sizeof(uint4)),
                               make_uint4(words[i * 4], words[i * 4 + 1], words[i * 4 + 2],
                                          words[i * 4 + 3]),
                               barrier);
}

/* Both blocks' maximum and sum, and what each one's sums count for. Both find the same bits: both
 * products are rounded before they are added. */
static __device__ __forceinline__ void merge_softmax(softmax_state *softmax, float mine[LANE_ROWS],
                                                     float theirs[LANE_ROWS],
                                                     const exchange *other)
{
    const uint4 state = other->state[thread_id() / 4];
    const float their_max[LANE_ROWS] = {__uint_as_float(state.x), __uint_as_float(state.y)};
    const float their_sum[LANE_ROWS] = {__uint_as_float(state.z), __uint_as_float(state.w)};
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const float largest = fmaxf(softmax->max[r], their_max[r]);
        const float base = exponent_base(largest);
        mine[r] = exp2_approx(softmax->max[r] - base);
        theirs[r] = exp2_approx(their_max[r] - base);
        softmax->sum[r] = __fadd_rn(__fmul_rn(softmax->sum[r], mine[r]),
                                    __fmul_rn(their_sum[r], theirs[r]));
        softmax->max[r] = largest;
    }
}

static __device__ __forceinline__ void add_received(half_sums half, const float theirs[LANE_ROWS],
                                                    const exchange *other)
{
    unsigned words[HALF_CHUNKS * 4];
#pragma unroll
    for (int i = 0; i < HALF_CHUNKS; i++) {
        const uint4 got = other->half[i][thread_id()];
        words[i * 4] = got.x;
        words[i * 4 + 1] = got.y;
        words[i * 4 + 2] = got.z;
        words[i * 4 + 3] = got.w;
    }
#pragma unroll
    for (int n = 0; n < OUT_TILES / 2; n++) {
        float part[4];
        unpack_sums(part, &words[n * SUM_BYTES]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            half[n][i] = fmaf(part[i], theirs[i / 2], half[n][i]);
    }
}

#endif
