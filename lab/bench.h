/* bench.h: how long one whole call takes, and how much work it holds. */
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include "flashcore.h"

#include <stddef.h>

/* Seconds of a whole call, never divided by the batch. */
typedef struct bench_times {
    size_t calls;
    double p10;
    double p50;
    double p90;
    double spread; /* between the medians of the first, the second and the last third of the calls,
                      as a part of p50 */
    double
        plain_p50; /* on a GPU: of plain calls, where the others are of replays of a CUDA graph */
} bench_times;

/* A direction of a plan with its pointers. */
typedef struct bench_call {
    const fc_plan *plan;
    const fc_buffers *buffers;
    const fc_gradients *gradients; /* NULL: forward */
} bench_call;

/* Makes the call until `seconds` have passed, after one that is not counted; at least three times,
 * however long that takes. The status is that of the first call which failed. */
fc_status bench_calls(const bench_call *call, double seconds, bench_times *times);

/* The median of forward calls on a GPU of which each takes the next of `count` sets of buffers: a
 * graph holds them all. With more bytes in the sets than L2 has, no call finds its inputs there. */
fc_status bench_rotation(const fc_plan *plan, const fc_buffers *sets, int count, double seconds,
                         double *p50);

/* How many sets of buffers to go round so that no call, which moves `bytes`, finds its inputs in
 * the cache: twice what that holds comes between two uses of anything. 1: each call alone sees to
 * it. */
double bench_cold_sets(double bytes, double cache_bytes);

/* Multiplications and additions of Q·Kᵀ and P·V (backward: of Q·Kᵀ, dO·Vᵀ, Pᵀ·dO, dSᵀ·Q and dS·K)
 * over the pairs that causality and the window leave visible. Where sequences have lengths of their
 * own, those of the problem count: the longest. */
double bench_flops(const fc_attention *problem, fc_direction direction);

/* Q, K, V and the output (backward: and the gradients), each moved once: what no kernel can do
 * without. */
double bench_bytes(const fc_attention *problem, fc_direction direction);

void bench_sort(double *values, size_t count); /* the smallest first */

double bench_now(void); /* seconds of a clock that never goes back */

#endif
