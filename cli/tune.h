/* tune.h: what the parts of `flashcore tune` share: a search over the choices that a kernel has.
 *
 *   tune_space.c    the choices, and every combination of them
 *   tune_compile.c  what the compiler says of each: many fall out before anything runs
 *   tune_measure.c  one candidate checked and timed, or counted, in a process of its own
 *   tune_state.c    the search as a file: its result, and where an interrupted one goes on
 *   tune_show.c     why the best is the best
 *   tune.c          the verb: round after round, fewer candidates and more time for each */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "jit/jit.h"
#include "options.h"
#include "problem.h"

enum { TUNE_MOST_AXES = 8, TUNE_MOST_VALUES = 16, TUNE_TEXT_BYTES = 256 };

/* A macro, or of a CPU "kernel" and "threads". */
typedef struct tune_axis {
    char name[64];
    int count;
    char values[TUNE_MOST_VALUES][48];
} tune_axis;

typedef enum tune_outcome {
    TUNE_WAITING,
    TUNE_REFUSED, /* by the compiler */
    TUNE_PRUNED,  /* by what the compiler says it takes */
    TUNE_FAILED,  /* its check, or it crashed or hung */
    TUNE_TIMED    /* or counted */
} tune_outcome;

typedef struct tune_candidate {
    char text[TUNE_TEXT_BYTES]; /* "KV_TILE=32 STAGES=3"; "": as built */
    int choice[TUNE_MOST_AXES];
    tune_outcome outcome;
    char signature[JIT_SIGNATURE_CHARS + 1];  /* of what was compiled; a time holds for it alone */
    int registers, spill_bytes, shared_bytes; /* 0: not known */
    int rounds;                               /* that it was measured in */
    double p10, p50, p90;                     /* us of the last of them */
    char reason[TUNE_TEXT_BYTES];
} tune_candidate;

typedef enum tune_mode { TUNE_CPU, TUNE_CUDA, TUNE_EMU } tune_mode;

typedef struct tune_search {
    const cli_arguments *arguments;
    tune_mode mode;
    fc_attention problem;
    char problem_text[CLI_PROBLEM_TEXT_BYTES];
    char gpu[32]; /* of cli/gpu_limits.c, whose peaks turn the counts of TUNE_EMU into times */

    /* What a look at the device tells. */
    char device[128], kernel[64], variant[96], bucket[96];
    int compute_capability, most_shared_bytes;
    char kernels[TUNE_MOST_VALUES][48]; /* on a CPU: those that accept the problem */
    int kernel_count;

    int axis_count;
    tune_axis axes[TUNE_MOST_AXES];
    int count;
    tune_candidate *candidates; /* the first is the kernel as it is built */
    bool interrupted;
    char path[4096]; /* of its file */
    char *source;    /* the text of --source, or NULL */
} tune_search;

/* What stands in for the variant's own source; without a name where nothing does. */
jit_source tune_own_source(const tune_search *search);

const char *tune_outcome_name(tune_outcome outcome); /* "timed" */

/* Axes of the kernel's file, or those of --macro; then all combinations. False: said why. */
bool tune_make_candidates(tune_search *search);

/* Compiles all, several at a time; what the cache has costs nothing. */
bool tune_compile(tune_search *search);

/* Kernel, variant and limits, from a process of its own: this one must not open the driver. */
bool tune_look(tune_search *search);

void tune_measure(tune_search *search, tune_candidate *candidate, double seconds);

/* tune_read takes from the file what fits the search; false only where the file cannot be read. */
bool tune_write(const tune_search *search);
bool tune_read(tune_search *search);

/* All of a search from its file, to be shown. */
bool tune_load(tune_search *search);

/* NULL: nothing was timed. */
const tune_candidate *tune_best(const tune_search *search);
/* Faster than the kernel as it is built, by more than luck. */
bool tune_is_better(const tune_search *search, const tune_candidate *candidate);
void tune_show(const tune_search *search);

/* Adds the best to the file that FLASHCORE_TUNED names, or to flashcore-tuned.txt. */
bool tune_store(const tune_search *search);

#endif
