/* check_rows.h: what `flashcore check` and its way to run cases in other processes share. */
#ifndef CLI_CHECK_ROWS_H
#define CLI_CHECK_ROWS_H

#include "check.h"
#include "options.h"

typedef struct check_row {
    fc_case of;
    check_result result;
} check_row;

typedef struct check_report {
    fc_context *context; /* NULL where other processes have it */
    char device[128];
    const char *forced_kernel; /* NULL: none */
    const char *backend_words; /* what chose the device, for a command line */
    bool backward;             /* a case whose gradients no kernel takes counts as refused */
    size_t wanted;             /* cases that the flags chose */
    size_t done;
    check_row *rows;
    double seconds;
    bool interrupted;
} check_report;

/* Opens the context and draws the sample. False: said why. */
bool check_open(const cli_arguments *arguments, check_report *report);
void check_run_case(const check_report *report, check_row *row);

/* Works the rows off in another process, and in a new one after a case that crashed, hung for more
 * than --limit seconds or broke the CUDA context. False: no process could open the device. */
bool check_run_isolated(const cli_arguments *arguments, check_report *report);

#endif
