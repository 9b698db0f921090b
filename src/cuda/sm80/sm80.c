/* sm80.c: the host side of the sm_80 kernels: what they accept, which variant and how many blocks a
 * problem gets, and the launches. */
#include "cuda/sm80/sm80.h"

#include "cuda/attention_args.h"
#include "cuda/tuned.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_GRID_YZ = 65535,
    MOST_ROWS = 1 << 30, /* so that positions and windows add up in an int */
    CHUNK = 8,           /* elements of 16 bytes */
    VARIANT_BYTES = 64,
    PREFILL_ROWS = 128,
    LATENCY_ROWS = 16,
    /* A split takes at least this many keys: joining splits costs a launch. */
    LEAST_SPLIT_KEYS = 512,
    SPLIT_STEP = 256, /* splits begin at its multiples: whole tiles of every variant */
    /* Keys of a split where a row's bits may not depend on how busy the GPU is. */
    INVARIANT_SPLIT_KEYS = 2048,
    MOST_SPLITS = 64,
};

typedef struct sm80_plan {
    attention_args args;           /* all but the pointers */
    const fc_cuda_function *plain; /* NULL where the problem needs the variant with features */
    const fc_cuda_function *full;
    const fc_cuda_function *merge; /* NULL where the keys are not split over blocks */
} sm80_plan;

/* ---- What is accepted ---- */

static const char *refuse_types(const fc_attention *p)
{
    if (p->q_type != FC_F16 && p->q_type != FC_BF16)
        return fc_refuse("q_type = %s; it takes f16 and bf16", fc_type_name(p->q_type));
    if (p->kv_type != p->q_type)
        return fc_refuse("kv_type = %s is not q_type = %s", fc_type_name(p->kv_type),
                         fc_type_name(p->q_type));
    if (p->out_type == FC_F64)
        return "out_type = f64; it writes f32, f16 and bf16";
    if (p->has_bias && p->bias_type != FC_F32 && p->bias_type != FC_F16 && p->bias_type != FC_BF16)
        return fc_refuse("bias_type = %s; it takes f32, f16 and bf16", fc_type_name(p->bias_type));
    return NULL;
}

static const char *refuse_sizes(const fc_attention *p)
{
    const int64_t rows[] = {p->q_length, p->kv_length, p->packed_q_rows, p->packed_kv_rows};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i] > MOST_ROWS)
            return fc_refuse("a length of " I64 "; it counts up to %d", rows[i], (int)MOST_ROWS);
    if (p->q_heads > MOST_GRID_YZ)
        return fc_refuse("q_heads = " I64 "; a grid has room for %d", p->q_heads, MOST_GRID_YZ);
    if (p->paged && (p->page_size > MOST_ROWS || p->page_count > INT32_MAX))
        return fc_refuse("page_size = " I64 ", page_count = " I64 " are too many", p->page_size,
                         p->page_count);
    if (p->batch > INT32_MAX / (p->q_heads ? p->q_heads : 1))
        return fc_refuse("batch = " I64 " is too large", p->batch);
    return NULL;
}

static const char *accepts(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    if (!context->cuda)
        return "it runs on CUDA devices";
    if (context->cuda->compute_capability < 80)
        return fc_refuse("compute capability %d.%d; it needs 8.0",
                         context->cuda->compute_capability / 10,
                         context->cuda->compute_capability % 10);
    const char *reason = refuse_types(p);
    return reason ? reason : refuse_sizes(p);
}

static int64_t larger_dim(const fc_attention *p)
{
    return p->head_dim > p->value_dim ? p->head_dim : p->value_dim;
}

static const char *accepts_latency(const fc_kernel *self, const fc_context *context,
                                   const fc_attention *p)
{
    if (larger_dim(p) > 256)
        return fc_refuse("head_dim = " I64 ", value_dim = " I64 "; it has up to 256", p->head_dim,
                         p->value_dim);
    return accepts(self, context, p);
}

/* ---- Which of the two ---- */

static int64_t divide_up(int64_t number, int64_t by)
{
    return (number + by - 1) / by;
}

/* Query heads of one KV head whose rows share a tile: all of them where the rows of one leave it
 * mostly empty, so that K and V are read once for all. */
static int64_t packed_heads(const fc_attention *p, int64_t tile_rows)
{
    return p->q_length < tile_rows ? p->q_heads / p->kv_heads : 1;
}

/* Prefill gives a block 128 rows. Where that leaves more than half of the multiprocessors without
 * one, smaller tiles that split the keys are faster. */
static bool latency_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    const int64_t heads = p->q_heads / packed_heads(p, PREFILL_ROWS);
    const int64_t rows = p->q_length * packed_heads(p, PREFILL_ROWS);
    if (p->batch_invariant)
        return rows <= LATENCY_ROWS;
    return rows <= LATENCY_ROWS ||
           2 * p->batch * heads * divide_up(rows, PREFILL_ROWS) < context->cuda->multiprocessors;
}

/* ---- Variants ---- */

static bool is_chunked(fc_strides s)
{
    const int64_t strides[] = {s.batch, s.head, s.row};
    for (int i = 0; i < 3; i++)
        if (strides[i] % CHUNK || llabs(strides[i] / CHUNK) > INT32_MAX)
            return false;
    return s.dim == 1;
}

static bool reads_in_chunks(const fc_attention *p)
{
    return is_chunked(p->q_strides) && is_chunked(p->k_strides) && is_chunked(p->v_strides) &&
           p->head_dim % CHUNK == 0 && p->value_dim % CHUNK == 0;
}

static bool writes_in_chunks(const fc_attention *p)
{
    return is_chunked(p->out_strides) && p->value_dim % CHUNK == 0 && p->out_type == p->q_type;
}

static bool is_plain(const fc_attention *p)
{
    return reads_in_chunks(p) && writes_in_chunks(p) && !p->paged && !p->has_alibi &&
           !p->has_bias && !p->has_mask && p->softcap == 0 && p->dropout_p == 0 &&
           larger_dim(p) <= 256;
}

static int dim_of_variant(const fc_attention *p)
{
    static const int dims[] = {64, 128, 256};
    for (int i = 0; i < 3; i++)
        if (larger_dim(p) <= dims[i])
            return dims[i];
    return FC_MAX_DIM;
}

static fc_status find_function(const fc_plan *plan, const char *name,
                               const fc_cuda_function **function)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(name);
    if (!variant)
        return fc_fail(FC_ERROR_UNSUPPORTED, "this library was built without kernel %s", name);
    return fc_tuned_function(plan->context->cuda, variant, &plan->problem, function);
}

static fc_status find_functions(const fc_kernel *self, const fc_plan *plan, sm80_plan *s)
{
    const fc_attention *p = &plan->problem;
    char name[VARIANT_BYTES];
    for (int full = is_plain(p) ? 0 : 1; full < 2; full++) {
        snprintf(name, sizeof name, "%s_d%d_%s%s", self->name, dim_of_variant(p),
                 fc_type_name(p->q_type), full ? "_full" : "");
        FC_TRY(find_function(plan, name, full ? &s->full : &s->plain));
    }
    return s->args.splits.divisor > 1 ? find_function(plan, "sm80_merge", &s->merge) : FC_OK;
}

/* ---- The argument ---- */

static fast_divisor divisor_of(int64_t by)
{
    fast_divisor d = {.divisor = (int)by};
    int bits = 0; /* by <= 2^bits */
    while (((int64_t)1 << bits) < by)
        bits++;
    if (by > 1) {
        /* ceil(2^(31 + bits) / by) fits 32 bits; its error times n stays below 1 for n < 2^31. */
        d.magic = (unsigned)((((uint64_t)1 << (31 + bits)) + (uint64_t)by - 1) / (uint64_t)by);
        d.shift = bits - 1;
    }
    return d;
}

static element_strides elements_of(fc_strides s, bool packed)
{
    return (element_strides){
        .batch = packed ? 0 : s.batch, .head = s.head, .row = s.row, .dim = s.dim};
}

/* Read by the plain variants alone, which run where strides are whole chunks. */
static chunk_strides chunks_of(fc_strides s, bool packed)
{
    return (chunk_strides){.batch = packed ? 0 : (int)(s.batch / CHUNK),
                           .head = (int)(s.head / CHUNK),
                           .row = (int)(s.row / CHUNK)};
}

static broadcast_strides broadcast_of(fc_broadcast b)
{
    return (broadcast_strides){.batch = b.batch, .head = b.head, .row = b.row, .key = b.key};
}

static int window_of(int64_t window)
{
    return (int)(window > MOST_ROWS ? MOST_ROWS : window);
}

static attention_features features(const fc_attention *p)
{
    return (attention_features){
        .q_strides = elements_of(p->q_strides, p->packed_q),
        .k_strides = elements_of(p->k_strides, p->packed_kv),
        .v_strides = elements_of(p->v_strides, p->packed_kv),
        .out_strides = elements_of(p->out_strides, p->packed_q),
        .bias_strides = broadcast_of(p->bias_strides),
        .mask_strides = broadcast_of(p->mask_strides),
        .alibi_batch_stride = p->alibi_batch_stride,
        .page_table_stride = p->page_table_stride,
        .page_size = divisor_of(p->paged ? p->page_size : 0),
        .page_count = (int)p->page_count,
        .value_slices = divisor_of(1),
        .vector_stores = writes_in_chunks(p),
        .out_type = p->out_type,
        .bias_type = p->bias_type,
        .softcap = p->softcap,
        .dropout_threshold = (unsigned)ceil((double)p->dropout_p * 4294967296.0),
    };
}

static attention_args arguments(const fc_attention *p)
{
    return (attention_args){
        .q_chunks = chunks_of(p->q_strides, p->packed_q),
        .k_chunks = chunks_of(p->k_strides, p->packed_kv),
        .v_chunks = chunks_of(p->v_strides, p->packed_kv),
        .out_chunks = chunks_of(p->out_strides, p->packed_q),
        .lse_strides = elements_of(p->lse_strides, p->packed_q),
        .batch = (int)p->batch,
        .q_heads = (int)p->q_heads,
        .heads_per_kv = divisor_of(p->q_heads / p->kv_heads),
        .packed_heads = divisor_of(1),
        .q_length = (int)p->q_length,
        .kv_length = (int)p->kv_length,
        .packed_q_rows = (int)p->packed_q_rows,
        .packed_kv_rows = (int)p->packed_kv_rows,
        .head_dim = (int)p->head_dim,
        .value_dim = (int)p->value_dim,
        .top_left = p->diagonal == FC_TOP_LEFT,
        .window_left = window_of(p->window_left),
        .window_right = window_of(p->window_right),
        .splits = divisor_of(1),
        .keys_per_split = (int)p->kv_length,
        .scale = p->scale,
        .dropout_scale = (float)(1 / (1 - (double)p->dropout_p)),
        .more = features(p),
    };
}

/* Splits that give every multiprocessor a block. It is asked for the workspace before there is a
 * plan, and again for the plan. */
static void split_keys(const fc_context *context, const fc_attention *p, attention_args *args)
{
    const int64_t packed = args->packed_heads.divisor;
    const int64_t blocks =
        p->batch * (p->q_heads / packed) * divide_up(p->q_length * packed, LATENCY_ROWS);
    int64_t splits = blocks > 0 ? context->cuda->multiprocessors / blocks : 1;
    if (splits > p->kv_length / LEAST_SPLIT_KEYS)
        splits = p->kv_length / LEAST_SPLIT_KEYS;
    if (p->batch_invariant)
        splits = divide_up(p->kv_length, INVARIANT_SPLIT_KEYS);
    if (splits > MOST_SPLITS)
        splits = MOST_SPLITS;
    if (splits < 2)
        return;
    const int64_t keys = divide_up(divide_up(p->kv_length, splits), SPLIT_STEP) * SPLIT_STEP;
    args->keys_per_split = (int)keys;
    args->splits = divisor_of(divide_up(p->kv_length, keys));
}

static attention_args latency_arguments(const fc_context *context, const fc_attention *p)
{
    attention_args args = arguments(p);
    args.packed_heads = divisor_of(packed_heads(p, LATENCY_ROWS));
    split_keys(context, p, &args);
    return args;
}

static attention_args prefill_arguments(const fc_attention *p)
{
    enum { WIDEST_SLICE = 128 }; /* value dims of a block of the variant for large dims */
    attention_args args = arguments(p);
    args.packed_heads = divisor_of(packed_heads(p, PREFILL_ROWS));
    if (larger_dim(p) > 256)
        args.more.value_slices = divisor_of(divide_up(p->value_dim, WIDEST_SLICE));
    return args;
}

/* ---- Plans ---- */

static size_t no_workspace(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    (void)context;
    (void)p;
    return 0;
}

static size_t partial_rows(const attention_args *args)
{
    return (size_t)args->splits.divisor * (size_t)args->batch * (size_t)args->q_heads *
           (size_t)args->q_length;
}

/* Each split leaves a row's output and its logarithm of the sum. */
static size_t latency_workspace(const fc_kernel *self, const fc_context *context,
                                const fc_attention *p)
{
    (void)self;
    const attention_args args = latency_arguments(context, p);
    return args.splits.divisor > 1
               ? partial_rows(&args) * ((size_t)p->value_dim + 1) * sizeof(float)
               : 0;
}

static fc_status prepare(const fc_kernel *self, const fc_plan *plan, const attention_args *args,
                         void **prepared)
{
    sm80_plan *s = calloc(1, sizeof *s);
    if (!s)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a plan");
    s->args = *args;
    const fc_status status = find_functions(self, plan, s);
    if (status == FC_OK)
        *prepared = s;
    else
        free(s);
    return status;
}

static fc_status prepare_prefill(const fc_kernel *self, const fc_plan *plan, void **prepared)
{
    const attention_args args = prefill_arguments(&plan->problem);
    return prepare(self, plan, &args, prepared);
}

static fc_status prepare_latency(const fc_kernel *self, const fc_plan *plan, void **prepared)
{
    const attention_args args = latency_arguments(plan->context, &plan->problem);
    return prepare(self, plan, &args, prepared);
}

/* ---- Runs ---- */

static bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % 16 == 0;
}

static void set_pointers(attention_args *args, const fc_buffers *b)
{
    args->q = b->q;
    args->k = b->k;
    args->v = b->v;
    args->out = b->out;
    args->lse = b->lse;
    args->cu_q = b->cu_q;
    args->cu_kv = b->cu_kv;
    args->kv_lengths = b->kv_lengths;
    args->sinks = b->sinks;
    args->more.page_table = b->page_table;
    args->more.alibi = b->alibi;
    args->more.bias = b->bias;
    args->more.mask = b->mask;
    args->more.dropout_seed[0] = (unsigned)b->dropout_seed;
    args->more.dropout_seed[1] = (unsigned)(b->dropout_seed >> 32);
    args->more.dropout_offset[0] = (unsigned)b->dropout_offset;
    args->more.dropout_offset[1] = (unsigned)(b->dropout_offset >> 32);
    if (args->splits.divisor > 1) {
        args->partial_lse = b->workspace;
        args->partial_out = args->partial_lse + partial_rows(args);
    }
}

/* A grid holds so many sequences; more of them take more launches. */
static fc_status launch(const fc_plan *plan, const fc_cuda_function *function, attention_args *args,
                        int64_t blocks_x, int64_t blocks_y, fc_stream stream)
{
    const int64_t batch = plan->problem.batch;
    for (int64_t first = 0; first < batch; first += MOST_GRID_YZ) {
        const int64_t left = batch - first;
        args->first_batch = (int)first;
        const fc_cuda_launch one = {
            .function = function,
            .grid = {(unsigned)blocks_x, (unsigned)blocks_y,
                     (unsigned)(left < MOST_GRID_YZ ? left : MOST_GRID_YZ)},
            .args = args,
        };
        FC_TRY(fc_cuda_run(plan->context->cuda, &one, stream));
    }
    return FC_OK;
}

static fc_status run(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                     fc_stream stream)
{
    (void)g;
    const fc_attention *p = &plan->problem;
    const sm80_plan *s = plan->prepared[FC_FORWARD];
    if (p->batch == 0 || p->q_length == 0)
        return FC_OK;
    attention_args args = s->args;
    set_pointers(&args, b);
    const bool inputs_aligned = is_aligned(b->q) && is_aligned(b->k) && is_aligned(b->v);
    const bool plain = s->plain && inputs_aligned && is_aligned(b->out);
    const fc_cuda_function *function = plain ? s->plain : s->full;
    args.more.vector_loads = inputs_aligned && reads_in_chunks(p);
    args.more.vector_stores = args.more.vector_stores && is_aligned(b->out);
    const int64_t packed = args.packed_heads.divisor;
    const int64_t tiles = divide_up(p->q_length * packed, function->shape.query_tile);
    FC_TRY(launch(plan, function, &args,
                  tiles * args.splits.divisor * args.more.value_slices.divisor, p->q_heads / packed,
                  stream));
    return s->merge ? launch(plan, s->merge, &args,
                             divide_up(p->q_length, s->merge->shape.query_tile), p->q_heads, stream)
                    : FC_OK;
}

const fc_kernel fc_sm80_prefill = {
    .name = "sm80_prefill",
    .summary = "tensor cores of sm_80 and newer, many query rows, every feature",
    .direction = FC_FORWARD,
    .accepts = accepts,
    .workspace_bytes = no_workspace,
    .prepare = prepare_prefill,
    .run = run,
};

const fc_kernel fc_sm80_latency = {
    .name = "sm80_latency",
    .summary = "tensor cores of sm_80 and newer, few query rows, the keys split over warps",
    .direction = FC_FORWARD,
    .accepts = accepts_latency,
    .suits = latency_suits,
    .workspace_bytes = latency_workspace,
    .prepare = prepare_latency,
    .run = run,
};
