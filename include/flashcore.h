/* flashcore.h: fused scaled-dot-product attention, out = softmax(Q·Kᵀ·scale + bias)·V.
 *
 * The shortest use, one call (examples/attend.c is the whole program):
 *
 *     fc_context *ctx;
 *     fc_context_create(NULL, &ctx);               // the CPU, default options
 *
 *     fc_attention problem = fc_attention_init();  // what to compute
 *     problem.batch = 1;  problem.q_heads = 8;  problem.kv_heads = 8;
 *     problem.q_length = 512;  problem.kv_length = 512;  problem.head_dim = 64;
 *     problem.q_type = FC_F16;
 *
 *     fc_buffers buffers = fc_buffers_init();      // where the data is
 *     buffers.q = q;  buffers.k = k;  buffers.v = v;  buffers.out = out;
 *
 *     if (fc_attend(ctx, &problem, &buffers, NULL) != FC_OK)
 *         puts(fc_last_error());
 *
 * The same in two steps, with nothing hidden: fc_plan_create validates the problem and chooses a
 * kernel once; fc_plan_forward then only checks the pointers and runs.
 *
 * Numeric contract, the same on every backend:
 *   - Accumulation is in FP32 or better. The error against a double-precision result is at most
 *     twice that of the unfused computation in the same type, and below 1e-3 for FP16 inputs
 *     drawn from a unit normal distribution. With a larger scale than the default few keys may
 *     have nearly all the weight, and results be as large as single values; then below 2^-10 of
 *     the largest, half of it for rounding weights to FP16, and half for the result. Scores of
 *     16-bit inputs under a soft-cap may be wrong by 2^-22 of the cap, and LSE by 2^-23 of the
 *     largest scale · q·k for every 16 dims, because tensor cores cut sums off.
 *   - A key is visible to a query row when it is within the sequence, the causal and window
 *     limits and the mask, and its bias is not -inf. Nothing else reaches the output: padding,
 *     masked keys and memory past the end may hold NaN.
 *   - A row with no visible key gives out = 0 and LSE = -inf (with a sink: LSE = the sink).
 *   - NaN in a visible key gives NaN in the rows that see it and in no other.
 *   - The same plan and inputs always give the same bits, whatever the number of threads. With
 *     batch_invariant set, a row's bits depend neither on the batch size nor on its neighbours.
 *
 * Nothing here prints, exits, synchronises or copies behind the caller's back. Every function may
 * be called from any thread; plans are immutable. */
#ifndef FLASHCORE_H
#define FLASHCORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FC_VERSION_MAJOR 0
#define FC_VERSION_MINOR 1
#define FC_VERSION_PATCH 0

#if defined(_WIN32)
#define FC_API
#else
#define FC_API __attribute__((visibility("default")))
#endif

/* ---- 1. Status ------------------------------------------------------------------------------ */

/* X(name, value, text) */
#define FC_STATUS_LIST(X)                                                               \
    X(FC_OK, 0, "success")                                                              \
    X(FC_ERROR_INVALID, 1, "an argument is out of range or contradicts another")        \
    X(FC_ERROR_UNSUPPORTED, 2, "valid, but no kernel here can do it")                   \
    X(FC_ERROR_WORKSPACE, 3, "the workspace is missing, too small or misaligned")       \
    X(FC_ERROR_MEMORY, 4, "out of memory")                                              \
    X(FC_ERROR_NO_DEVICE, 5, "the device is not there or this build does not serve it") \
    X(FC_ERROR_DRIVER, 6, "the device driver reported an error")

typedef enum fc_status {
#define FC_STATUS_ENUM(name, value, text) name = value,
    FC_STATUS_LIST(FC_STATUS_ENUM)
#undef FC_STATUS_ENUM
} fc_status;

FC_API const char *fc_status_name(fc_status status); /* "FC_ERROR_INVALID" */
FC_API const char *fc_status_text(fc_status status);

/* The sentence behind this thread's last status that was not FC_OK: it names the field, its value
 * and what was allowed. "" when there was none. Valid until this thread's next FlashCore call. */
FC_API const char *fc_last_error(void);

FC_API const char *fc_version(void); /* "0.1.0" */
FC_API const char *fc_build(void);   /* compiler, target and options of this library, one line */

/* ---- 2. Context: one device ------------------------------------------------------------------ */

typedef struct fc_context fc_context;

typedef int32_t fc_device_type;
enum { FC_CPU = 0, FC_CUDA = 1 };

typedef int32_t fc_log_level;
enum { FC_LOG_INFO = 0, FC_LOG_WARNING = 1 };
typedef void (*fc_log_function)(void *user, fc_log_level level, const char *message);

/* All-zero (but for struct_size) is the default: the CPU, all threads, kernels chosen by the table.
 */
typedef struct fc_context_options {
    size_t struct_size;
    fc_device_type device_type;
    int32_t device_index;
    int32_t threads;     /* CPU threads at most; 0: as many as OpenMP gives */
    int32_t reserved;    /* 0 */
    const char *kernel;  /* force kernels by name, "a" or "a,b"; NULL: what FLASHCORE_KERNEL says */
    fc_log_function log; /* NULL: silent */
    void *log_user;
} fc_context_options;

/* options may be NULL. Destroy the plans of a context before the context. */
FC_API fc_status fc_context_create(const fc_context_options *options, fc_context **context);
FC_API void fc_context_destroy(fc_context *context);

FC_API int fc_device_count(fc_device_type type);
FC_API const char *fc_context_device(const fc_context *context); /* its name, for people */

/* ---- 3. The problem -------------------------------------------------------------------------- */

typedef int32_t fc_type;
enum {
    FC_TYPE_AUTO = 0,
    FC_F32 = 1,
    FC_F16 = 2,
    FC_BF16 = 3,
    FC_F8_E4M3 = 4, /* the finite form: no infinities, largest value 448 */
    FC_F8_E5M2 = 5,
    FC_F64 = 6 /* served by the reference alone: for checks of gradients and kernels */
};
FC_API const char *fc_type_name(fc_type type); /* "f16"; NULL for what is no type */
FC_API size_t fc_type_bytes(fc_type type);     /* 0 for what is no type */

/* Distances in elements between neighbours. Four zeros mean dense: [batch][head][row][dim]; for
 * packed tensors [row][head][dim]; for paged ones [page][row][head][dim]. dim = 0 means 1. An input
 * may repeat itself (stride 0) or run backwards (negative); an output's elements must not overlap.
 */
typedef struct fc_strides {
    int64_t batch; /* of a paged tensor: from page to page; of a packed one: not used */
    int64_t head;
    int64_t row;
    int64_t dim;
} fc_strides;

/* Distances in elements of an input that may be shared: 0 repeats the value. */
typedef struct fc_broadcast {
    int64_t batch;
    int64_t head; /* query head */
    int64_t row;  /* query row */
    int64_t key;  /* 0 means 1 */
} fc_broadcast;

/* Which scale an FP8 element has: scale[b·batch + h·head + (row / block_rows)·block]. All zero is
 * one scale for the tensor; {.head = 1} one per head; block_rows > 0 one per block of rows, counted
 * from the first row of each sequence. */
typedef struct fc_scaling {
    int64_t batch;
    int64_t head;
    int64_t block;
    int64_t block_rows;
} fc_scaling;

typedef int32_t fc_diagonal;
enum {
    FC_BOTTOM_RIGHT =
        0,          /* the last query row stands at the last key: p = i + kv_length - q_length */
    FC_TOP_LEFT = 1 /* the first query row stands at the first key: p = i */
};

/* What is to be computed; all zero (but for struct_size) is the default of every field:
 *
 *   score[i][j] = cap(scale · q[i]·k[j]) + alibi + bias     cap(x) = softcap · tanh(x / softcap)
 *   out[i]      = Σ_j  exp(score[i][j] - lse[i]) · dropout[i][j] · v[j]
 *   lse[i]      = log(exp(sink) + Σ_j exp(score[i][j]))     natural logarithm, FP32
 *
 * with j over the keys visible to row i. Row i stands at position p (see fc_diagonal), lengths
 * being those of its own sequence; query head h uses KV head h / (q_heads / kv_heads). */
typedef struct fc_attention {
    size_t struct_size;

    /* Sizes. For packed queries or keys, and where kv_lengths are given, the lengths here are the
     * longest of any sequence. */
    int64_t batch;
    int64_t q_heads;
    int64_t kv_heads; /* divides q_heads */
    int64_t q_length;
    int64_t kv_length;
    int64_t head_dim;  /* 1 to 576 */
    int64_t value_dim; /* 0: head_dim */

    fc_strides q_strides, k_strides, v_strides, out_strides;
    fc_strides lse_strides; /* dim is not used; packed queries: [head][row] when dense */

    /* Backward. */
    fc_strides dout_strides, dq_strides, dk_strides, dv_strides;

    /* Packed sequences, one after another without padding, found by cumulative lengths
     * (fc_buffers.cu_q, cu_kv: batch + 1 row numbers, the first 0). Rows of the whole tensor: */
    int64_t packed_q_rows;
    int64_t packed_kv_rows;

    /* Paged keys and values: row j of sequence b is row j % page_size of the page
     * page_table[b · page_table_stride + j / page_size]. */
    int64_t page_size;
    int64_t page_count;        /* pages that K and V hold */
    int64_t page_table_stride; /* 0: ceil(kv_length / page_size) */

    /* Window: row i sees the keys p - window_left … p + window_right; -1 is no limit. With causal
     * window_right is 0 or -1. */
    int64_t window_left;
    int64_t window_right;

    int64_t alibi_batch_stride; /* slopes: alibi[b · stride + h]; 0 shares them */
    fc_broadcast bias_strides;  /* bias[b][h][i][j], added to the score */
    fc_broadcast mask_strides;  /* mask[b][h][i][j], bytes: 0 hides the key, 1 shows it */
    fc_scaling q_scaling, k_scaling, v_scaling; /* FP8 */

    fc_type q_type;
    fc_type kv_type;   /* AUTO: q_type */
    fc_type out_type;  /* AUTO: q_type, for FP8 BF16; gradients have this type too; never FP8 */
    fc_type bias_type; /* AUTO: FC_F32 */

    float scale;     /* 0: 1 / sqrt(head_dim), rounded to FP32 */
    float softcap;   /* 0: off */
    float dropout_p; /* probability of dropping, 0 <= p < 1; kept weights grow by 1 / (1 - p) */

    /* Switches, 0 or 1. Those named has_… say that fc_buffers brings the input. */
    int32_t causal; /* row i sees the keys up to p */
    fc_diagonal diagonal;
    int32_t has_window;
    int32_t has_alibi; /* adds -slope · |p - j| */
    int32_t has_bias;
    int32_t has_mask;
    int32_t has_sinks;      /* one more logit per query head, with no value behind it */
    int32_t has_kv_lengths; /* sequence b has kv_lengths[b] keys: padded or paged ones */
    int32_t packed_q;
    int32_t packed_kv;
    int32_t paged;
    int32_t batch_invariant;

    /* A CUDA kernel of sm_90 may start while the one before it in the stream still ends; it waits
     * for that one's memory before it touches any (programmatic dependent launch). */
    int32_t dependent_launch;
} fc_attention;

/* Dropout keeps (i, j) of sequence b, head h when r >= p · 2³². r is word j % 4 of Philox4x32-10
 * for the counter { j / 4, i, b · q_heads + h, low half of offset } and the key { low half of seed,
 * high half of seed ^ high half of offset }: the same on every backend. */

/* ---- 4. The data ----------------------------------------------------------------------------- */

/* Pointers to the device's memory (host memory on the CPU), aligned to their element. */
typedef struct fc_buffers {
    size_t struct_size;
    const void *q;
    const void *k;
    const void *v;
    void *out;  /* fc_plan_backward reads it */
    float *lse; /* NULL: not wanted; fc_plan_backward reads it */

    const float *q_scale; /* FP8; NULL: 1 */
    const float *k_scale;
    const float *v_scale;
    const float *alibi;
    const void *bias;
    const uint8_t *mask;
    const float *sinks; /* one per query head */
    const int32_t *cu_q;
    const int32_t *cu_kv;
    const int32_t *kv_lengths;
    const int32_t *page_table;
    uint64_t dropout_seed;
    uint64_t dropout_offset;

    void *workspace; /* FC_WORKSPACE_ALIGNMENT; may be NULL where none is needed */
    size_t workspace_bytes;
} fc_buffers;

/* With FP8 inputs, gradients are those of the values: the element times its scale. */
typedef struct fc_gradients {
    size_t struct_size;
    const void *dout;
    void *dq; /* each written whole: a key that nobody saw gets 0 */
    void *dk; /* paged: the sum over all sequences that hold the page */
    void *dv;
    float *dbias;  /* NULL, or FP32 in the layout of the bias, summed where that repeats */
    float *dsinks; /* NULL, or one per query head */
} fc_gradients;

#define FC_WORKSPACE_ALIGNMENT 256

typedef void *fc_stream; /* CUstream of a CUDA context's device; NULL on the CPU */

/* ---- 5. Running ------------------------------------------------------------------------------ */

typedef struct fc_plan fc_plan;
typedef int32_t fc_direction;
enum { FC_FORWARD = 0, FC_BACKWARD = 1 };

FC_API fc_status fc_plan_create(fc_context *context, const fc_attention *problem, fc_plan **plan);
FC_API void fc_plan_destroy(fc_plan *plan);

/* NULL when no kernel here can do that direction. */
FC_API const char *fc_plan_kernel(const fc_plan *plan, fc_direction direction);
FC_API size_t fc_plan_workspace_bytes(const fc_plan *plan, fc_direction direction);

FC_API fc_status fc_plan_forward(const fc_plan *plan, const fc_buffers *buffers, fc_stream stream);

/* buffers as in the forward call, with its out and lse; the same dropout seed and offset. */
FC_API fc_status fc_plan_backward(const fc_plan *plan, const fc_buffers *buffers,
                                  const fc_gradients *gradients, fc_stream stream);

/* Plan and forward in one: the plan comes from the context's cache. Where buffers->workspace is
 * NULL and the kernel needs one, a CPU context lends memory that it keeps until it is destroyed. */
FC_API fc_status fc_attend(fc_context *context, const fc_attention *problem,
                           const fc_buffers *buffers, fc_stream stream);

/* ---- 6. Which kernel, and why not another ------------------------------------------------------
 */

typedef struct fc_kernel_info {
    size_t struct_size;
    const char *name;
    const char *summary;
    fc_direction direction;
    int32_t accepts; /* 1: could run this problem on this context */
    int32_t chosen;  /* 1: would run it */
    int32_t reserved;
    char reason[240]; /* why it does not accept; "" when it does */
} fc_kernel_info;

/* Kernels in the order of preference: of those that accept a problem the first runs it. */
FC_API int fc_kernel_count(void);
FC_API fc_status fc_kernel_query(fc_context *context, const fc_attention *problem, int index,
                                 fc_kernel_info *info);

/* ---- Initialisers: every field's default, and the struct_size this header was compiled with ----
 */

#define FC_DEFINE_INIT(type)              \
    static inline type type##_init(void)  \
    {                                     \
        type value;                       \
        memset(&value, 0, sizeof value);  \
        value.struct_size = sizeof value; \
        return value;                     \
    }
FC_DEFINE_INIT(fc_context_options)
FC_DEFINE_INIT(fc_attention)
FC_DEFINE_INIT(fc_buffers)
FC_DEFINE_INIT(fc_gradients)
FC_DEFINE_INIT(fc_kernel_info)
#undef FC_DEFINE_INIT

#ifdef __cplusplus
}
#endif
#endif
