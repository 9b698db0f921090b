/* py.h: Python's C API, as much of it as every CPython since 3.9 promises to keep. */
#ifndef FLASHCORE_PY_H
#define FLASHCORE_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* Every CPython since 3.7 knows this flag; the header shows it to users of the stable ABI from 3.10
 * on. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#define FAST_METHOD(name, function, doc)                                                  \
    {                                                                                     \
        name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, doc \
    }

#endif
