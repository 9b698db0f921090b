/* driver.h: what the emulated driver's files share. */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

/* The result, with a text that cuGetErrorString gives. */
CUresult emu_driver_fail(CUresult result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether this thread has a context, which tensor maps want. */
bool emu_driver_has_context(void);

#endif
