/* emu_count.h: one call on the emulator, counted. */
#ifndef CLI_EMU_COUNT_H
#define CLI_EMU_COUNT_H

#include "emu/emu.h"
#include "flashcore.h"

enum { EMU_MOST_LINES = 400 };

typedef struct emu_report {
    fc_attention problem;
    const char *device;
    const char *kernel;
    emu_totals totals;
    emu_line lines[EMU_MOST_LINES];
    size_t line_count;
} emu_report;

/* Runs report->problem in a context of the emulator and fills in kernel, totals and lines. False
 * with the emulator's report printed. */
bool emu_count(fc_context *context, emu_report *report);

#endif
