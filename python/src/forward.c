/* forward.c: attention(). */
#include "outputs.h"
#include "run.h"

static const uint8_t positional[] = {P_q, P_k, P_v};
#define PARAMETERS_OF_BACKWARD \
    (PARAMETER_BIT(dout) | PARAMETER_BIT(return_dbias) | PARAMETER_BIT(return_dsinks))
const signature forward_signature = {.function = "attention",
                                     .positional = positional,
                                     .positional_count = 3,
                                     .refused = PARAMETERS_OF_BACKWARD | PARAMETER_BIT(grouped)};
static const signature here_signature = {.function = "attention_here",
                                         .positional = positional,
                                         .positional_count = 3,
                                         .refused = PARAMETERS_OF_BACKWARD};

static PyObject *requires_grad; /* the attribute's name */

static bool wants_gradient(PyObject *tensor)
{
    PyObject *wanted = tensor ? PyObject_GetAttr(tensor, requires_grad) : NULL;
    if (!wanted)
        PyErr_Clear();
    Py_XDECREF(wanted);
    return wanted == Py_True;
}

/* Asked first: one call instead of an attribute of every tensor where nothing is recorded. */
static bool records(const framework *f)
{
    PyObject *recording = PyObject_CallObject(f->records, NULL);
    Py_XDECREF(recording);
    return recording == Py_True;
}

/* PyTorch's tensors of which a gradient will be asked go through its autograd, JAX's arrays through
 * XLA. Returns that function, borrowed, or NULL. */
static PyObject *find_diversion(PyObject *const *values)
{
    const framework *f = framework_of(values[P_q]);
    if (!f || !f->divert || !f->records)
        return f ? f->divert : NULL;
    if (!records(f))
        return NULL;
    const bool wanted = wants_gradient(values[P_q]) || wants_gradient(values[P_k]) ||
                        wants_gradient(values[P_v]) || wants_gradient(values[P_bias]) ||
                        wants_gradient(values[P_sinks]);
    return wanted ? f->divert : NULL;
}

static PyObject *call_diversion(PyObject *function, PyObject *const *given, Py_ssize_t count,
                                PyObject *names)
{
    PyObject *arguments = PyTuple_New(count), *keywords = PyDict_New();
    PyObject *result = NULL;
    for (Py_ssize_t i = 0; arguments && i < count; i++) {
        Py_INCREF(given[i]);
        PyTuple_SetItem(arguments, i, given[i]);
    }
    const Py_ssize_t keyword_count = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; keywords && i < keyword_count; i++)
        PyDict_SetItem(keywords, PyTuple_GetItem(names, i), given[count + i]);
    if (arguments && keywords)
        result = PyObject_Call(function, arguments, keywords);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return result;
}

static int prepare_lse(call *c, output *lse, bool wanted)
{
    if (call_has(c, P_lse)) {
        c->buffers.lse = c->views[P_lse].data;
        if (output_accept(c, "lse", P_lse) != 0)
            return -1;
        return call_set_lse_strides(c, &c->views[P_lse], &c->problem.lse_strides);
    }
    if (!wanted)
        return 0;
    output_describe_lse(c, lse); /* dense is the problem's default */
    return output_make(c, lse, FC_F32, (void **)&c->buffers.lse);
}

static int prepare_out(call *c, output *out)
{
    if (output_describe_out(c, out) != 0)
        return -1;
    if (call_has(c, P_out))
        return output_accept(c, "out", P_out);
    return output_make(c, out, c->problem.out_type, &c->buffers.out);
}

/* The object that was made, or another reference to the caller's. */
static PyObject *result_object(const call *c, output *o, int parameter, int result)
{
    if (!call_has(c, parameter))
        return output_finish(c, o, result);
    if (result == 0)
        Py_INCREF(c->values[parameter]);
    return result == 0 ? c->values[parameter] : NULL;
}

/* grouped= is given where PyTorch's rules hold: one type, and as many heads unless it is true. */
static int check_pytorchs_rules(const call *c)
{
    int32_t grouped;
    if (!call_has(c, P_grouped))
        return 0;
    if (call_flag(c, P_grouped, &grouped) != 0)
        return -1;
    const fc_attention *p = &c->problem;
    if (p->q_type == p->kv_type && (grouped || p->q_heads == p->kv_heads))
        return 0;
    PyErr_SetString(PyExc_ValueError, "q and k have different types or numbers of heads");
    return -1;
}

static PyObject *run_forward(call *c)
{
    int32_t return_lse = 0;
    output out = {.wanted = false}, lse = {.wanted = false};
    int result = call_open(c);
    if (result == 0)
        result = call_flag(c, P_return_lse, &return_lse);
    if (result == 0)
        result = check_pytorchs_rules(c);
    if (result == 0)
        result = prepare_out(c, &out);
    if (result == 0)
        result = prepare_lse(c, &lse, return_lse);
    if (result == 0)
        result = run_call(c, NULL);
    call_close(c);
    PyObject *out_object = result_object(c, &out, P_out, result);
    if (!return_lse)
        return out_object;
    PyObject *lse_object = result_object(c, &lse, P_lse, out_object ? result : -1);
    PyObject *both = out_object && lse_object ? PyTuple_Pack(2, out_object, lse_object) : NULL;
    Py_XDECREF(out_object);
    Py_XDECREF(lse_object);
    return both;
}

PyObject *attention(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    (void)module;
    call c;
    if (arguments_parse(&forward_signature, given, count, names, c.values) != 0)
        return NULL;
    PyObject *diversion = find_diversion(c.values);
    if (diversion)
        return call_diversion(diversion, given, count, names);
    return PyErr_Occurred() ? NULL : run_forward(&c);
}

PyObject *attention_here(PyObject *module, PyObject *const *given, Py_ssize_t count,
                         PyObject *names)
{
    (void)module;
    call c;
    if (arguments_parse(&here_signature, given, count, names, c.values) != 0)
        return NULL;
    return run_forward(&c);
}

int forward_prepare(void)
{
    requires_grad = PyUnicode_InternFromString("requires_grad");
    return requires_grad ? 0 : -1;
}
