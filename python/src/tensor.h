/* tensor.h: tensors of any framework, seen and made through DLPack. */
#ifndef FLASHCORE_TENSOR_H
#define FLASHCORE_TENSOR_H

#include "dlpack.h"
#include "flashcore.h"
#include "py.h"

enum { MOST_DIMENSIONS = 4 };

/* What is known of a tensor's type; found once a type, kept as long as the process lives. */
typedef struct framework {
    struct framework *next;
    PyObject *type;
    const dl_exchange_api *api; /* NULL: everything goes through Python */
    PyObject *empty;            /* (shape, element type's name, device type, device index) */
    PyObject *empty_like;       /* (tensor): its shape, type, device and order of axes */
    PyObject *strided;          /* (shape, strides, element type's name, device type) -> how to make
                                 * one on the current device: (function, arguments), or None */
    PyObject *current_device;   /* () -> that device's index, of the GPUs */
    PyObject *stream;           /* (device index) -> handle of the current stream */
    PyObject *exporter;         /* (tensor) -> capsule; NULL: its __dlpack__ */
    PyObject *divert;           /* takes the whole call instead; NULL: nothing does */
    PyObject *records;          /* () -> bool: divert only then, for gradients; NULL: always */
} framework;

const framework *framework_of(PyObject *object);

typedef struct tensor_view {
    void *data; /* the first element; NULL for a description without data */
    dl_device device;
    dl_type type;
    int ndim;
    int64_t shape[MOST_DIMENSIONS];
    int64_t strides[MOST_DIMENSIONS]; /* elements */
    bool read_only;
    dl_managed *managed; /* what close gives back; at most one of the two */
    dl_managed_versioned *versioned;
} tensor_view;

/* The object is a tensor, or a description of one: the tuple (shape, type's name, device type).
 * All functions that return int give 0, or -1 with a Python error set. */
int tensor_open(PyObject *object, const char *name, tensor_view *view);
void tensor_close(tensor_view *view);

fc_type tensor_fc_type(const tensor_view *view); /* FC_TYPE_AUTO for what attention can't take */
dl_type dl_type_of(fc_type type);
/* "f16", "int64"…, for sentences; valid until the next call. */
const char *dl_type_name(dl_type type);
const char *tensor_type_name(const tensor_view *view);
const char *tensor_device_name(dl_device device);

/* The stream that the framework works in now. */
int framework_stream(const framework *f, dl_device device, void **stream);

/* A fresh dense tensor; until tensor_finish makes it an object, its memory is in view. */
typedef struct new_tensor {
    tensor_view view;
    dl_managed_versioned *managed;
    PyObject *object;
} new_tensor;

int tensor_allocate(const framework *f, int ndim, const int64_t *shape, dl_type type,
                    dl_device device, new_tensor *made);
int tensor_allocate_like(const framework *f, PyObject *tensor, new_tensor *made);
/* With wanted's shape and strides. Returns 1, 0 where the framework can't be asked for that, or -1
 * with a Python error set. */
int tensor_allocate_strided(const framework *f, const tensor_view *wanted, dl_type type,
                            dl_device device, new_tensor *made);
PyObject *tensor_finish(const framework *f, new_tensor *made);
void tensor_discard(new_tensor *made);

#endif
