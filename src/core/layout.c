/* layout.c: sizes and strides of every tensor of a problem, and what can be wrong with them. */
#include "core/internal.h"

#include <stdlib.h>

static const struct {
    const char *name;
    size_t strides_offset;
    bool output;
} tensors[FC_TENSOR_COUNT] = {
    [FC_TENSOR_Q] = {"q", offsetof(fc_attention, q_strides), false},
    [FC_TENSOR_K] = {"k", offsetof(fc_attention, k_strides), false},
    [FC_TENSOR_V] = {"v", offsetof(fc_attention, v_strides), false},
    [FC_TENSOR_OUT] = {"out", offsetof(fc_attention, out_strides), true},
    [FC_TENSOR_LSE] = {"lse", offsetof(fc_attention, lse_strides), true},
    [FC_TENSOR_DOUT] = {"dout", offsetof(fc_attention, dout_strides), false},
    [FC_TENSOR_DQ] = {"dq", offsetof(fc_attention, dq_strides), true},
    [FC_TENSOR_DK] = {"dk", offsetof(fc_attention, dk_strides), true},
    [FC_TENSOR_DV] = {"dv", offsetof(fc_attention, dv_strides), true},
};

fc_strides *fc_tensor_strides(fc_attention *problem, fc_tensor tensor)
{
    return (fc_strides *)((char *)problem + tensors[tensor].strides_offset);
}

static bool has_kv_rows(fc_tensor tensor)
{
    return tensor == FC_TENSOR_K || tensor == FC_TENSOR_V || tensor == FC_TENSOR_DK ||
           tensor == FC_TENSOR_DV;
}

static fc_type tensor_type(const fc_attention *p, fc_tensor tensor)
{
    switch (tensor) {
    case FC_TENSOR_Q: return p->q_type;
    case FC_TENSOR_K:
    case FC_TENSOR_V: return p->kv_type;
    case FC_TENSOR_LSE: return FC_F32;
    default: return p->out_type;
    }
}

static int64_t tensor_dim(const fc_attention *p, fc_tensor tensor)
{
    switch (tensor) {
    case FC_TENSOR_Q:
    case FC_TENSOR_K:
    case FC_TENSOR_DQ:
    case FC_TENSOR_DK: return p->head_dim;
    case FC_TENSOR_LSE: return 1;
    default: return p->value_dim;
    }
}

fc_layout fc_tensor_layout(const fc_attention *p, fc_tensor tensor)
{
    const bool kv = has_kv_rows(tensor);
    const bool packed = kv ? p->packed_kv : p->packed_q;
    const int64_t packed_rows = kv ? p->packed_kv_rows : p->packed_q_rows;
    const bool paged = kv && p->paged;
    const fc_strides *strides =
        (const fc_strides *)((const char *)p + tensors[tensor].strides_offset);
    return (fc_layout){
        .name = tensors[tensor].name,
        .type = tensor_type(p, tensor),
        .output = tensors[tensor].output,
        .sizes = {packed  ? 1
                  : paged ? p->page_count
                          : p->batch,
                  kv ? p->kv_heads : p->q_heads,
                  packed  ? packed_rows
                  : paged ? p->page_size
                  : kv    ? p->kv_length
                          : p->q_length,
                  tensor_dim(p, tensor)},
        .strides = {packed ? 0 : strides->batch, strides->head, strides->row, strides->dim},
    };
}

fc_layout fc_broadcast_layout(const fc_attention *p, const char *name, fc_type type,
                              fc_broadcast strides)
{
    return (fc_layout){
        .name = name,
        .type = type,
        .sizes = {p->batch, p->q_heads, p->q_length, p->kv_length},
        .strides = {strides.batch, strides.head, strides.row, strides.key},
    };
}

bool fc_layout_is_empty(const fc_layout *layout)
{
    return !layout->sizes[0] || !layout->sizes[1] || !layout->sizes[2] || !layout->sizes[3];
}

/* More bytes than any machine addresses; small enough that sums of a few sizes cannot overflow. */
static const int64_t most_bytes = INT64_C(1) << 56;

fc_status fc_layout_fits_memory(const fc_layout *layout)
{
    if (fc_layout_is_empty(layout))
        return FC_OK;
    int64_t elements = 1;
    for (int axis = 0; axis < 4; axis++) {
        const int64_t stride = layout->strides[axis];
        int64_t reach;
        if (stride == INT64_MIN ||
            __builtin_mul_overflow(layout->sizes[axis] - 1, llabs(stride), &reach) ||
            __builtin_add_overflow(elements, reach, &elements))
            elements = INT64_MAX;
        if (elements == INT64_MAX)
            break;
    }
    FC_REQUIRE(elements <= most_bytes / (int64_t)fc_type_bytes(layout->type),
               "%s is too large: sizes " I64 " x " I64 " x " I64 " x " I64 " with strides " I64
               ", " I64 ", " I64 ", " I64 " reach over more than 2^56 bytes",
               layout->name, layout->sizes[0], layout->sizes[1], layout->sizes[2], layout->sizes[3],
               layout->strides[0], layout->strides[1], layout->strides[2], layout->strides[3]);
    return FC_OK;
}

typedef struct axis_step {
    int64_t size;
    int64_t stride;
} axis_step;

static int by_stride(const void *a, const void *b)
{
    const int64_t x = ((const axis_step *)a)->stride, y = ((const axis_step *)b)->stride;
    return (x > y) - (x < y);
}

/* Sorted by stride, each axis must step over everything the smaller ones reach. That also refuses
 * some interleavings that do not overlap; no real layout is among them. */
fc_status fc_layout_does_not_overlap(const fc_layout *layout)
{
    static const char *const axis_names[] = {"batch", "head", "row", "dim"};
    if (fc_layout_is_empty(layout))
        return FC_OK;
    axis_step axes[4];
    int count = 0;
    for (int axis = 0; axis < 4; axis++) {
        if (layout->sizes[axis] < 2)
            continue;
        FC_REQUIRE(layout->strides[axis] >= 0,
                   "%s_strides.%s = " I64 " is negative; an output's strides must be positive",
                   layout->name, axis_names[axis], layout->strides[axis]);
        axes[count++] = (axis_step){layout->sizes[axis], layout->strides[axis]};
    }
    qsort(axes, (size_t)count, sizeof axes[0], by_stride);
    int64_t reach = 0; /* of the axes so far; fc_layout_fits_memory has shown that it fits */
    for (int i = 0; i < count; i++) {
        FC_REQUIRE(axes[i].stride > reach,
                   "%s's elements overlap: sizes " I64 " x " I64 " x " I64 " x " I64
                   " with strides " I64 ", " I64 ", " I64 ", " I64 " reuse an address",
                   layout->name, layout->sizes[0], layout->sizes[1], layout->sizes[2],
                   layout->sizes[3], layout->strides[0], layout->strides[1], layout->strides[2],
                   layout->strides[3]);
        reach += (axes[i].size - 1) * axes[i].stride;
    }
    return FC_OK;
}
