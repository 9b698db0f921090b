/* attention.c: what the hosts of the attention kernels share. */
#include "cuda/attention.h"

#include "cuda/tuned.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum {
    MOST_GRID_YZ = 65535,
    MOST_ROWS = 1 << 30 /* so that positions and windows add up in an int */
};

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

/* Whether they fit an int. */
static bool are_small(fc_strides s)
{
    return llabs(s.batch) <= INT32_MAX && llabs(s.head) <= INT32_MAX && llabs(s.row) <= INT32_MAX;
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
    if (!are_small(p->lse_strides))
        return fc_refuse("a stride of lse is more than %d elements", INT32_MAX);
    return NULL;
}

const char *fc_cuda_refuse(const fc_context *context, const fc_attention *p)
{
    if (!context->cuda)
        return "it runs on CUDA devices";
    const char *reason = refuse_types(p);
    return reason ? reason : refuse_sizes(p);
}

int64_t fc_divide_up(int64_t number, int64_t by)
{
    return (number + by - 1) / by;
}

int64_t fc_cuda_larger_dim(const fc_attention *p)
{
    return p->head_dim > p->value_dim ? p->head_dim : p->value_dim;
}

static bool is_chunked(fc_strides s)
{
    const int64_t strides[] = {s.batch, s.head, s.row};
    for (int i = 0; i < 3; i++)
        if (strides[i] % FC_CUDA_CHUNK || llabs(strides[i] / FC_CUDA_CHUNK) > INT32_MAX)
            return false;
    return s.dim == 1;
}

bool fc_cuda_reads_in_chunks(const fc_attention *p)
{
    return is_chunked(p->q_strides) && is_chunked(p->k_strides) && is_chunked(p->v_strides) &&
           p->head_dim % FC_CUDA_CHUNK == 0 && p->value_dim % FC_CUDA_CHUNK == 0;
}

bool fc_cuda_writes_in_chunks(const fc_attention *p)
{
    return is_chunked(p->out_strides) && p->value_dim % FC_CUDA_CHUNK == 0 &&
           p->out_type == p->q_type;
}

bool fc_cuda_is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % 16 == 0;
}

bool fc_cuda_is_plain(const fc_attention *p)
{
    return !p->paged && !p->has_alibi && !p->has_bias && !p->has_mask && p->softcap == 0 &&
           p->dropout_p == 0;
}

bool fc_cuda_is_dense(const fc_attention *p)
{
    return !p->packed_q && !p->packed_kv && !p->has_kv_lengths && !p->has_sinks;
}

bool fc_cuda_has_limits(const fc_attention *p)
{
    return p->window_left >= 0 || p->window_right >= 0;
}

bool fc_cuda_ends_with_row(const fc_attention *p)
{
    return p->window_left < 0 && p->window_right >= 0;
}

/* ---- Kernels ---- */

fc_status fc_cuda_find_kernel(const fc_plan *plan, const char *name,
                              const fc_cuda_function **function)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(name);
    if (!variant)
        return fc_fail(FC_ERROR_UNSUPPORTED, "this library was built without kernel %s", name);
    return fc_tuned_function(plan->context->cuda, variant, &plan->problem, function);
}

/* ---- The argument ---- */

fast_divisor fc_cuda_divisor(int64_t by)
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

/* In units of so many elements. */
static row_strides rows_of(fc_strides s, int unit, bool packed)
{
    return (row_strides){.batch = packed ? 0 : (int)(s.batch / unit),
                         .head = (int)(s.head / unit),
                         .row = (int)(s.row / unit)};
}

/* Read by the plain variants alone, which run where strides are whole chunks. */
static row_strides chunks_of(fc_strides s, bool packed)
{
    return rows_of(s, FC_CUDA_CHUNK, packed);
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
        .page_size = fc_cuda_divisor(p->paged ? p->page_size : 0),
        .page_count = (int)p->page_count,
        .value_slices = fc_cuda_divisor(1),
        .vector_stores = fc_cuda_writes_in_chunks(p),
        .out_type = p->out_type,
        .bias_type = p->bias_type,
        .softcap = p->softcap,
        .dropout_scale = (float)(1 / (1 - (double)p->dropout_p)),
        .dropout_threshold = (unsigned)ceil((double)p->dropout_p * 4294967296.0),
    };
}

static_assert(offsetof(attention_args, q) == ATTENTION_ARGS_FIRST_BYTES &&
                  offsetof(attention_args, out) == ATTENTION_ARGS_FIRST_BYTES + 64 &&
                  offsetof(attention_args, cu_q) == ATTENTION_ARGS_FIRST_BYTES + 128 &&
                  offsetof(attention_args, packed_q_rows) == ATTENTION_ARGS_FIRST_BYTES + 192,
              "lines of 64 bytes");

attention_args fc_cuda_arguments(const fc_attention *p)
{
    return (attention_args){
        .q_chunks = chunks_of(p->q_strides, p->packed_q),
        .k_chunks = chunks_of(p->k_strides, p->packed_kv),
        .v_chunks = chunks_of(p->v_strides, p->packed_kv),
        .out_chunks = chunks_of(p->out_strides, p->packed_q),
        .lse_strides = rows_of(p->lse_strides, 1, p->packed_q),
        .batch = (int)p->batch,
        .q_heads = (int)p->q_heads,
        .heads_per_kv = fc_cuda_divisor(p->q_heads / p->kv_heads),
        .packed_heads = fc_cuda_divisor(1),
        .q_length = (int)p->q_length,
        .kv_length = (int)p->kv_length,
        .packed_q_rows = (int)p->packed_q_rows,
        .packed_kv_rows = (int)p->packed_kv_rows,
        .head_dim = (int)p->head_dim,
        .value_dim = (int)p->value_dim,
        .top_left = p->diagonal == FC_TOP_LEFT,
        .window_left = window_of(p->window_left),
        .window_right = window_of(p->window_right),
        .splits = fc_cuda_divisor(1),
        .keys_per_split = (int)p->kv_length,
        .scale_log2 = p->scale * 1.4426950408889634f, /* LOG2_E of the kernels */
        .more = features(p),
    };
}

static size_t partial_rows(const attention_args *args)
{
    return (size_t)args->splits.divisor * (size_t)args->batch * (size_t)args->q_heads *
           (size_t)args->q_length;
}

/* A row is whole 16-byte chunks. */
static size_t partial_floats(const attention_args *args)
{
    return partial_rows(args) * (size_t)fc_divide_up(args->value_dim, 4) * 4;
}

size_t fc_cuda_partial_bytes(const attention_args *args)
{
    return (partial_floats(args) + partial_rows(args)) * sizeof(float);
}

void fc_cuda_set_pointers(attention_args *args, const fc_buffers *b)
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
        args->partial_out = b->workspace;
        args->partial_lse = args->partial_out + partial_floats(args);
    }
}
