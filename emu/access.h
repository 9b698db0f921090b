/* access.h: every access of a kernel to memory is checked here before it happens. */
#ifndef EMU_ACCESS_H
#define EMU_ACCESS_H

#include "machine.h"

/* Ends the launch with a report when the bytes are out of bounds, misaligned, unwritten or raced
 * for. Flags: EMU_ATOMIC and its kin (shadow.h). */
void emu_check_access(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc);

/* The same for instructions that take shared, or global, memory alone. */
void emu_check_shared(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc);
void emu_check_global(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc);

/* Where bytes of shared memory lie; false when they are not in the shared memory of a block of the
 * cluster. */
bool emu_find_shared(const emu_machine *machine, const void *memory, unsigned bytes,
                     emu_block **block, size_t *offset);

/* Counts an access, when accesses are counted. */
void emu_count_access(emu_fiber *by, const void *memory, unsigned bytes, bool writes, uintptr_t pc);

void __attribute__((noreturn)) emu_fail_access(emu_fiber *by, const char *what, const void *memory,
                                               unsigned bytes, bool writes, uintptr_t pc);

#endif
