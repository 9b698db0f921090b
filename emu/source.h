/* source.h: from addresses of code to lines of source, by the debug information and addr2line. */
#ifndef EMU_SOURCE_H
#define EMU_SOURCE_H

#include "machine.h"

enum { EMU_PLACE_BYTES = 96 };

/* "swizzle.cu:133" for each return address. Headers that wrap instructions are passed over: it is
 * the line of the kernel that called them. */
void emu_source_lines(const uintptr_t *pcs, int count, char (*places)[EMU_PLACE_BYTES]);

/* The text of a failure with its marks replaced by lines. */
void emu_source_expand(const emu_failure *failure, char *text, size_t bytes);

#endif
