/* case_draft.c: see case_draft.h. */
#include "case_draft.h"

#include <stdarg.h>
#include <stdio.h>

case_draft draft_make(const char *group, int64_t batch, int64_t heads, int64_t q_length,
                      int64_t kv_length, int64_t head_dim)
{
    case_draft draft = {.c = {.group = group, .seed = 1, .problem = fc_attention_init()}};
    fc_attention *p = &draft.c.problem;
    p->batch = batch;
    p->q_heads = p->kv_heads = heads;
    p->q_length = q_length;
    p->kv_length = kv_length;
    p->head_dim = head_dim;
    p->q_type = FC_F16;
    return draft;
}

void draft_name(case_draft *draft, const char *format, ...)
{
    char *name = draft->c.name;
    const size_t used = strlen(name), bytes = sizeof draft->c.name;
    va_list arguments;
    va_start(arguments, format);
    if (used && used + 1 < bytes)
        name[used] = '-';
    const size_t start = used ? used + 1 : 0;
    if (start < bytes)
        vsnprintf(name + start, bytes - start, format, arguments);
    va_end(arguments);
}

/* The first sequence is the longest, the third is empty. */
static void choose_lengths(int64_t longest, int64_t lengths[CASE_LENGTHS])
{
    lengths[0] = longest;
    lengths[1] = longest * 2 / 3;
    lengths[2] = 0;
    lengths[3] = longest / 4;
}

static int64_t sum_of_lengths(const fc_attention *p, const int64_t lengths[CASE_LENGTHS])
{
    int64_t sum = 0;
    for (int64_t b = 0; b < p->batch; b++)
        sum += lengths[b % CASE_LENGTHS];
    return sum;
}

static void finish_lengths(case_draft *d)
{
    fc_case *c = &d->c;
    fc_attention *p = &c->problem;
    if (!d->has_lengths) {
        choose_lengths(p->q_length, c->q_lengths);
        choose_lengths(p->kv_length, c->kv_lengths);
    }
    if (p->packed_q)
        p->packed_q_rows = sum_of_lengths(p, c->q_lengths) + d->unused_rows;
    if (p->packed_kv)
        p->packed_kv_rows = sum_of_lengths(p, c->kv_lengths) + d->unused_rows;
    if (p->paged) /* two pages more than anyone can use */
        p->page_count = p->batch * ((p->kv_length + p->page_size - 1) / p->page_size) + 2;
}

typedef struct tensor_sizes {
    int64_t heads, rows, dim;
    bool by_row; /* the default order is [row][head][dim] */
} tensor_sizes;

static fc_strides ordered_strides(tensor_sizes s, int64_t dim_step, int64_t dim_gap, int64_t gap)
{
    fc_strides strides = {.dim = dim_step};
    const int64_t vector = s.dim * dim_step + dim_gap;
    strides.head = s.by_row ? vector : s.rows * vector + gap;
    strides.row = s.by_row ? s.heads * vector + gap : vector;
    strides.batch = (s.by_row ? s.rows * strides.row : s.heads * strides.head) + gap;
    return strides;
}

static fc_strides input_strides(const fc_case *c, tensor_sizes s, bool keys)
{
    const fc_attention *p = &c->problem;
    const int64_t value_dim = p->value_dim ? p->value_dim : p->head_dim;
    const int64_t qkv_row = p->q_heads * p->head_dim + p->kv_heads * (p->head_dim + value_dim);
    fc_strides strides = ordered_strides(s, 1, 0, 0);
    switch (c->layout) {
    case CASE_QKV: return (fc_strides){s.rows * qkv_row, s.dim, qkv_row, 1};
    case CASE_REVERSED:
        strides.row = -strides.row;
        strides.head = -strides.head;
        return strides;
    case CASE_REPEATED:
        strides.batch = 0;
        strides.head = keys ? 0 : strides.head;
        return strides;
    default: return strides;
    }
}

static fc_strides choose_strides(const fc_case *c, tensor_sizes s, bool keys, bool output)
{
    switch (c->layout) {
    case CASE_DENSE: return (fc_strides){0};
    case CASE_PADDED: return ordered_strides(s, 1, 3, 5);
    case CASE_SPREAD: return ordered_strides(s, 2, 0, 0);
    case CASE_SWAPPED: s.by_row = !s.by_row; return ordered_strides(s, 1, 0, 0);
    default: return output ? (fc_strides){0} : input_strides(c, s, keys);
    }
}

static void finish_strides(fc_case *c)
{
    fc_attention *p = &c->problem;
    const int64_t value_dim = p->value_dim ? p->value_dim : p->head_dim;
    const int64_t kv_rows = p->packed_kv ? p->packed_kv_rows
                            : p->paged   ? p->page_size
                                         : p->kv_length;
    const tensor_sizes q = {p->q_heads, p->packed_q ? p->packed_q_rows : p->q_length, p->head_dim,
                            p->packed_q};
    const tensor_sizes k = {p->kv_heads, kv_rows, p->head_dim, p->packed_kv || p->paged};
    tensor_sizes v = k, out = q, lse = q;
    v.dim = out.dim = value_dim;
    lse.dim = 1;
    lse.by_row = false;
    p->q_strides = choose_strides(c, q, false, false);
    p->k_strides = choose_strides(c, k, true, false);
    p->v_strides = choose_strides(c, v, true, false);
    p->out_strides = choose_strides(c, out, false, true);
    p->lse_strides = choose_strides(c, lse, false, true);
    p->dout_strides = choose_strides(c, out, false, false);
    p->dq_strides = choose_strides(c, q, false, true);
    p->dk_strides = choose_strides(c, k, true, true);
    p->dv_strides = choose_strides(c, v, true, true);
}

/* Padded layouts leave a gap after each row of the bias and the mask too. */
static fc_broadcast broadcast_strides(const fc_case *c, int axes)
{
    const fc_attention *p = &c->problem;
    const int64_t row = p->kv_length + (c->layout == CASE_PADDED ? 3 : 0);
    const int64_t head = axes & DRAFT_ROW ? p->q_length * row : row;
    const int64_t batch = axes & DRAFT_HEAD ? p->q_heads * head : head;
    return (fc_broadcast){.batch = axes & DRAFT_BATCH ? batch : 0,
                          .head = axes & DRAFT_HEAD ? head : 0,
                          .row = axes & DRAFT_ROW ? row : 0,
                          .key = 1};
}

static fc_scaling scaling_strides(const case_draft *d, int64_t heads, int64_t rows, fc_type type)
{
    if (type != FC_F8_E4M3 && type != FC_F8_E5M2)
        return (fc_scaling){0};
    const bool by_block = (d->scale_axes & DRAFT_ROW) != 0;
    const int64_t blocks = by_block ? (rows + d->scale_block_rows - 1) / d->scale_block_rows : 1;
    return (fc_scaling){.batch = d->scale_axes & DRAFT_BATCH ? heads * blocks : 0,
                        .head = d->scale_axes & DRAFT_HEAD ? blocks : 0,
                        .block = by_block,
                        .block_rows = by_block ? d->scale_block_rows : 0};
}

void draft_finish(case_draft *d)
{
    fc_attention *p = &d->c.problem;
    const fc_type kv_type = p->kv_type ? p->kv_type : p->q_type;
    finish_lengths(d);
    finish_strides(&d->c);
    if (p->has_bias)
        p->bias_strides = broadcast_strides(&d->c, d->bias_axes);
    if (p->has_mask)
        p->mask_strides = broadcast_strides(&d->c, d->mask_axes);
    if (d->alibi_per_batch)
        p->alibi_batch_stride = p->q_heads;
    p->q_scaling = scaling_strides(d, p->q_heads, p->q_length, p->q_type);
    p->k_scaling = p->v_scaling = scaling_strides(d, p->kv_heads, p->kv_length, kv_type);
}
