/* floor_loops.c: see floor_loops.h. */
#include "floor_loops.h"

#include "cpu/name.h"
#include "cpu/vec.h"

/* Sums that do not depend on each other: more than a multiply-add takes cycles. */
enum { SUMS = VEC_REGISTERS == 32 ? 16 : 12, LOADS = 8 };

/* To the compiler the vector is another one afterwards. */
#if defined(__aarch64__)
#define HIDE_FROM_COMPILER(vector) __asm__("" : "+w"(vector))
#elif defined(__x86_64__)
#define HIDE_FROM_COMPILER(vector) __asm__("" : "+x"(vector))
#else
#define HIDE_FROM_COMPILER(vector) __asm__("" : "+m"(vector))
#endif

/* The factor seems to change in every step, so that no product is taken out of the loop. */
static float multiply_add(int64_t steps)
{
    vec sums[SUMS], total = vec_zero(), factor = vec_set(1e-3f);
    FC_UNROLL
    for (int i = 0; i < SUMS; i++)
        sums[i] = vec_set((float)i); /* all different, or one would do */
    for (int64_t step = 0; step < steps; step++) {
        HIDE_FROM_COMPILER(factor);
        FC_UNROLL
        for (int i = 0; i < SUMS; i++)
            sums[i] = vec_fma(factor, factor, sums[i]);
    }
    FC_UNROLL
    for (int i = 0; i < SUMS; i++)
        total = vec_add(total, sums[i]);
    return vec_sum(total);
}

static float sum_up(const float *numbers, int64_t count)
{
    vec sums[LOADS], total = vec_zero();
    FC_UNROLL
    for (int i = 0; i < LOADS; i++)
        sums[i] = vec_zero();
    for (int64_t at = 0; at < count; at += (int64_t)LOADS * VEC_LANES) {
        FC_UNROLL
        for (int i = 0; i < LOADS; i++)
            sums[i] = vec_add(sums[i], vec_load(numbers + at + (int64_t)i * VEC_LANES));
    }
    FC_UNROLL
    for (int i = 0; i < LOADS; i++)
        total = vec_add(total, sums[i]);
    return vec_sum(total);
}

const floor_loops FC_CPU_NAME(floor_loops) = {
    .operations_a_step = 2 * SUMS * VEC_LANES,
    .multiply_add = multiply_add,
    .sum_up = sum_up,
};
