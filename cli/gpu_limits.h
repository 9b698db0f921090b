/* gpu_limits.h: what some GPUs can do at most, and how long a count of operations must take. */
#ifndef CLI_GPU_LIMITS_H
#define CLI_GPU_LIMITS_H

#include "emu/emu.h"

typedef struct gpu_limits {
    const char *name;
    double multiprocessors;
    double clock;                  /* highest published, per second */
    double products_per_clock;     /* of a multiprocessor: f16, FP32 sums, dense */
    double memory_bytes;           /* per second */
    double exponentials_per_clock; /* of a multiprocessor */
    const char *source;
} gpu_limits;

extern const gpu_limits gpu_table[];
extern const int gpu_count;

/* Seconds that each unit is busy when it does nothing else and all multiprocessors share the work
 * evenly. No kernel with these counts is faster than the longest; most are far slower. Memory is
 * no part of it: inputs may be in L2 already. */
typedef struct gpu_bound {
    double products, exponentials, shared_memory;
    double memory; /* inputs and output once, when none of them is in a cache */
    double longest;
    const char *longest_name;
} gpu_bound;
gpu_bound gpu_bound_of(const gpu_limits *gpu, const emu_totals *totals, double memory_bytes);

#endif
