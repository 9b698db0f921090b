/* driver.h: what the emulated driver's files share. */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))

/* The result, with a text that cuGetErrorString gives. */
CUresult emu_driver_fail(CUresult result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
