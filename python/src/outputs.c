/* outputs.c: the tensors that a call writes. */
#include "outputs.h"

#include <string.h>

/* Axes from the slowest to the fastest; the second: the middle ones swapped. */
static const int orders[2][MOST_DIMENSIONS] = {{0, 1, 2, 3}, {0, 2, 1, 3}};

static void set_dense(tensor_view *view, bool swapped)
{
    const int *order = orders[swapped];
    int64_t stride = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        view->strides[order[i]] = stride;
        stride *= view->shape[order[i]] > 0 ? view->shape[order[i]] : 1;
    }
}

int output_describe(const call *c, output *o, const char *name, tensor_side side, int like,
                    int64_t dim, fc_strides *strides)
{
    const tensor_view *model = &c->views[like];
    memset(o, 0, sizeof *o);
    o->wanted = true;
    o->side = side;
    o->name = name;
    o->like = like;
    o->strides = strides;
    o->view.ndim = call_output_shape(c, side, dim, o->view.shape);
    o->swapped = o->view.ndim == 4 && model->shape[1] > 1 && model->shape[2] > 1 &&
                 model->strides[1] < model->strides[2];
    set_dense(&o->view, o->swapped);
    return call_set_strides(c, name, &o->view, side, strides);
}

void output_describe_lse(const call *c, output *o)
{
    memset(o, 0, sizeof *o);
    o->wanted = true;
    o->view.ndim = call_lse_shape(c, o->view.shape);
    set_dense(&o->view, false);
}

/* A framework's own empty_like is faster than DLPack's way, and keeps any order of axes. */
static bool is_like(const call *c, const output *o, fc_type type)
{
    const tensor_view *model = &c->views[o->like];
    return c->framework->empty_like && o->strides && model->ndim == o->view.ndim &&
           tensor_fc_type(model) == type &&
           memcmp(model->shape, o->view.shape, (size_t)model->ndim * sizeof model->shape[0]) == 0;
}

/* Whether the model's axes lie in the order described, in which empty_like would put them, too: but
 * for those permuted in another way, repeated or running backwards, all do. */
static bool lies_as_described(const call *c, const output *o)
{
    const tensor_view *model = &c->views[o->like];
    int64_t slower = INT64_MAX;
    for (int i = 0; i < model->ndim; i++) {
        const int axis = orders[o->swapped][i];
        if (model->shape[axis] < 2)
            continue;
        if (model->strides[axis] <= 0 || model->strides[axis] >= slower)
            return false;
        slower = model->strides[axis];
    }
    return true;
}

static int make_strided(const call *c, output *o, fc_type type)
{
    const int made = tensor_allocate_strided(c->framework, &o->view, dl_type_of(type),
                                             c->views[P_q].device, &o->made);
    if (made == 1)
        o->swapped = false; /* it has its final shape already */
    return made;
}

static int make_like(const call *c, output *o)
{
    o->swapped = false;
    if (tensor_allocate_like(c->framework, c->values[o->like], &o->made) != 0)
        return -1;
    return call_set_strides(c, o->name, &o->made.view, o->side, o->strides);
}

static int make_dense(const call *c, output *o, fc_type type)
{
    int64_t shape[MOST_DIMENSIONS];
    memcpy(shape, o->view.shape, sizeof shape);
    if (o->swapped) {
        shape[1] = o->view.shape[2];
        shape[2] = o->view.shape[1];
    }
    return tensor_allocate(c->framework, o->view.ndim, shape, dl_type_of(type),
                           c->views[P_q].device, &o->made);
}

int output_make(const call *c, output *o, fc_type type, void **data)
{
    const bool like = is_like(c, o, type);
    const int made = like && !lies_as_described(c, o) ? 0 : make_strided(c, o, type);
    if (made < 0)
        return -1;
    if (made == 0 && (like ? make_like(c, o) : make_dense(c, o, type)) != 0)
        return -1;
    *data = o->made.view.data;
    return 0;
}

PyObject *output_finish(const call *c, output *o, int result)
{
    if (result != 0) {
        tensor_discard(&o->made);
        return NULL;
    }
    PyObject *object = tensor_finish(c->framework, &o->made);
    if (!object || !o->swapped)
        return object;
    PyObject *turned = PyObject_CallMethod(object, "swapaxes", "ii", 1, 2);
    Py_DECREF(object);
    return turned;
}

int output_accept(call *c, const char *name, int parameter)
{
    if (!c->views[parameter].read_only)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s is read-only", name);
    return -1;
}

static int accept_out(call *c)
{
    const tensor_view *out = &c->views[P_out];
    int64_t shape[MOST_DIMENSIONS];
    const int ndim = call_output_shape(c, Q_SIDE, c->problem.value_dim, shape);
    if (out->ndim != ndim || memcmp(out->shape, shape, (size_t)ndim * sizeof shape[0]) != 0) {
        PyErr_SetString(PyExc_ValueError, "out must have q's shape with v's last dimension");
        return -1;
    }
    c->problem.out_type = tensor_fc_type(out);
    if (!c->problem.out_type) {
        PyErr_Format(PyExc_TypeError, "out has elements of type %s; allowed: f32, f16, bf16 or f64",
                     tensor_type_name(out));
        return -1;
    }
    c->buffers.out = out->data;
    return call_set_strides(c, "out", out, Q_SIDE, &c->problem.out_strides);
}

int output_describe_out(call *c, output *out)
{
    fc_attention *p = &c->problem;
    memset(out, 0, sizeof *out);
    if (call_has(c, P_out))
        return accept_out(c);
    p->out_type = p->q_type == FC_F8_E4M3 || p->q_type == FC_F8_E5M2 ? FC_BF16 : p->q_type;
    return output_describe(c, out, "out", Q_SIDE, P_q, p->value_dim, &p->out_strides);
}
