/* report.h: what a kernel takes, as the assembler says it (ptxas -v, through nvcc or NVRTC). */
#ifndef FC_JIT_REPORT_H
#define FC_JIT_REPORT_H

#include <stdbool.h>

enum { JIT_REPORT_NAME_CHARS = 255, JIT_REPORT_ARCHITECTURE_CHARS = 15 };

typedef struct jit_report {
    char kernel[JIT_REPORT_NAME_CHARS + 1]; /* a longer name is cut */
    char architecture[JIT_REPORT_ARCHITECTURE_CHARS + 1];
    /* -1 where the text breaks off before it says. */
    int registers; /* of a thread */
    int barriers;
    int static_shared_bytes; /* of a block */
    int stack_bytes;         /* of a thread, its calls included */
    int spill_store_bytes;
    int spill_load_bytes;
} jit_report;

/* The next kernel's report, with *text moved past it; false when there is no more. */
bool jit_report_next(const char **text, jit_report *report);

#endif
