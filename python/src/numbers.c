/* numbers.c: the arguments that are no tensors. */
#include "call.h"

#include <float.h>

int call_flag(const call *c, int parameter, int32_t *flag)
{
    PyObject *value = c->values[parameter];
    const int truth = !value ? 0 : value == Py_True ? 1 : PyObject_IsTrue(value);
    *flag = truth;
    return truth < 0 ? -1 : 0;
}

int call_integer(const call *c, int parameter, int64_t fallback, int64_t *value)
{
    *value = c->values[parameter] ? PyLong_AsLongLong(c->values[parameter]) : fallback;
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_float(const call *c, int parameter, float *value)
{
    const double given = c->values[parameter] ? PyFloat_AsDouble(c->values[parameter]) : 0;
    *value = (float)given;
    return given == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_seed(const call *c, int parameter, uint64_t *value)
{
    *value = c->values[parameter] ? PyLong_AsUnsignedLongLongMask(c->values[parameter]) : 0;
    return PyErr_Occurred() ? -1 : 0;
}

/* None is no limit; so is -1, as flashcore.h writes it. */
static int read_limit(PyObject *limit, int64_t *value)
{
    *value = limit == Py_None ? -1 : PyLong_AsLongLong(limit);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_window(call *c)
{
    PyObject *window = c->values[P_window];
    if (!window)
        return 0;
    if (!PyTuple_Check(window) || PyTuple_Size(window) != 2) {
        PyErr_Format(PyExc_TypeError,
                     "window = %R is not (left, right): how many keys to either side of its own "
                     "position a row sees, None for no limit",
                     window);
        return -1;
    }
    c->problem.has_window = 1;
    if (read_limit(PyTuple_GetItem(window, 0), &c->problem.window_left) != 0 ||
        read_limit(PyTuple_GetItem(window, 1), &c->problem.window_right) != 0)
        return -1;
    return 0;
}

static int read_diagonal(call *c)
{
    PyObject *diagonal = c->values[P_diagonal];
    if (!diagonal)
        return 0;
    const bool text = PyUnicode_Check(diagonal);
    if (text && PyUnicode_CompareWithASCIIString(diagonal, "top_left") == 0)
        c->problem.diagonal = FC_TOP_LEFT;
    else if (!text || PyUnicode_CompareWithASCIIString(diagonal, "bottom_right") != 0) {
        PyErr_Format(PyExc_ValueError,
                     "diagonal = %R is not known; allowed: 'bottom_right', 'top_left'", diagonal);
        return -1;
    }
    return 0;
}

int call_read_numbers(call *c)
{
    fc_attention *p = &c->problem;
    if (call_flag(c, P_causal, &p->causal) != 0 || read_float(c, P_scale, &p->scale) != 0 ||
        read_float(c, P_softcap, &p->softcap) != 0 ||
        read_float(c, P_dropout_p, &p->dropout_p) != 0 ||
        read_seed(c, P_dropout_seed, &c->buffers.dropout_seed) != 0 ||
        read_seed(c, P_dropout_offset, &c->buffers.dropout_offset) != 0 ||
        call_flag(c, P_batch_invariant, &p->batch_invariant) != 0 || read_diagonal(c) != 0)
        return -1;
    /* The library reads 0 as the default. The smallest number makes all scores equal just as well.
     */
    if (c->values[P_scale] && p->scale == 0)
        p->scale = FLT_MIN;
    return read_window(c);
}
