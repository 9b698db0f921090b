/* framework.c: what a tensor's type offers, found once: the C exchange of DLPack where the type has
 * it, and what _frameworks.py knows of its module. */
#include "tensor.h"

#include <stdlib.h>

static framework *frameworks;

/* Only a type that brings the exchange itself is taken at its word: a subclass may not even have
 * memory (PyTorch's FakeTensor), and its __dlpack__ says so. */
static const dl_exchange_api *find_api(PyObject *type)
{
    PyObject *own = PyObject_GetAttrString(type, "__dict__");
    PyObject *capsule = own ? PyMapping_GetItemString(own, "__dlpack_c_exchange_api__") : NULL;
    Py_XDECREF(own);
    const dl_exchange_api *api =
        capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    Py_XDECREF(capsule);
    PyErr_Clear();
    while (api && api->version.major > DL_MAJOR_VERSION)
        api = api->previous;
    return api && api->version.major == DL_MAJOR_VERSION && api->view ? api : NULL;
}

static PyObject *held(PyObject *object)
{
    Py_XINCREF(object);
    return object;
}

/* _frameworks.adapt(type) -> a tuple of these fields, in their order */
static int ask_python(framework *f)
{
    PyObject *module = PyImport_ImportModule("flashcore._frameworks");
    PyObject *found = module ? PyObject_CallMethod(module, "adapt", "O", f->type) : NULL;
    Py_XDECREF(module);
    if (!found)
        return -1;
    PyObject **const fields[] = {&f->empty,  &f->empty_like, &f->strided, &f->current_device,
                                 &f->stream, &f->exporter,   &f->divert,  &f->records};
    for (Py_ssize_t i = 0; i < (Py_ssize_t)(sizeof fields / sizeof fields[0]); i++) {
        PyObject *item = PyTuple_GetItem(found, i);
        *fields[i] = item == Py_None ? NULL : held(item);
    }
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

const framework *framework_of(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    for (const framework *f = frameworks; f; f = f->next)
        if (f->type == type)
            return f;
    framework *made = calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(type);
    made->type = type;
    made->api = find_api(type);
    if (ask_python(made) != 0) {
        free(made);
        Py_DECREF(type);
        return NULL;
    }
    made->next = frameworks;
    frameworks = made;
    return made;
}

int framework_stream(const framework *f, dl_device device, void **stream)
{
    *stream = NULL;
    if (device.type == DL_CPU)
        return 0;
    if (f->api)
        return f->api->current_stream(device.type, device.index, stream);
    if (!f->stream)
        return 0; /* the legacy default stream, where such frameworks put their work */
    PyObject *handle = PyObject_CallFunction(f->stream, "i", (int)device.index);
    if (!handle)
        return -1;
    *stream = PyLong_AsVoidPtr(handle);
    Py_DECREF(handle);
    return PyErr_Occurred() ? -1 : 0;
}
