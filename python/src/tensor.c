/* tensor.c: opening a tensor (its C exchange, a DLPack capsule or a description) and making one. */
#include "tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    dl_type type;
    fc_type fc;
} types[] = {
    {"f32", {DL_FLOAT, 32, 1}, FC_F32},           {"f16", {DL_FLOAT, 16, 1}, FC_F16},
    {"bf16", {DL_BFLOAT, 16, 1}, FC_BF16},        {"e4m3", {DL_FLOAT8_E4M3FN, 8, 1}, FC_F8_E4M3},
    {"e5m2", {DL_FLOAT8_E5M2, 8, 1}, FC_F8_E5M2}, {"f64", {DL_FLOAT, 64, 1}, FC_F64},
    {"bool", {DL_BOOL, 8, 1}, FC_TYPE_AUTO},      {"uint8", {DL_UINT, 8, 1}, FC_TYPE_AUTO},
    {"int32", {DL_INT, 32, 1}, FC_TYPE_AUTO},     {"int64", {DL_INT, 64, 1}, FC_TYPE_AUTO},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static bool same_type(dl_type a, dl_type b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

fc_type tensor_fc_type(const tensor_view *view)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (same_type(types[i].type, view->type))
            return types[i].fc;
    return FC_TYPE_AUTO;
}

dl_type dl_type_of(fc_type type)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].fc == type)
            return types[i].type;
    return (dl_type){0, 0, 0};
}

const char *dl_type_name(dl_type type)
{
    static char other[48];
    for (int i = 0; i < TYPE_COUNT; i++)
        if (same_type(types[i].type, type))
            return types[i].name;
    snprintf(other, sizeof other, "DLPack type %d of %d bits", type.code, type.bits);
    return other;
}

const char *tensor_type_name(const tensor_view *view)
{
    return dl_type_name(view->type);
}

const char *tensor_device_name(dl_device device)
{
    static char names[2][32]; /* a sentence has two at most */
    static int turn;
    turn = !turn;
    if (device.type == DL_CPU)
        return "the CPU";
    snprintf(names[turn], sizeof names[turn],
             device.type == DL_CUDA ? "cuda:%d" : "a device of DLPack type %d",
             device.type == DL_CUDA ? device.index : device.type);
    return names[turn];
}

/* ---- Opening ---- */

static void set_dense_strides(tensor_view *view)
{
    int64_t stride = 1;
    for (int axis = view->ndim - 1; axis >= 0; axis--) {
        view->strides[axis] = stride;
        stride *= view->shape[axis] > 0 ? view->shape[axis] : 1;
    }
}

static bool is_empty(const tensor_view *view)
{
    for (int axis = 0; axis < view->ndim; axis++)
        if (view->shape[axis] == 0)
            return true;
    return false;
}

static int read_tensor(const dl_tensor *tensor, const char *name, tensor_view *view)
{
    if (tensor->ndim > MOST_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "%s has %d dimensions; attention knows at most %d", name,
                     (int)tensor->ndim, MOST_DIMENSIONS);
        return -1;
    }
    view->data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
    view->device = tensor->device;
    view->type = tensor->type;
    view->ndim = tensor->ndim;
    const size_t bytes = (size_t)view->ndim * sizeof view->shape[0];
    if (bytes)
        memcpy(view->shape, tensor->shape, bytes);
    if (tensor->strides && !is_empty(view)) /* whose strides may be anything */
        memcpy(view->strides, tensor->strides, bytes);
    else
        set_dense_strides(view);
    if (view->device.type == DL_CUDA_HOST) /* pinned memory is memory */
        view->device = (dl_device){DL_CPU, 0};
    else if (view->device.type == DL_CUDA_MANAGED)
        view->device.type = DL_CUDA;
    return 0;
}

/* (shape, type's name, "cpu" or "cuda") */
static int read_description(PyObject *tuple, const char *name, tensor_view *view)
{
    PyObject *shape;
    const char *type, *device;
    if (!PyArg_ParseTuple(tuple, "O!ss", &PyTuple_Type, &shape, &type, &device))
        return -1;
    const Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim > MOST_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "%s has %zd dimensions; attention knows at most %d", name,
                     ndim, MOST_DIMENSIONS);
        return -1;
    }
    view->device = (dl_device){strcmp(device, "cuda") == 0 ? DL_CUDA : DL_CPU, 0};
    view->ndim = (int)ndim;
    for (Py_ssize_t axis = 0; axis < ndim; axis++)
        view->shape[axis] = PyLong_AsLongLong(PyTuple_GetItem(shape, axis));
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, type) == 0)
            view->type = types[i].type;
    set_dense_strides(view);
    return PyErr_Occurred() ? -1 : 0;
}

/* The exchange's own way of calling __dlpack__: a tensor on a GPU is told our stream, and orders
 * what was queued elsewhere before it. */
static PyObject *call_dlpack(const framework *f, PyObject *object)
{
    int device_type, device_index;
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    const int parsed = device ? PyArg_ParseTuple(device, "ii", &device_type, &device_index) : 0;
    Py_XDECREF(device);
    if (!parsed)
        return NULL;
    if (device_type != DL_CUDA)
        return PyObject_CallMethod(object, "__dlpack__", NULL);
    void *stream;
    if (framework_stream(f, (dl_device){DL_CUDA, device_index}, &stream) != 0)
        return NULL;
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = PyTuple_New(0);
    PyObject *keywords = Py_BuildValue("{s:L}", "stream", stream ? (long long)(intptr_t)stream : 1);
    PyObject *capsule = method && none && keywords ? PyObject_Call(method, none, keywords) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    return capsule;
}

/* A capsule that was taken gets another name, so that it does not free what is ours now. */
static int take_capsule(PyObject *capsule, const char *name, tensor_view *view)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_managed_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (versioned->version.major > DL_MAJOR_VERSION) {
            PyErr_Format(PyExc_BufferError, "%s comes as DLPack %u; known is %d", name,
                         (unsigned)versioned->version.major, DL_MAJOR_VERSION);
            return -1;
        }
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        view->versioned = versioned;
        view->read_only = versioned->flags & DL_READ_ONLY;
        return read_tensor(&versioned->tensor, name, view);
    }
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (!managed)
        return -1;
    PyCapsule_SetName(capsule, "used_dltensor");
    view->managed = managed;
    return read_tensor(&managed->tensor, name, view);
}

static int open_capsule(const framework *f, PyObject *object, const char *name, tensor_view *view)
{
    PyObject *capsule = f->exporter ? PyObject_CallFunctionObjArgs(f->exporter, object, NULL)
                                    : call_dlpack(f, object);
    if (!capsule) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            PyErr_Format(PyExc_TypeError,
                         "%s is a %R; a tensor that speaks DLPack was expected (NumPy, PyTorch, "
                         "JAX, CuPy)",
                         name, f->type);
        }
        return -1;
    }
    const int result = take_capsule(capsule, name, view);
    Py_DECREF(capsule);
    return result;
}

int tensor_open(PyObject *object, const char *name, tensor_view *view)
{
    memset(view, 0, sizeof *view);
    if (PyTuple_Check(object))
        return read_description(object, name, view);
    const framework *f = framework_of(object);
    if (!f)
        return -1;
    if (f->api) {
        dl_tensor tensor;
        return f->api->view(object, &tensor) == 0 ? read_tensor(&tensor, name, view) : -1;
    }
    const int result = open_capsule(f, object, name, view);
    if (result != 0)
        tensor_close(view);
    return result;
}

void tensor_close(tensor_view *view)
{
    if (view->managed && view->managed->deleter)
        view->managed->deleter(view->managed);
    if (view->versioned && view->versioned->deleter)
        view->versioned->deleter(view->versioned);
    view->managed = NULL;
    view->versioned = NULL;
}

/* ---- Making ---- */

static void set_python_error(void *context, const char *kind, const char *message)
{
    (void)context;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
    PyGILState_Release(state);
}

static int allocate_by_python(const framework *f, int ndim, const int64_t *shape, dl_type type,
                              dl_device device, new_tensor *made)
{
    if (!f->empty) {
        PyErr_Format(PyExc_TypeError,
                     "FlashCore can't make a %R for the result; give the memory as out=", f->type);
        return -1;
    }
    PyObject *sizes = PyTuple_New(ndim);
    for (int axis = 0; sizes && axis < ndim; axis++)
        PyTuple_SetItem(sizes, axis, PyLong_FromLongLong(shape[axis]));
    made->object = sizes ? PyObject_CallFunction(f->empty, "Osii", sizes, dl_type_name(type),
                                                 (int)device.type, (int)device.index)
                         : NULL;
    Py_XDECREF(sizes);
    return made->object ? tensor_open(made->object, "out", &made->view) : -1;
}

int tensor_allocate(const framework *f, int ndim, const int64_t *shape, dl_type type,
                    dl_device device, new_tensor *made)
{
    memset(made, 0, sizeof *made);
    if (!f->api)
        return allocate_by_python(f, ndim, shape, type, device, made);
    int64_t sizes[MOST_DIMENSIONS];
    memcpy(sizes, shape, (size_t)ndim * sizeof sizes[0]);
    dl_tensor prototype = {.device = device, .ndim = ndim, .type = type, .shape = sizes};
    if (f->api->allocate(&prototype, &made->managed, NULL, set_python_error) != 0)
        return -1;
    return read_tensor(&made->managed->tensor, "out", &made->view);
}

int tensor_allocate_like(const framework *f, PyObject *tensor, new_tensor *made)
{
    memset(made, 0, sizeof *made);
    made->object = PyObject_CallFunctionObjArgs(f->empty_like, tensor, NULL);
    return made->object ? tensor_open(made->object, "out", &made->view) : -1;
}

PyObject *tensor_finish(const framework *f, new_tensor *made)
{
    PyObject *object = made->object;
    made->object = NULL;
    tensor_close(&made->view);
    if (made->managed) {
        void *imported = NULL;
        dl_managed_versioned *managed = made->managed;
        made->managed = NULL;
        if (f->api->import_managed(managed, &imported) == 0)
            object = imported;
    }
    return object;
}

void tensor_discard(new_tensor *made)
{
    tensor_close(&made->view);
    if (made->managed && made->managed->deleter)
        made->managed->deleter(made->managed);
    Py_XDECREF(made->object);
    memset(made, 0, sizeof *made);
}
