/* counts.h: what a launch did, exactly and the same every time.
 *
 * Plain accesses are counted the way the hardware sees them: the lanes of a warp that make the
 * n-th access of one instruction since they were last together make one request. A request to
 * shared memory takes as many passes as its busiest bank has different words; one to global memory
 * as many sectors of 32 bytes as it touches. */
#ifndef EMU_COUNTS_H
#define EMU_COUNTS_H

#include "emu.h"

#include <stdbool.h>
#include <stdint.h>

struct emu_fiber;

typedef enum emu_space { EMU_SHARED_MEMORY, EMU_GLOBAL_MEMORY } emu_space;

/* The requests of one instruction. */
typedef struct emu_site {
    uintptr_t pc;
    emu_space space;
    bool writes;
    uint64_t requests;
    uint64_t passes, fewest_passes;   /* shared memory */
    uint64_t sectors, fewest_sectors; /* global memory */
} emu_site;

typedef struct emu_counts {
    emu_totals totals;
    emu_site *sites; /* a hash table by pc; empty places have pc 0 */
    uint32_t site_count, site_room;
} emu_counts;

void emu_counts_start(emu_counts *counts);
void emu_counts_add(emu_counts *into, const emu_counts *from);

/* What the lanes of a warp did since they were last together. */
typedef struct emu_trace emu_trace;
emu_trace *emu_trace_create(void);
void emu_trace_free(emu_trace *trace);
void emu_trace_clear(emu_trace *trace);

/* One lane's access. The address is an offset for shared memory. */
void emu_trace_access(emu_trace *trace, int lane, uintptr_t pc, emu_space space, bool writes,
                      uintptr_t address, unsigned bytes);
/* The lanes are together: counts the requests since then. */
void emu_trace_flush(emu_trace *trace, emu_counts *counts);

/* A request whose lanes are known at once (ldmatrix): eight rows of 16 bytes are one pass. */
void emu_count_rows(emu_counts *counts, uintptr_t pc, bool writes, const uintptr_t *rows,
                    int row_count);

#endif
