/* cpu_floors.c: see cpu_floors.h. */
#include "cpu_floors.h"

#include "bench.h"
#include "core/internal.h"
#include "cpu/features.h"
#include "floor_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What has matrix instructions for bf16 besides multiplies f32 as the level below it does. */
static const struct {
    fc_cpu_level level;
    const floor_loops *loops;
} sets[] = {
#if defined(__x86_64__)
    {FC_CPU_AVX512, &fc_cpu_avx512_floor_loops},
    {FC_CPU_AVX2, &fc_cpu_avx2_floor_loops},
#elif defined(__aarch64__)
    {FC_CPU_NEON, &fc_cpu_neon_floor_loops},
#endif
    {FC_CPU_PLAIN, &fc_cpu_plain_floor_loops},
};

static const floor_loops *best_loops(const fc_context *context)
{
    size_t i = 0;
    while (sets[i].level != FC_CPU_PLAIN &&
           (!fc_cpu_has(sets[i].level) || (int)sets[i].level > context->cpu_limit))
        i++;
    return sets[i].loops;
}

/* Kept where the compiler can't see that nobody looks. */
static volatile float kept;

/* Every thread for itself, so that none waits for another. */
static double multiply_once(const fc_context *context, const floor_loops *loops, int64_t steps)
{
    double speed = 0;
    float sum = 0;
#pragma omp parallel num_threads(context->threads) reduction(+ : speed, sum)
    {
        const double start = bench_now();
        sum += loops->multiply_add(steps);
        speed += (double)loops->operations_a_step * (double)steps / (bench_now() - start);
    }
    kept = sum;
    return speed;
}

double lab_cpu_operations_a_second(const fc_context *context, double seconds)
{
    const int64_t steps = 1000000; /* a few milliseconds */
    const floor_loops *loops = best_loops(context);
    const double start = bench_now();
    double best = 0;
    do
        best = fmax(best, multiply_once(context, loops, steps));
    while (bench_now() - start < seconds);
    return best;
}

enum { PIECES = 512, PIECE_FLOATS = 1 << 18 }; /* a piece of 1 MB is a thread's unit of work */
static const size_t piece_bytes = PIECE_FLOATS * sizeof(float);

static double read_once(const fc_context *context, const floor_loops *loops, float *pieces)
{
    const double start = bench_now();
    float sum = 0;
#pragma omp parallel for schedule(static) num_threads(context->threads) reduction(+ : sum)
    for (int i = 0; i < PIECES; i++)
        sum += loops->sum_up(pieces + (size_t)i * PIECE_FLOATS, PIECE_FLOATS);
    kept = sum;
    return (double)(PIECES * piece_bytes) / (bench_now() - start);
}

double lab_cpu_bytes_a_second(const fc_context *context, double seconds)
{
    const floor_loops *loops = best_loops(context);
    float *pieces = aligned_alloc(4096, PIECES * piece_bytes);
    double best = 0;
    if (!pieces)
        return 0;
        /* Each thread's pieces lie near it: where memory is, is decided by who writes it first. */
#pragma omp parallel for schedule(static) num_threads(context->threads)
    for (int i = 0; i < PIECES; i++)
        memset(pieces + (size_t)i * PIECE_FLOATS, 0, piece_bytes);
    const double start = bench_now();
    do
        best = fmax(best, read_once(context, loops, pieces));
    while (bench_now() - start < seconds);
    free(pieces);
    return best;
}
