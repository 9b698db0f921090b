/* measure.h: one shape, checked and then timed: for demo and bench. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include "bench.h"
#include "check.h"
#include "json.h"

typedef struct cli_measurement {
    fc_attention problem;
    fc_direction direction;
    bool without_lse; /* the calls do not ask for it */
    check_result check;
    bool checked_part; /* the check took a part of it: all would take minutes */
    bool sampled;      /* and some rows of the whole (rows.h) */
    bool left_out;     /* by the caller: neither checked nor timed */
    bool timed;        /* only what passed its check is timed */
    bench_times times;
    double cold_p50;   /* seconds with no input in L2; 0: not measured */
    char reason[1024]; /* why it was not timed */
} cli_measurement;

/* Of the measurement the first three members are given. */
void cli_measure(fc_context *context, double seconds, cli_measurement *measurement);

/* Adds the time with cold caches to a forward measurement on a GPU; leaves others alone. */
void cli_measure_cold(fc_context *context, double seconds, cli_measurement *measurement);

/* NULL when none ran. */
const char *cli_measured_kernel(const cli_measurement *measurement);

/* Of the output, or of the gradient that came nearest to its tolerance. */
double cli_measured_error(const cli_measurement *measurement);

double cli_tflops(const cli_measurement *measurement); /* 10^12 operations a second */
double cli_gigabytes_per_second(const cli_measurement *measurement);

const char *cli_outcome_name(check_outcome outcome); /* "passed" */

/* Fields of the innermost object. */
void cli_measurement_json(json_writer *json, const cli_measurement *measurement);

/* "1.23 ms": three digits and the unit that suits. */
enum { CLI_DURATION_BYTES = 32 };
const char *cli_duration(double seconds, char text[CLI_DURATION_BYTES]);

#endif
