/* child.h: another program, or a function of this one, run in a process of its own to its end or to
 * a time limit: what it does to itself, a hang or a broken CUDA context, stays there. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct child_run {
    const char *const *words;    /* the program and its arguments, up to a NULL; or NULL for */
    int (*function)(void *user); /* whose result is the exit status */
    void *user;
    const char *output_path; /* whose end stdout and stderr go to; NULL: to this program's own */
    double limit_seconds;
} child_run;

typedef struct child_result {
    bool started;
    bool timed_out;
    int exit_status; /* 128 + the signal's number where one ended it */
    double seconds;
    char reason[256]; /* "" where it ran and gave 0 */
} child_result;

/* An interrupt of this program (interrupt.h) interrupts the other one, which has ten seconds to
 * end. */
void child_wait(const child_run *run, child_result *result);

/* The last line of a file that holds `words`, from behind them on; reason stays as it is where none
 * does. A call's own words go without "flashcore: ". */
void child_find_line(const char *path, const char *words, char *reason, size_t bytes);
void child_last_line(const char *path, char *reason, size_t bytes);

/* This program's own file. */
const char *child_own_path(void);

#endif
