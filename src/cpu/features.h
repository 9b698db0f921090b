/* features.h: which instruction sets this processor has, its operating system allows, and the
 * caller wants. */
#ifndef FC_CPU_FEATURES_H
#define FC_CPU_FEATURES_H

#include "core/internal.h"

/* From the least to the most; FLASHCORE_CPU names the most that may be used.
 * X(enumerator, name, what the processor must have) */
#define FC_CPU_LEVEL_LIST(X)                                          \
    X(FC_CPU_PLAIN, "plain", "nothing beyond the baseline")           \
    X(FC_CPU_NEON, "neon", "Advanced SIMD")                           \
    X(FC_CPU_NEONFHM, "neonfhm", "Advanced SIMD with FHM")            \
    X(FC_CPU_NEONBF16, "neonbf16", "Advanced SIMD with FHM and BF16") \
    X(FC_CPU_AVX2, "avx2", "AVX2 with FMA and F16C")                  \
    X(FC_CPU_AVX512, "avx512", "AVX-512 F, BW, DQ and VL")            \
    X(FC_CPU_AVX512BF16, "avx512bf16", "AVX-512 with BF16")           \
    X(FC_CPU_AMX, "amx", "AMX and AVX-512 with BF16")

typedef enum fc_cpu_level {
#define FC_CPU_LEVEL_ENUM(enumerator, name, text) enumerator,
    FC_CPU_LEVEL_LIST(FC_CPU_LEVEL_ENUM)
#undef FC_CPU_LEVEL_ENUM
        FC_CPU_LEVEL_COUNT
} fc_cpu_level;

const char *fc_cpu_level_name(fc_cpu_level level);
const char *fc_cpu_level_text(fc_cpu_level level);

/* Asks the processor and the operating system, once a process. */
bool fc_cpu_has(fc_cpu_level level);

/* The most that FLASHCORE_CPU allows; refuses a value that is no level of this kind of processor.
 */
fc_status fc_cpu_read_limit(fc_cpu_level *limit);

#endif
