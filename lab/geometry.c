/* geometry.c: see geometry.h. */
#include "geometry.h"

#include "core/convert.h"

#include <stdlib.h>

static void default_strides(fc_strides *s, int64_t heads, int64_t rows, int64_t dim, bool by_row)
{
    if (!s->batch && !s->head && !s->row && !s->dim)
        *s = (fc_strides){.batch = heads * rows * dim,
                          .head = by_row ? dim : rows * dim,
                          .row = by_row ? heads * dim : dim};
    if (!s->dim)
        s->dim = 1;
}

static void fill_defaults(fc_attention *p)
{
    if (!p->value_dim)
        p->value_dim = p->head_dim;
    if (!p->kv_type)
        p->kv_type = p->q_type;
    if (!p->out_type)
        p->out_type = fc_type_is_f8(p->q_type) ? FC_BF16 : p->q_type;
    if (!p->bias_type)
        p->bias_type = FC_F32;
    if (p->paged && !p->page_table_stride)
        p->page_table_stride = lab_geometry_pages(p, p->kv_length);
    if (!p->bias_strides.key)
        p->bias_strides.key = 1;
    if (!p->mask_strides.key)
        p->mask_strides.key = 1;

    const int64_t q_rows = p->packed_q ? p->packed_q_rows : p->q_length;
    const int64_t kv_rows = p->packed_kv ? p->packed_kv_rows
                            : p->paged   ? p->page_size
                                         : p->kv_length;
    const bool kv_by_row = p->packed_kv || p->paged;
    default_strides(&p->q_strides, p->q_heads, q_rows, p->head_dim, p->packed_q);
    default_strides(&p->dq_strides, p->q_heads, q_rows, p->head_dim, p->packed_q);
    default_strides(&p->out_strides, p->q_heads, q_rows, p->value_dim, p->packed_q);
    default_strides(&p->dout_strides, p->q_heads, q_rows, p->value_dim, p->packed_q);
    default_strides(&p->lse_strides, p->q_heads, q_rows, 1, false);
    default_strides(&p->k_strides, p->kv_heads, kv_rows, p->head_dim, kv_by_row);
    default_strides(&p->dk_strides, p->kv_heads, kv_rows, p->head_dim, kv_by_row);
    default_strides(&p->v_strides, p->kv_heads, kv_rows, p->value_dim, kv_by_row);
    default_strides(&p->dv_strides, p->kv_heads, kv_rows, p->value_dim, kv_by_row);
}

int64_t lab_geometry_pages(const fc_attention *p, int64_t kv_rows)
{
    return (kv_rows + p->page_size - 1) / p->page_size;
}

static void make_spans(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    const bool own_kv_rows = p->packed_kv || p->has_kv_lengths;
    t->spans = lab_zeroed(p->batch, sizeof *t->spans);
    int64_t q_first = 0, kv_first = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        lab_span *span = &t->spans[b];
        span->q_rows = p->packed_q ? t->of.q_lengths[b % CASE_LENGTHS] : p->q_length;
        span->kv_rows = own_kv_rows ? t->of.kv_lengths[b % CASE_LENGTHS] : p->kv_length;
        span->q_first = p->packed_q ? q_first : 0;
        span->kv_first = p->packed_kv ? kv_first : 0;
        q_first += span->q_rows;
        kv_first += span->kv_rows;
    }
}

/* The extent of memory between the lowest and the highest element. */
static void measure(lab_buffer *buffer)
{
    int64_t low = 0, high = 0;
    bool empty = false;
    for (int axis = 0; axis < 4; axis++) {
        const int64_t reach = (buffer->sizes[axis] - 1) * buffer->strides[axis];
        empty = empty || buffer->sizes[axis] == 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    buffer->elements = empty ? 0 : high - low + 1;
    buffer->origin = empty ? 0 : -low;
}

static lab_buffer *describe(lab_tensors *t, lab_tensor tensor, const char *name, fc_type type,
                            int64_t element_bytes)
{
    lab_buffer *buffer = &t->buffer[tensor];
    buffer->name = name;
    buffer->type = type;
    buffer->element_bytes = element_bytes;
    return buffer;
}

static void describe_tensor(lab_tensors *t, lab_tensor tensor, const char *name, fc_type type,
                            bool keys, int64_t dim, fc_strides strides)
{
    const fc_attention *p = &t->problem;
    lab_buffer *buffer = describe(t, tensor, name, type, (int64_t)fc_type_bytes(type));
    const bool packed = keys ? p->packed_kv : p->packed_q;
    const bool paged = keys && p->paged;
    buffer->sizes[0] = packed ? 1 : paged ? p->page_count : p->batch;
    buffer->sizes[1] = keys ? p->kv_heads : p->q_heads;
    buffer->sizes[2] = packed  ? (keys ? p->packed_kv_rows : p->packed_q_rows)
                       : paged ? p->page_size
                       : keys  ? p->kv_length
                               : p->q_length;
    buffer->sizes[3] = dim;
    buffer->strides[0] = packed ? 0 : strides.batch;
    buffer->strides[1] = strides.head;
    buffer->strides[2] = strides.row;
    buffer->strides[3] = strides.dim;
    measure(buffer);
    if (t->of.layout == CASE_PADDED) {
        buffer->origin++; /* a pointer aligned to its element and to nothing more */
        buffer->elements++;
    }
}

static void describe_shared(lab_tensors *t, lab_tensor tensor, const char *name, fc_type type,
                            int64_t element_bytes, fc_broadcast strides)
{
    const fc_attention *p = &t->problem;
    lab_buffer *buffer = describe(t, tensor, name, type, element_bytes);
    memcpy(buffer->sizes, (int64_t[4]){p->batch, p->q_heads, p->q_length, p->kv_length},
           sizeof buffer->sizes);
    memcpy(buffer->strides, (int64_t[4]){strides.batch, strides.head, strides.row, strides.key},
           sizeof buffer->strides);
    measure(buffer);
}

static void describe_list(lab_tensors *t, lab_tensor tensor, const char *name, fc_type type,
                          int64_t lists, int64_t stride, int64_t entries)
{
    lab_buffer *buffer = describe(t, tensor, name, type, 4);
    memcpy(buffer->sizes, (int64_t[4]){lists, 1, 1, entries}, sizeof buffer->sizes);
    memcpy(buffer->strides, (int64_t[4]){stride, 0, 0, 1}, sizeof buffer->strides);
    measure(buffer);
}

static void describe_scale(lab_tensors *t, lab_tensor tensor, const char *name, fc_type type,
                           fc_scaling scaling, int64_t heads, int64_t rows)
{
    if (!t->of.with_scales || !fc_type_is_f8(type))
        return;
    lab_buffer *buffer = describe(t, tensor, name, FC_F32, sizeof(float));
    const int64_t blocks =
        scaling.block_rows ? (rows + scaling.block_rows - 1) / scaling.block_rows : 1;
    memcpy(buffer->sizes, (int64_t[4]){t->problem.batch, heads, blocks, 1}, sizeof buffer->sizes);
    memcpy(buffer->strides, (int64_t[4]){scaling.batch, scaling.head, scaling.block, 1},
           sizeof buffer->strides);
    measure(buffer);
}

/* q, k and v side by side in every row of one allocation. */
static void share_allocation(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    lab_buffer *q = &t->buffer[LAB_Q], *k = &t->buffer[LAB_K], *v = &t->buffer[LAB_V];
    const bool same_rows = q->sizes[0] == k->sizes[0] && q->sizes[2] == k->sizes[2];
    if (t->of.layout != CASE_QKV || q->type != k->type || !same_rows || p->paged || !q->elements)
        return;
    k->origin = p->q_heads * p->head_dim;
    v->origin = k->origin + p->kv_heads * p->head_dim;
    q->elements = k->elements = v->elements = v->origin + v->elements;
    k->borrowed = v->borrowed = true;
}

static void describe_outputs(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    describe_tensor(t, LAB_OUT, "out", p->out_type, false, p->value_dim, p->out_strides);
    if (!t->of.without_lse)
        describe_tensor(t, LAB_LSE, "lse", FC_F32, false, 1, p->lse_strides);
    if (!t->of.backward)
        return;
    describe_tensor(t, LAB_DOUT, "dout", p->out_type, false, p->value_dim, p->dout_strides);
    describe_tensor(t, LAB_DQ, "dq", p->out_type, false, p->head_dim, p->dq_strides);
    describe_tensor(t, LAB_DK, "dk", p->out_type, true, p->head_dim, p->dk_strides);
    describe_tensor(t, LAB_DV, "dv", p->out_type, true, p->value_dim, p->dv_strides);
    if (p->has_bias)
        describe_shared(t, LAB_DBIAS, "dbias", FC_F32, sizeof(float), p->bias_strides);
    if (p->has_sinks)
        describe_list(t, LAB_DSINKS, "dsinks", FC_F32, 1, 0, p->q_heads);
}

static void describe_inputs(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    describe_tensor(t, LAB_Q, "q", p->q_type, false, p->head_dim, p->q_strides);
    describe_tensor(t, LAB_K, "k", p->kv_type, true, p->head_dim, p->k_strides);
    describe_tensor(t, LAB_V, "v", p->kv_type, true, p->value_dim, p->v_strides);
    share_allocation(t);
    describe_scale(t, LAB_Q_SCALE, "q_scale", p->q_type, p->q_scaling, p->q_heads, p->q_length);
    describe_scale(t, LAB_K_SCALE, "k_scale", p->kv_type, p->k_scaling, p->kv_heads, p->kv_length);
    describe_scale(t, LAB_V_SCALE, "v_scale", p->kv_type, p->v_scaling, p->kv_heads, p->kv_length);
    if (p->has_alibi)
        describe_list(t, LAB_ALIBI, "alibi", FC_F32, p->batch, p->alibi_batch_stride, p->q_heads);
    if (p->has_bias)
        describe_shared(t, LAB_BIAS, "bias", p->bias_type, (int64_t)fc_type_bytes(p->bias_type),
                        p->bias_strides);
    if (p->has_mask)
        describe_shared(t, LAB_MASK, "mask", FC_TYPE_AUTO, 1, p->mask_strides);
    if (p->has_sinks)
        describe_list(t, LAB_SINKS, "sinks", FC_F32, 1, 0, p->q_heads);
    if (p->packed_q)
        describe_list(t, LAB_CU_Q, "cu_q", FC_TYPE_AUTO, 1, 0, p->batch + 1);
    if (p->packed_kv)
        describe_list(t, LAB_CU_KV, "cu_kv", FC_TYPE_AUTO, 1, 0, p->batch + 1);
    if (p->has_kv_lengths)
        describe_list(t, LAB_KV_LENGTHS, "kv_lengths", FC_TYPE_AUTO, 1, 0, p->batch);
    if (p->paged)
        describe_list(t, LAB_PAGE_TABLE, "page_table", FC_TYPE_AUTO, p->batch, p->page_table_stride,
                      lab_geometry_pages(p, p->kv_length));
}

void lab_geometry_make(lab_tensors *t)
{
    t->problem = t->of.problem;
    fill_defaults(&t->problem);
    make_spans(t);
    describe_inputs(t);
    describe_outputs(t);
}
