/* backward.c: attention_backward(). */
#include "outputs.h"
#include "run.h"

static const uint8_t positional[] = {P_dout, P_q, P_k, P_v, P_out, P_lse};
static const signature backward_signature = {.function = "attention_backward",
                                             .positional = positional,
                                             .positional_count = 6,
                                             .refused = PARAMETER_BIT(return_lse) |
                                                        PARAMETER_BIT(grouped)};

enum { DQ, DK, DV, DBIAS, DSINKS, RESULTS };

static int read_forward_results(call *c)
{
    fc_attention *p = &c->problem;
    const tensor_view *dout = &c->views[P_dout];
    output unused;
    if (output_describe_out(c, &unused) != 0 ||
        call_set_lse_strides(c, &c->views[P_lse], &p->lse_strides) != 0)
        return -1;
    c->buffers.lse = c->views[P_lse].data;
    const tensor_view *out = &c->views[P_out];
    bool fits = dout->ndim == out->ndim && tensor_fc_type(dout) == p->out_type;
    for (int axis = 0; fits && axis < out->ndim; axis++)
        fits = dout->shape[axis] == out->shape[axis];
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "dout must have out's shape and type");
        return -1;
    }
    return call_set_strides(c, "dout", dout, Q_SIDE, &p->dout_strides);
}

static int make_qkv_gradients(call *c, fc_gradients *gradients, output *results)
{
    fc_attention *p = &c->problem;
    if (output_describe(c, &results[DQ], "dq", Q_SIDE, P_q, p->head_dim, &p->dq_strides) != 0 ||
        output_describe(c, &results[DK], "dk", KV_SIDE, P_k, p->head_dim, &p->dk_strides) != 0 ||
        output_describe(c, &results[DV], "dv", KV_SIDE, P_v, p->value_dim, &p->dv_strides) != 0)
        return -1;
    if (output_make(c, &results[DQ], p->out_type, &gradients->dq) != 0 ||
        output_make(c, &results[DK], p->out_type, &gradients->dk) != 0 ||
        output_make(c, &results[DV], p->out_type, &gradients->dv) != 0)
        return -1;
    gradients->dout = c->views[P_dout].data;
    return 0;
}

/* An f32 tensor of the shape of the input, which lies dense itself: the library writes the gradient
 * with the input's own strides. */
static int make_gradient_of(call *c, int parameter, output *result, float **data)
{
    const tensor_view *view = &c->views[parameter];
    result->wanted = true;
    result->view.ndim = view->ndim;
    int64_t stride = 1;
    for (int axis = view->ndim - 1; axis >= 0; axis--) {
        result->view.shape[axis] = view->shape[axis];
        result->view.strides[axis] = stride;
        if (view->shape[axis] > 1 && view->strides[axis] != stride) {
            PyErr_Format(PyExc_ValueError, "%s must be dense for its gradient",
                         parameter_names[parameter]);
            return -1;
        }
        stride *= view->shape[axis];
    }
    return output_make(c, result, FC_F32, (void **)data);
}

static int make_extra_gradients(call *c, fc_gradients *gradients, output *results)
{
    int32_t dbias, dsinks;
    if (call_flag(c, P_return_dbias, &dbias) != 0 || call_flag(c, P_return_dsinks, &dsinks) != 0)
        return -1;
    if ((dbias && !call_has(c, P_bias)) || (dsinks && !call_has(c, P_sinks))) {
        PyErr_SetString(PyExc_ValueError,
                        "return_dbias and return_dsinks need the bias and the sinks");
        return -1;
    }
    if (dbias && make_gradient_of(c, P_bias, &results[DBIAS], &gradients->dbias) != 0)
        return -1;
    return dsinks ? make_gradient_of(c, P_sinks, &results[DSINKS], &gradients->dsinks) : 0;
}

static PyObject *collect(const call *c, output *results, int result)
{
    PyObject *all = result == 0 ? PyTuple_New(RESULTS) : NULL;
    for (int i = 0; i < RESULTS; i++) {
        PyObject *object = results[i].wanted ? output_finish(c, &results[i], all ? 0 : -1) : NULL;
        if (!results[i].wanted && all) {
            Py_INCREF(Py_None);
            object = Py_None;
        }
        if (all && object)
            PyTuple_SetItem(all, i, object);
        else if (all)
            Py_CLEAR(all);
    }
    return all;
}

PyObject *attention_backward(PyObject *module, PyObject *const *given, Py_ssize_t count,
                             PyObject *names)
{
    (void)module;
    call c;
    if (arguments_parse(&backward_signature, given, count, names, c.values) != 0)
        return NULL;
    fc_gradients gradients = fc_gradients_init();
    output results[RESULTS] = {{.wanted = false}};
    int result = call_open(&c);
    if (result == 0)
        result = read_forward_results(&c);
    if (result == 0)
        result = make_qkv_gradients(&c, &gradients, results);
    if (result == 0)
        result = make_extra_gradients(&c, &gradients, results);
    if (result == 0)
        result = run_call(&c, &gradients);
    call_close(&c);
    return collect(&c, results, result);
}
