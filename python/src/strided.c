/* strided.c: a fresh tensor by the framework's own function of sizes, strides and element type. Its
 * arguments are made once and kept: making them anew takes 0.2 us, a quarter of such a call. */
#include "tensor.h"

#include <string.h>

typedef struct strided_key {
    const framework *framework;
    int64_t shape[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    int ndim, device_type;
    dl_type type;
} strided_key;

typedef struct strided_call {
    strided_key key;
    PyObject *call; /* (function, its arguments), or None where there is no such function */
} strided_call;

enum { KEPT_CALLS = 64 };
static strided_call kept_calls[KEPT_CALLS];

static strided_call *slot_of(const strided_key *key)
{
    uint64_t hash = (uint64_t)key->type.code << 8 | key->type.bits;
    for (int axis = 0; axis < MOST_DIMENSIONS; axis++)
        hash = (hash ^ (uint64_t)key->shape[axis] ^ (uint64_t)key->strides[axis] << 32) *
               UINT64_C(0x9E3779B97F4A7C15);
    return &kept_calls[(hash >> 32) % KEPT_CALLS];
}

static PyObject *tuple_of(int count, const int64_t *numbers)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLongLong(numbers[i]));
    return tuple;
}

static PyObject *ask_framework(const strided_key *key)
{
    PyObject *shape = tuple_of(key->ndim, key->shape);
    PyObject *strides = tuple_of(key->ndim, key->strides);
    PyObject *call = shape && strides
                         ? PyObject_CallFunction(key->framework->strided, "OOsi", shape, strides,
                                                 dl_type_name(key->type), key->device_type)
                         : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return call;
}

/* A reference of the caller's own: another call may take the slot meanwhile. */
static PyObject *find_call(const strided_key *key)
{
    strided_call *slot = slot_of(key);
    if (!slot->call || memcmp(&slot->key, key, sizeof *key) != 0) {
        PyObject *call = ask_framework(key), *old = slot->call;
        if (!call)
            return NULL;
        memcpy(&slot->key, key, sizeof *key);
        slot->call = call;
        Py_XDECREF(old);
    }
    Py_INCREF(slot->call);
    return slot->call;
}

/* The function makes its tensors on the current device. */
static int is_current(const framework *f, dl_device device)
{
    if (device.type == DL_CPU)
        return 1;
    PyObject *current = PyObject_CallObject(f->current_device, NULL);
    if (!current)
        return -1;
    const long index = PyLong_AsLong(current);
    Py_DECREF(current);
    return index == -1 && PyErr_Occurred() ? -1 : index == device.index;
}

int tensor_allocate_strided(const framework *f, const tensor_view *wanted, dl_type type,
                            dl_device device, new_tensor *made)
{
    if (!f->strided)
        return 0;
    strided_key key;
    memset(&key, 0, sizeof key); /* its gaps too: keys are compared as bytes */
    key.framework = f;
    memcpy(key.shape, wanted->shape, (size_t)wanted->ndim * sizeof key.shape[0]);
    memcpy(key.strides, wanted->strides, (size_t)wanted->ndim * sizeof key.strides[0]);
    key.ndim = wanted->ndim;
    key.device_type = device.type;
    key.type = type;
    PyObject *call = find_call(&key);
    if (!call)
        return -1;
    int result = call == Py_None ? 0 : is_current(f, device);
    if (result == 1) {
        memset(made, 0, sizeof *made);
        made->object = PyObject_Call(PyTuple_GetItem(call, 0), PyTuple_GetItem(call, 1), NULL);
        if (!made->object || tensor_open(made->object, "out", &made->view) != 0)
            result = -1;
    }
    Py_DECREF(call);
    return result;
}
