/* arguments.c: arguments in C, without a dictionary or a tuple made on the way. */
#include "arguments.h"

#define PARAMETER_NAME(name) #name,
const char *const parameter_names[PARAMETER_COUNT] = {TENSOR_PARAMETERS(PARAMETER_NAME)
                                                          OTHER_PARAMETERS(PARAMETER_NAME)};

/* Keywords written in source code are interned, as these are: equal names are the same object. */
static PyObject *interned[PARAMETER_COUNT];

int arguments_prepare(void)
{
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(parameter_names[i])))
            return -1;
    return 0;
}

static int find_parameter(PyObject *name)
{
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if (interned[i] == name)
            return i;
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if (PyUnicode_Compare(interned[i], name) == 0)
            return i;
    return -1;
}

static int take_keyword(const signature *s, PyObject *name, PyObject *value,
                        PyObject *values[PARAMETER_COUNT])
{
    const int parameter = find_parameter(name);
    if (parameter < 0 || s->refused >> parameter & 1) {
        PyErr_Format(PyExc_TypeError, "%s() has no parameter '%U'", s->function, name);
        return -1;
    }
    if (values[parameter]) {
        PyErr_Format(PyExc_TypeError, "%s() got '%U' twice", s->function, name);
        return -1;
    }
    values[parameter] = value == Py_None ? NULL : value;
    return 0;
}

int arguments_parse(const signature *s, PyObject *const *given, Py_ssize_t given_count,
                    PyObject *keyword_names, PyObject *values[PARAMETER_COUNT])
{
    for (int i = 0; i < PARAMETER_COUNT; i++)
        values[i] = NULL;
    if (given_count > s->positional_count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments by position, %zd were given",
                     s->function, s->positional_count, given_count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < given_count; i++)
        values[s->positional[i]] = given[i] == Py_None ? NULL : given[i];
    const Py_ssize_t keyword_count = keyword_names ? PyTuple_Size(keyword_names) : 0;
    for (Py_ssize_t i = 0; i < keyword_count; i++)
        if (take_keyword(s, PyTuple_GetItem(keyword_names, i), given[given_count + i], values) != 0)
            return -1;
    for (int i = 0; i < s->positional_count; i++)
        if (!values[s->positional[i]]) {
            PyErr_Format(PyExc_TypeError, "%s() needs '%s'", s->function,
                         parameter_names[s->positional[i]]);
            return -1;
        }
    return 0;
}
