/* memory.h: device memory: what was allocated, and which parts of it kernels may touch. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "machine.h"

/* Aligned as cuMemAlloc does it; NULL when there is none. */
void *emu_memory_allocate(size_t bytes);
bool emu_memory_free(void *memory); /* false: no such allocation */
void emu_memory_fence(const void *memory, size_t bytes, bool closed);

/* Whether the bytes lie in one open part of an allocation, which is then described. Nothing is
 * allocated or fenced during a launch. */
bool emu_memory_find(const void *memory, size_t bytes, emu_open_memory *open);

/* Constants in the kernel's own binary. */
bool emu_memory_is_constant(const void *memory);

/* "global memory, 2 bytes past the end of an allocation of 4096" */
void emu_memory_describe(const void *memory, char *text, size_t bytes);

#endif
