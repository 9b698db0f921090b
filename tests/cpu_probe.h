/* cpu_probe.h: the vector layer and the matrix step of one instruction set, tried out. cpu_probe.c
 * is compiled once per set, as the kernels are; test_cpu.c calls those that this processor has. */
#ifndef TESTS_CPU_PROBE_H
#define TESTS_CPU_PROBE_H

#include "flashcore.h"

typedef struct cpu_probe {
    const char *isa;
    double exp2_bound; /* in ulp, as the code promises it */
    double (*exp2_error)(void);
    /* What exp2 makes of a number, in the first lane. */
    float (*exp2_of)(float x);
    double (*tanh_error)(void); /* the largest |error| / |tanh| */
    /* Elements that are read or written otherwise than core/convert.h does it. */
    int64_t (*wrong_loads)(fc_type type);
    int64_t (*wrong_stores)(fc_type type);
    int64_t (*wrong_moves)(void); /* transpose, sums, comparisons */
    double (*matmul_error)(void); /* the largest, of sums of 128 products below 1 */
} cpu_probe;

extern const cpu_probe fc_cpu_plain_probe, fc_cpu_neon_probe, fc_cpu_neonfhm_probe,
    fc_cpu_neonbf16_probe, fc_cpu_avx2_probe, fc_cpu_avx512_probe, fc_cpu_avx512bf16_probe,
    fc_cpu_amx_probe;

#endif
