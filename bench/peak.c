/* peak.c: what the processor can do at best, compiled for the very one it runs on. Each figure is
 * the best of several tries: others on the machine only ever make it smaller. */
#include "calls.h"

#include "bench.h"

#include <stdlib.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, SUMS = 24 };
#define VECTOR_REGISTER "v"
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, SUMS = 12 };
#define VECTOR_REGISTER "x"
#elif defined(__aarch64__)
enum { VECTOR_BYTES = 16, SUMS = 24 };
#define VECTOR_REGISTER "w"
#else
enum { VECTOR_BYTES = 16, SUMS = 8 };
#define VECTOR_REGISTER "x"
#endif
enum { LANES = VECTOR_BYTES / sizeof(float), TRIES = 5 };
typedef float vec __attribute__((vector_size(VECTOR_BYTES)));

/* The sums do not depend on each other, and there are more of them than a multiply-add takes
 * cycles. To the compiler the factor changes in every step, so that the product is not taken out
 * of the loop. */
static float multiply_add(int64_t steps)
{
    vec sum[SUMS], zero = {0}, factor = zero + 1e-3f;
    for (int i = 0; i < SUMS; i++)
        sum[i] = zero + (float)i; /* all different, or one would do */
    for (int64_t step = 0; step < steps; step++) {
        __asm__("" : "+" VECTOR_REGISTER(factor));
#pragma GCC unroll 24
        for (int i = 0; i < SUMS; i++)
            sum[i] += factor * factor;
    }
    for (int i = 1; i < SUMS; i++)
        sum[0] += sum[i];
    return sum[0][0];
}

/* Kept where the compiler can't see that nobody looks. */
static volatile float result;

double peers_peak_flops(void)
{
    const int64_t steps = 4000000;
    double best = 0;
    for (int try = 0; try < TRIES; try++) {
        double flops = 0;
#pragma omp parallel reduction(+ : flops)
        {
            const double start = bench_now();
            const float sum = multiply_add(steps);
            flops += 2.0 * SUMS * LANES * (double)steps / (bench_now() - start);
#pragma omp critical
            result = sum;
        }
        best = flops > best ? flops : best;
    }
    return best;
}

static float sum_up(const vec *from, int64_t count)
{
    vec sum[8] = {0};
    for (int64_t at = 0; at < count; at += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            sum[i] += from[at + i];
    }
    for (int i = 1; i < 8; i++)
        sum[0] += sum[i];
    return sum[0][0];
}

double peers_peak_bandwidth(void)
{
    enum { PIECES = 512, PIECE_BYTES = 1 << 20 }; /* a piece is a thread's unit of work */
    uint8_t(*pieces)[PIECE_BYTES] = aligned_alloc(PIECE_BYTES, PIECES * sizeof *pieces);
    double best = 0;
    if (!pieces)
        return 0;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PIECES; i++)
        memset(pieces[i], 0, PIECE_BYTES);
    for (int try = 0; try < TRIES; try++) {
        const double start = bench_now();
#pragma omp parallel for schedule(static)
        for (int i = 0; i < PIECES; i++) {
            const float sum =
                sum_up((const vec *)(const void *)pieces[i], PIECE_BYTES / VECTOR_BYTES);
            if (sum != 0)
                result = sum; /* never: the memory holds zeros */
        }
        const double speed = (double)(PIECES * sizeof *pieces) / (bench_now() - start);
        best = speed > best ? speed : best;
    }
    free(pieces);
    return best;
}
