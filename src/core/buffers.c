/* buffers.c: the pointers of one call. On the CPU the index arrays are read and checked too; on a
 * GPU they are device memory, and kernels keep within the bounds of the plan instead. */
#include "core/convert.h"
#include "core/internal.h"

static fc_status check_pointer(const char *name, const void *pointer, size_t alignment)
{
    FC_REQUIRE(pointer, "%s is NULL", name);
    FC_REQUIRE((uintptr_t)pointer % alignment == 0,
               "%s = %p is not aligned to its element of %zu bytes", name, pointer, alignment);
    return FC_OK;
}

static fc_status check_tensor(const fc_attention *p, fc_tensor tensor, const void *pointer)
{
    const fc_layout layout = fc_tensor_layout(p, tensor);
    if (fc_layout_is_empty(&layout))
        return FC_OK;
    return check_pointer(layout.name, pointer, fc_type_bytes(layout.type));
}

/* An input is brought exactly when the problem says so. */
static fc_status check_optional(const char *name, const void *pointer, bool wanted,
                                const char *wanted_by, bool empty, size_t alignment)
{
    FC_REQUIRE(wanted || !pointer, "%s is given, but the problem's %s is 0", name, wanted_by);
    return wanted && !empty ? check_pointer(name, pointer, alignment) : FC_OK;
}

static fc_status check_scale(const char *name, const float *scale, fc_type type)
{
    FC_REQUIRE(!scale || fc_type_is_f8(type), "%s is given, but %s elements have no scale", name,
               fc_type_name(type));
    return scale ? check_pointer(name, scale, sizeof *scale) : FC_OK;
}

static fc_status check_inputs(const fc_attention *p, const fc_buffers *b)
{
    const bool no_sequence = p->batch == 0;
    const bool no_score = no_sequence || p->q_length == 0 || p->kv_length == 0;
    FC_TRY(check_tensor(p, FC_TENSOR_Q, b->q));
    FC_TRY(check_tensor(p, FC_TENSOR_K, b->k));
    FC_TRY(check_tensor(p, FC_TENSOR_V, b->v));
    FC_TRY(check_scale("q_scale", b->q_scale, p->q_type));
    FC_TRY(check_scale("k_scale", b->k_scale, p->kv_type));
    FC_TRY(check_scale("v_scale", b->v_scale, p->kv_type));
    FC_TRY(check_optional("alibi", b->alibi, p->has_alibi, "has_alibi", no_sequence,
                          sizeof *b->alibi));
    FC_TRY(check_optional("bias", b->bias, p->has_bias, "has_bias", no_score,
                          fc_type_bytes(p->bias_type)));
    FC_TRY(check_optional("mask", b->mask, p->has_mask, "has_mask", no_score, 1));
    FC_TRY(check_optional("sinks", b->sinks, p->has_sinks, "has_sinks", false, sizeof *b->sinks));
    FC_TRY(check_optional("cu_q", b->cu_q, p->packed_q, "packed_q", false, sizeof *b->cu_q));
    FC_TRY(check_optional("cu_kv", b->cu_kv, p->packed_kv, "packed_kv", false, sizeof *b->cu_kv));
    FC_TRY(check_optional("kv_lengths", b->kv_lengths, p->has_kv_lengths, "has_kv_lengths",
                          no_sequence, sizeof *b->kv_lengths));
    FC_TRY(check_optional("page_table", b->page_table, p->paged, "paged",
                          no_sequence || p->kv_length == 0, sizeof *b->page_table));
    return FC_OK;
}

static fc_status check_cumulative(const char *name, const int32_t *cu, int64_t batch,
                                  int64_t longest, const char *longest_name, int64_t rows)
{
    FC_REQUIRE(cu[0] == 0, "%s[0] = %" PRId32 " must be 0", name, cu[0]);
    for (int64_t i = 0; i < batch; i++) {
        const int64_t length = (int64_t)cu[i + 1] - cu[i];
        FC_REQUIRE(length >= 0 && length <= longest,
                   "%s[" I64 "] - %s[" I64 "] = " I64 " is out of range; allowed: 0 to %s = " I64,
                   name, i + 1, name, i, length, longest_name, longest);
    }
    FC_REQUIRE(cu[batch] <= rows, "%s[" I64 "] = %" PRId32 " is past the tensor's " I64 " rows",
               name, batch, cu[batch], rows);
    return FC_OK;
}

static fc_status check_pages(const fc_attention *p, const fc_buffers *b, int64_t sequence,
                             int64_t keys)
{
    const int64_t pages = (keys + p->page_size - 1) / p->page_size;
    for (int64_t i = 0; i < pages; i++) {
        const int32_t page = b->page_table[sequence * p->page_table_stride + i];
        FC_REQUIRE(page >= 0 && page < p->page_count,
                   "page_table[" I64 "][" I64 "] = %" PRId32 " is out of range; page_count = " I64,
                   sequence, i, page, p->page_count);
    }
    return FC_OK;
}

static fc_status check_index_arrays(const fc_attention *p, const fc_buffers *b)
{
    if (p->packed_q)
        FC_TRY(
            check_cumulative("cu_q", b->cu_q, p->batch, p->q_length, "q_length", p->packed_q_rows));
    if (p->packed_kv)
        FC_TRY(check_cumulative("cu_kv", b->cu_kv, p->batch, p->kv_length, "kv_length",
                                p->packed_kv_rows));
    for (int64_t i = 0; i < p->batch && (p->has_kv_lengths || p->paged); i++) {
        const int64_t keys = p->has_kv_lengths ? b->kv_lengths[i] : p->kv_length;
        FC_REQUIRE(keys >= 0 && keys <= p->kv_length,
                   "kv_lengths[" I64 "] = " I64 " is out of range; allowed: 0 to kv_length = " I64,
                   i, keys, p->kv_length);
        if (p->paged)
            FC_TRY(check_pages(p, b, i, keys));
    }
    return FC_OK;
}

static fc_status check_workspace(const fc_buffers *b, size_t needed)
{
    if (needed && (!b->workspace || b->workspace_bytes < needed))
        return fc_fail(FC_ERROR_WORKSPACE, "the workspace holds %zu bytes, the kernel needs %zu",
                       b->workspace ? b->workspace_bytes : 0, needed);
    if (needed && (uintptr_t)b->workspace % FC_WORKSPACE_ALIGNMENT)
        return fc_fail(FC_ERROR_WORKSPACE, "workspace = %p is not aligned to %d bytes",
                       b->workspace, FC_WORKSPACE_ALIGNMENT);
    return FC_OK;
}

/* Equal pointers are surely a mistake; partly overlapping ranges may be interleaved tensors. */
static fc_status check_output(const fc_attention *p, const fc_buffers *b, fc_tensor tensor,
                              const void *pointer)
{
    const fc_layout layout = fc_tensor_layout(p, tensor);
    if (fc_layout_is_empty(&layout))
        return FC_OK;
    FC_TRY(check_tensor(p, tensor, pointer));
    FC_REQUIRE(pointer != b->q && pointer != b->k && pointer != b->v,
               "%s = %p is also an input; outputs need memory of their own", layout.name, pointer);
    return FC_OK;
}

/* Where the bias repeats (stride 0) the gradient is a sum; elements that share memory in any other
 * way have no gradient of their own. */
static fc_status check_dbias(const fc_attention *p, const float *dbias)
{
    FC_REQUIRE(p->has_bias, "dbias is given, but the problem's has_bias is 0");
    fc_layout layout = fc_broadcast_layout(p, "bias", FC_F32, p->bias_strides);
    for (int axis = 0; axis < 4; axis++)
        if (layout.strides[axis] == 0 && layout.sizes[axis] > 1)
            layout.sizes[axis] = 1;
    FC_TRY(fc_layout_does_not_overlap(&layout));
    return check_pointer("dbias", dbias, sizeof *dbias);
}

static fc_status check_gradients(const fc_attention *p, const fc_buffers *b, const fc_gradients *g)
{
    FC_TRY(check_tensor(p, FC_TENSOR_LSE, b->lse));
    FC_TRY(check_tensor(p, FC_TENSOR_DOUT, g->dout));
    FC_TRY(check_output(p, b, FC_TENSOR_DQ, g->dq));
    FC_TRY(check_output(p, b, FC_TENSOR_DK, g->dk));
    FC_TRY(check_output(p, b, FC_TENSOR_DV, g->dv));
    FC_REQUIRE(!g->dsinks || p->has_sinks, "dsinks is given, but the problem's has_sinks is 0");
    if (g->dbias)
        FC_TRY(check_dbias(p, g->dbias));
    if (g->dsinks)
        FC_TRY(check_pointer("dsinks", g->dsinks, sizeof *g->dsinks));
    return FC_OK;
}

fc_status fc_check_buffers(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g)
{
    const fc_attention *p = &plan->problem;
    FC_TRY(check_inputs(p, b));
    FC_TRY(check_output(p, b, FC_TENSOR_OUT, b->out));
    if (b->lse)
        FC_TRY(check_output(p, b, FC_TENSOR_LSE, b->lse));
    if (g)
        FC_TRY(check_gradients(p, b, g));
    if (plan->context->device_type == FC_CPU)
        FC_TRY(check_index_arrays(p, b));
    return check_workspace(b, plan->workspace_bytes[g ? FC_BACKWARD : FC_FORWARD]);
}
