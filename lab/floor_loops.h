/* floor_loops.h: the loops that measure a processor (cpu_floors.h), compiled once per instruction
 * set as the kernels are. */
#ifndef LAB_FLOOR_LOOPS_H
#define LAB_FLOOR_LOOPS_H

#include <stdint.h>

typedef struct floor_loops {
    int operations_a_step;
    float (*multiply_add)(int64_t steps);
    float (*sum_up)(const float *numbers, int64_t count); /* count: a multiple of 1024 */
} floor_loops;

extern const floor_loops fc_cpu_plain_floor_loops;
extern const floor_loops fc_cpu_neon_floor_loops;
extern const floor_loops fc_cpu_avx2_floor_loops;
extern const floor_loops fc_cpu_avx512_floor_loops;

#endif
