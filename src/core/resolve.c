/* resolve.c: the defaults of a problem, filled in. */
#include "core/convert.h"
#include "core/internal.h"

#include <math.h>

/* Saturates: a dense tensor too large for memory is then refused by fc_layout_fits_memory. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static bool row_before_head(const fc_attention *p, fc_tensor tensor)
{
    switch (tensor) {
    case FC_TENSOR_LSE: return false;
    case FC_TENSOR_K:
    case FC_TENSOR_V:
    case FC_TENSOR_DK:
    case FC_TENSOR_DV: return p->packed_kv || p->paged;
    default: return p->packed_q;
    }
}

static void resolve_strides(fc_attention *p, fc_tensor tensor)
{
    fc_strides *strides = fc_tensor_strides(p, tensor);
    if (strides->batch || strides->head || strides->row || strides->dim) {
        if (!strides->dim)
            strides->dim = 1;
        return;
    }
    const fc_layout layout = fc_tensor_layout(p, tensor);
    const int64_t heads = layout.sizes[1], rows = layout.sizes[2], dim = layout.sizes[3];
    const bool by_row = row_before_head(p, tensor);
    *strides = (fc_strides){
        .batch = times(times(heads, rows), dim),
        .head = by_row ? dim : times(rows, dim),
        .row = by_row ? times(heads, dim) : dim,
        .dim = 1,
    };
}

void fc_resolve(fc_attention *p)
{
    if (!p->value_dim)
        p->value_dim = p->head_dim;
    if (!p->kv_type)
        p->kv_type = p->q_type;
    if (!p->out_type)
        p->out_type = fc_type_is_f8(p->q_type) ? FC_BF16 : p->q_type;
    if (!p->bias_type)
        p->bias_type = FC_F32;
    if (p->scale == 0)
        p->scale = (float)(1 / sqrt((double)p->head_dim));
    if (!p->has_window)
        p->window_left = p->window_right = -1;
    if (p->causal)
        p->window_right = 0;
    if (p->paged && !p->page_table_stride)
        p->page_table_stride = (p->kv_length + p->page_size - 1) / p->page_size;
    if (!p->bias_strides.key)
        p->bias_strides.key = 1;
    if (!p->mask_strides.key)
        p->mask_strides.key = 1;
    for (fc_tensor tensor = 0; tensor < FC_TENSOR_COUNT; tensor++)
        resolve_strides(p, tensor);
}
