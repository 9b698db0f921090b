/* call.c: from tensors to a problem. What the library checks itself is left to it; here is what
 * only the tensors' shapes can tell. */
#include "call.h"

#include <string.h>

static int open_tensors(call *c)
{
    for (int i = 0; i < TENSOR_COUNT; i++) {
        if (!c->values[i])
            continue;
        if (tensor_open(c->values[i], parameter_names[i], &c->views[i]) != 0)
            return -1;
        c->opened |= UINT32_C(1) << i;
        const dl_device here = c->views[P_q].device, there = c->views[i].device;
        if (here.type != there.type || here.index != there.index) {
            PyErr_Format(PyExc_ValueError, "%s is on %s, but q is on %s", parameter_names[i],
                         tensor_device_name(there), tensor_device_name(here));
            return -1;
        }
    }
    return 0;
}

static int read_layout(call *c)
{
    PyObject *layout = c->values[P_layout];
    const bool by_row =
        layout && PyUnicode_Check(layout) && PyUnicode_CompareWithASCIIString(layout, "bshd") == 0;
    const bool by_head = !layout || (PyUnicode_Check(layout) &&
                                     PyUnicode_CompareWithASCIIString(layout, "bhsd") == 0);
    if (!by_row && !by_head) {
        PyErr_Format(PyExc_ValueError, "layout = %R is not known; allowed: 'bhsd', 'bshd'", layout);
        return -1;
    }
    c->head_axis = by_row ? 2 : 1;
    c->row_axis = by_row ? 1 : 2;
    return 0;
}

static bool is_packed(const call *c, tensor_side side)
{
    return call_has(c, side == Q_SIDE ? P_cu_seqlens_q : P_cu_seqlens_kv);
}

static int check_dimensions(const call *c, int parameter, tensor_side side)
{
    const int expected = is_packed(c, side) ? 3 : 4;
    if (c->views[parameter].ndim == expected)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s has %d dimensions; %s ones have %d: %s",
                 parameter_names[parameter], c->views[parameter].ndim,
                 expected == 3 ? "packed" : "batched", expected,
                 expected == 3       ? "(rows, heads, dim)"
                 : c->head_axis == 1 ? "(batch, heads, length, dim)"
                                     : "(batch, length, heads, dim)");
    return -1;
}

static int same_size(const char *what, const char *name, int64_t size, const char *other_name,
                     int64_t other)
{
    if (size == other)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: %s has %lld, %s has %lld", what, name, (long long)size,
                 other_name, (long long)other);
    return -1;
}

static int read_type(const call *c, int parameter, fc_type *type)
{
    *type = tensor_fc_type(&c->views[parameter]);
    if (*type)
        return 0;
    PyErr_Format(PyExc_TypeError,
                 "%s has elements of type %s; allowed: f32, f16, bf16, e4m3, e5m2 "
                 "or f64",
                 parameter_names[parameter], tensor_type_name(&c->views[parameter]));
    return -1;
}

/* The library reads 0 as "1" there: what repeats along the last axis can't be told to it. */
static int last_stride(const char *name, int64_t size, int64_t stride, int64_t *result)
{
    *result = size == 1 ? 1 : stride;
    if (*result || size == 0)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "%s repeats along its last dimension (stride 0); such a tensor can't be read in "
                 "place",
                 name);
    return -1;
}

int call_set_strides(const call *c, const char *name, const tensor_view *view, tensor_side side,
                     fc_strides *strides)
{
    const bool packed = is_packed(c, side);
    const int64_t *from = view->strides;
    strides->batch = packed ? 0 : from[0];
    strides->head = packed ? from[1] : from[c->head_axis];
    strides->row = packed ? from[0] : from[c->row_axis];
    return last_stride(name, view->shape[view->ndim - 1], from[view->ndim - 1], &strides->dim);
}

static int64_t longest(const int32_t *cu, int64_t batch)
{
    int64_t most = 0;
    for (int64_t i = 0; i < batch; i++)
        most = (int64_t)cu[i + 1] - cu[i] > most ? (int64_t)cu[i + 1] - cu[i] : most;
    return most;
}

/* Packed rows: the longest sequence is told, or looked up where that costs no synchronisation. */
static int read_packed_length(const call *c, int cu_parameter, int longest_parameter,
                              int64_t *length)
{
    const tensor_view *cu = &c->views[cu_parameter];
    if (call_check_vector(c, cu_parameter, (dl_type){DL_INT, 32, 1}, c->problem.batch + 1) != 0)
        return -1;
    if (call_has(c, longest_parameter))
        return call_integer(c, longest_parameter, 0, length);
    if (cu->device.type != DL_CPU) {
        PyErr_Format(PyExc_ValueError,
                     "%s is needed beside %s: looking it up on the GPU would have to wait for it",
                     parameter_names[longest_parameter], parameter_names[cu_parameter]);
        return -1;
    }
    *length = cu->data ? longest(cu->data, c->problem.batch) : 0;
    return 0;
}

static int refuse_unless_packed(const call *c, int longest_parameter, const char *needs)
{
    if (!call_has(c, longest_parameter))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s is given without %s", parameter_names[longest_parameter],
                 needs);
    return -1;
}

static int read_q(call *c)
{
    fc_attention *p = &c->problem;
    const tensor_view *q = &c->views[P_q];
    if (check_dimensions(c, P_q, Q_SIDE) != 0 || read_type(c, P_q, &p->q_type) != 0 ||
        call_set_strides(c, "q", q, Q_SIDE, &p->q_strides) != 0)
        return -1;
    p->head_dim = q->shape[q->ndim - 1];
    c->buffers.q = q->data;
    if (!is_packed(c, Q_SIDE)) {
        p->batch = q->shape[0];
        p->q_heads = q->shape[c->head_axis];
        p->q_length = q->shape[c->row_axis];
        return refuse_unless_packed(c, P_max_seqlen_q, "cu_seqlens_q");
    }
    const tensor_view *cu = &c->views[P_cu_seqlens_q];
    p->packed_q = 1;
    p->packed_q_rows = q->shape[0];
    p->q_heads = q->shape[1];
    p->batch = cu->ndim == 1 && cu->shape[0] > 0 ? cu->shape[0] - 1 : 0;
    c->buffers.cu_q = cu->data;
    return read_packed_length(c, P_cu_seqlens_q, P_max_seqlen_q, &p->q_length);
}

static int read_pages(call *c)
{
    fc_attention *p = &c->problem;
    const tensor_view *table = &c->views[P_page_table];
    const dl_type type = table->type;
    if (table->ndim != 2 || type.code != DL_INT || type.bits != 32 ||
        (table->shape[1] > 1 && table->strides[1] != 1)) {
        PyErr_Format(PyExc_ValueError, "page_table must be int32 of shape (batch, pages), its rows "
                                       "dense");
        return -1;
    }
    if (same_size("sequences", "page_table", table->shape[0], "q", p->batch) != 0)
        return -1;
    p->paged = 1;
    p->page_count = c->views[P_k].shape[0];
    p->page_size = c->views[P_k].shape[c->row_axis];
    p->page_table_stride = p->batch > 1 ? table->strides[0] : table->shape[1];
    c->buffers.page_table = table->data;
    const int64_t most = p->page_size * table->shape[1];
    if (call_integer(c, P_max_seqlen_kv, most, &p->kv_length) != 0)
        return -1;
    if (p->kv_length > most) {
        PyErr_Format(PyExc_ValueError, "max_seqlen_kv = %lld is more than page_table's %lld keys",
                     (long long)p->kv_length, (long long)most);
        return -1;
    }
    return 0;
}

static int read_kv_length(call *c)
{
    fc_attention *p = &c->problem;
    const tensor_view *k = &c->views[P_k];
    if (is_packed(c, KV_SIDE)) {
        p->packed_kv = 1;
        p->packed_kv_rows = k->shape[0];
        c->buffers.cu_kv = c->views[P_cu_seqlens_kv].data;
        return read_packed_length(c, P_cu_seqlens_kv, P_max_seqlen_kv, &p->kv_length);
    }
    if (call_has(c, P_page_table))
        return read_pages(c);
    p->kv_length = k->shape[c->row_axis];
    if (same_size("sequences", "k", k->shape[0], "q", p->batch) != 0)
        return -1;
    return refuse_unless_packed(c, P_max_seqlen_kv, "cu_seqlens_kv or page_table");
}

static int read_kv(call *c)
{
    fc_attention *p = &c->problem;
    const tensor_view *k = &c->views[P_k], *v = &c->views[P_v];
    fc_type v_type;
    if (check_dimensions(c, P_k, KV_SIDE) != 0 || check_dimensions(c, P_v, KV_SIDE) != 0 ||
        read_type(c, P_k, &p->kv_type) != 0 || read_type(c, P_v, &v_type) != 0)
        return -1;
    if (v_type != p->kv_type) {
        PyErr_Format(PyExc_TypeError, "k has elements of type %s, v of type %s; they must be equal",
                     fc_type_name(p->kv_type), fc_type_name(v_type));
        return -1;
    }
    const int last = k->ndim - 1;
    const int head_axis = is_packed(c, KV_SIDE) ? 1 : c->head_axis;
    if (same_size("head_dim", "k", k->shape[last], "q", p->head_dim) != 0)
        return -1;
    for (int axis = 0; axis < last; axis++)
        if (same_size(axis == head_axis ? "heads" : "rows or sequences", "v", v->shape[axis], "k",
                      k->shape[axis]) != 0)
            return -1;
    p->kv_heads = k->shape[head_axis];
    p->value_dim = v->shape[last];
    if (p->value_dim == 0) { /* which the library would read as head_dim */
        PyErr_SetString(PyExc_ValueError, "v's last dimension is 0; allowed: 1 to 576");
        return -1;
    }
    c->buffers.k = k->data;
    c->buffers.v = v->data;
    if (call_set_strides(c, "k", k, KV_SIDE, &p->k_strides) != 0 ||
        call_set_strides(c, "v", v, KV_SIDE, &p->v_strides) != 0)
        return -1;
    return read_kv_length(c);
}

/* Where rows and keys are equally many both corners are one; then there is one plan, too. */
static void unify_diagonal(fc_attention *p)
{
    const bool one_length = !p->packed_q && !p->packed_kv && !p->has_kv_lengths;
    if (one_length && p->q_length == p->kv_length)
        p->diagonal = FC_BOTTOM_RIGHT;
}

int call_open(call *c)
{
    c->opened = 0;
    c->problem = fc_attention_init();
    c->buffers = fc_buffers_init();
    c->framework = framework_of(c->values[P_q]);
    if (!c->framework || open_tensors(c) != 0 || read_layout(c) != 0 || read_q(c) != 0 ||
        read_kv(c) != 0 || call_read_numbers(c) != 0 || call_read_extras(c) != 0)
        return -1;
    unify_diagonal(&c->problem);
    return 0;
}

void call_close(call *c)
{
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (c->opened >> i & 1)
            tensor_close(&c->views[i]);
    c->opened = 0;
}

int call_output_shape(const call *c, tensor_side side, int64_t dim, int64_t shape[MOST_DIMENSIONS])
{
    const tensor_view *like = &c->views[side == Q_SIDE ? P_q : P_k];
    memcpy(shape, like->shape, sizeof like->shape);
    shape[like->ndim - 1] = dim;
    return like->ndim;
}

/* (batch, heads, length) in either layout; packed (heads, rows). */
int call_lse_shape(const call *c, int64_t shape[MOST_DIMENSIONS])
{
    const fc_attention *p = &c->problem;
    if (p->packed_q) {
        shape[0] = p->q_heads;
        shape[1] = p->packed_q_rows;
        return 2;
    }
    shape[0] = p->batch;
    shape[1] = p->q_heads;
    shape[2] = p->q_length;
    return 3;
}

int call_set_lse_strides(const call *c, const tensor_view *view, fc_strides *strides)
{
    int64_t shape[MOST_DIMENSIONS];
    const int ndim = call_lse_shape(c, shape);
    const bool fits = view->ndim == ndim && tensor_fc_type(view) == FC_F32 &&
                      memcmp(view->shape, shape, (size_t)ndim * sizeof shape[0]) == 0;
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "lse must be f32 of shape %s",
                     ndim == 2 ? "(heads, rows)" : "(batch, heads, length)");
        return -1;
    }
    const int64_t *from = view->strides;
    strides->batch = ndim == 2 ? 0 : from[0];
    strides->head = from[ndim - 2];
    strides->row = from[ndim - 1];
    strides->dim = 1;
    return 0;
}
