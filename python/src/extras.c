/* extras.c: the tensors beside q, k and v: bias, mask, ALiBi slopes, sinks, lengths, FP8 scales. */
#include "call.h"

static const dl_type f32 = {DL_FLOAT, 32, 1}, i32 = {DL_INT, 32, 1};

static bool has_type(const tensor_view *view, dl_type type)
{
    return view->type.code == type.code && view->type.bits == type.bits;
}

int call_check_vector(const call *c, int parameter, dl_type type, int64_t count)
{
    const tensor_view *view = &c->views[parameter];
    if (view->ndim == 1 && has_type(view, type) && view->shape[0] == count &&
        (count < 2 || view->strides[0] == 1))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s must be a dense %s vector of %lld elements",
                 parameter_names[parameter], type.code == DL_INT ? "int32" : "f32",
                 (long long)count);
    return -1;
}

/* Aligned at the right, as everywhere: what is missing or 1 repeats. */
static int read_broadcast(const call *c, int parameter, fc_broadcast *strides)
{
    const fc_attention *p = &c->problem;
    const tensor_view *view = &c->views[parameter];
    const int64_t targets[] = {p->batch, p->q_heads, p->q_length, p->kv_length};
    int64_t *const fields[] = {&strides->batch, &strides->head, &strides->row, &strides->key};
    for (int axis = 0; axis < 4; axis++) {
        const int own = axis - (4 - view->ndim);
        const int64_t size = own < 0 ? 1 : view->shape[own];
        if (size != 1 && size != targets[axis]) {
            PyErr_Format(PyExc_ValueError,
                         "%s does not broadcast to (batch, heads, q_length, kv_length) = (%lld, "
                         "%lld, %lld, %lld): its dimension %d is %lld",
                         parameter_names[parameter], (long long)targets[0], (long long)targets[1],
                         (long long)targets[2], (long long)targets[3], own, (long long)size);
            return -1;
        }
        *fields[axis] = size == 1 ? 0 : view->strides[own];
    }
    if (strides->key || targets[3] < 2) {
        strides->key = targets[3] < 2 ? 1 : strides->key;
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "%s repeats along the keys; such a tensor can't be read in place, make it whole "
                 "in that dimension",
                 parameter_names[parameter]);
    return -1;
}

static int read_bias(call *c)
{
    const tensor_view *bias = &c->views[P_bias];
    c->problem.has_bias = 1;
    c->problem.bias_type = tensor_fc_type(bias);
    c->buffers.bias = bias->data;
    if (!c->problem.bias_type) {
        PyErr_Format(PyExc_TypeError,
                     "bias has elements of type %s; allowed: f32, f16, bf16 or "
                     "f64",
                     tensor_type_name(bias));
        return -1;
    }
    return read_broadcast(c, P_bias, &c->problem.bias_strides);
}

static int read_mask(call *c)
{
    const tensor_view *mask = &c->views[P_mask];
    c->problem.has_mask = 1;
    c->buffers.mask = mask->data;
    if (mask->type.bits != 8 || (mask->type.code != DL_BOOL && mask->type.code != DL_UINT)) {
        PyErr_Format(PyExc_TypeError,
                     "mask has elements of type %s; allowed: bool or uint8 (0 "
                     "hides the key); numbers to be added are the bias",
                     tensor_type_name(mask));
        return -1;
    }
    return read_broadcast(c, P_mask, &c->problem.mask_strides);
}

static int read_alibi(call *c)
{
    const tensor_view *alibi = &c->views[P_alibi];
    fc_attention *p = &c->problem;
    p->has_alibi = 1;
    c->buffers.alibi = alibi->data;
    if (alibi->ndim == 1)
        return call_check_vector(c, P_alibi, f32, p->q_heads);
    if (alibi->ndim == 2 && has_type(alibi, f32) && alibi->shape[0] == p->batch &&
        alibi->shape[1] == p->q_heads && (p->q_heads < 2 || alibi->strides[1] == 1)) {
        p->alibi_batch_stride = p->batch > 1 ? alibi->strides[0] : 0;
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "alibi must be f32 of shape (heads,) or (batch, heads), its rows "
                 "dense");
    return -1;
}

/* (), (heads,), (batch, heads) or (batch, heads, blocks of scale_block rows); 1 repeats. */
static int read_scale(const call *c, int parameter, int64_t heads, int64_t rows,
                      fc_scaling *scaling, const float **scale)
{
    const tensor_view *view = &c->views[parameter];
    int64_t block_rows;
    if (call_integer(c, P_scale_block, 0, &block_rows) != 0)
        return -1;
    const int64_t blocks =
        view->ndim == 3 && block_rows > 0 ? (rows + block_rows - 1) / block_rows : 1;
    const int64_t targets[] = {c->problem.batch, heads, blocks};
    int64_t strides[] = {0, 0, 0};
    bool fits = view->ndim <= 3 && has_type(view, f32) && (view->ndim < 3 || block_rows > 0);
    for (int axis = 0; fits && axis < view->ndim; axis++) {
        const int target = view->ndim == 3 ? axis : axis + 2 - view->ndim;
        fits = view->shape[axis] == 1 || view->shape[axis] == targets[target];
        strides[target] = view->shape[axis] == 1 ? 0 : view->strides[axis];
    }
    if (!fits) {
        PyErr_Format(PyExc_ValueError,
                     "%s must be f32 of shape (), (heads,), (batch, heads) or, with scale_block, "
                     "(batch, heads, blocks) = (%lld, %lld, %lld)",
                     parameter_names[parameter], (long long)targets[0], (long long)targets[1],
                     (long long)targets[2]);
        return -1;
    }
    *scaling = (fc_scaling){.batch = strides[0],
                            .head = strides[1],
                            .block = strides[2],
                            .block_rows = strides[2] ? block_rows : 0};
    *scale = view->data;
    return 0;
}

static int read_scales(call *c)
{
    fc_attention *p = &c->problem;
    if (call_has(c, P_q_scale) &&
        read_scale(c, P_q_scale, p->q_heads, p->q_length, &p->q_scaling, &c->buffers.q_scale) != 0)
        return -1;
    if (call_has(c, P_k_scale) && read_scale(c, P_k_scale, p->kv_heads, p->kv_length, &p->k_scaling,
                                             &c->buffers.k_scale) != 0)
        return -1;
    if (call_has(c, P_v_scale) && read_scale(c, P_v_scale, p->kv_heads, p->kv_length, &p->v_scaling,
                                             &c->buffers.v_scale) != 0)
        return -1;
    return 0;
}

int call_read_extras(call *c)
{
    fc_attention *p = &c->problem;
    if (call_has(c, P_bias) && read_bias(c) != 0)
        return -1;
    if (call_has(c, P_mask) && read_mask(c) != 0)
        return -1;
    if (call_has(c, P_alibi) && read_alibi(c) != 0)
        return -1;
    if (call_has(c, P_sinks)) {
        p->has_sinks = 1;
        c->buffers.sinks = c->views[P_sinks].data;
        if (call_check_vector(c, P_sinks, f32, p->q_heads) != 0)
            return -1;
    }
    if (call_has(c, P_kv_lengths)) {
        p->has_kv_lengths = 1;
        c->buffers.kv_lengths = c->views[P_kv_lengths].data;
        if (call_check_vector(c, P_kv_lengths, i32, p->batch) != 0)
            return -1;
    }
    return read_scales(c);
}
