/* run.h: the end of a call: plan, workspace, run; and a status as a Python exception. */
#ifndef FLASHCORE_RUN_H
#define FLASHCORE_RUN_H

#include "call.h"

/* Sets the exception that belongs to the status, with the library's sentence; returns NULL. */
PyObject *raise_status(fc_status status);

/* gradients is NULL in the forward direction. Python's lock is open during the run, unless that is
 * over sooner. */
int run_call(call *c, const fc_gradients *gradients);

extern const signature forward_signature;

/* attention_here never leaves the call to a framework's own differentiation. */
int forward_prepare(void); /* once, when the module is made */
PyObject *attention_here(PyObject *module, PyObject *const *given, Py_ssize_t count,
                         PyObject *names);
PyObject *attention(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names);
PyObject *attention_backward(PyObject *module, PyObject *const *given, Py_ssize_t count,
                             PyObject *names);
PyObject *explain(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names);
PyObject *describe(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names);
PyObject *kernels(PyObject *module, PyObject *nothing);
PyObject *info(PyObject *module, PyObject *nothing);

/* jax.c */
PyObject *xla_handlers(PyObject *module, PyObject *nothing);

#endif
