/* launch.h: a whole grid, on all cores. */
#ifndef EMU_LAUNCH_H
#define EMU_LAUNCH_H

#include "machine.h"

/* True when every block came to its end. Otherwise emu_launch_report tells why: the failure of the
 * first block, in the order of the grid, that failed. */
bool emu_launch_run(const emu_launch *launch);
const char *emu_launch_report(void);

/* The host waits for all kernels: none that comes later meets them. */
void emu_launch_wait(void);

/* Of all launches since the last reset. */
void emu_launch_reset(void);
const emu_counts *emu_launch_counts(void);

/* Lines of source that accessed memory, the most wasteful first; see emu.h. */
size_t emu_launch_lines(emu_line *lines, size_t room);

#endif
