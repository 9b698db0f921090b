/* cpu.h: the CPU kernels as rows of the table of kernels. */
#ifndef FC_CPU_CPU_H
#define FC_CPU_CPU_H

#include "core/internal.h"

/* What one kernel file compiled for one instruction set offers. */
typedef struct fc_cpu_ops {
    size_t (*workspace_bytes)(const fc_attention *problem, int threads);
    /* One of the two, by the direction. */
    void (*run)(const fc_attention *problem, const fc_buffers *buffers, int threads);
    void (*run_backward)(const fc_attention *problem, const fc_buffers *buffers,
                         const fc_gradients *gradients, int threads);
} fc_cpu_ops;

/* In the order of preference. X(instruction set, shape) */
#if defined(__aarch64__)
#define FC_CPU_KERNEL_LIST(X) \
    X(neonfhm, decode)        \
    X(neon, decode)           \
    X(neonbf16, prefill)      \
    X(neon, prefill)          \
    X(neon, backward)         \
    X(plain, decode)          \
    X(plain, prefill)         \
    X(plain, backward)
#elif defined(__x86_64__)
#define FC_CPU_KERNEL_LIST(X) \
    X(avx512, decode)         \
    X(amx, prefill)           \
    X(avx512bf16, prefill)    \
    X(avx512, prefill)        \
    X(avx512, backward)       \
    X(avx2, decode)           \
    X(avx2, prefill)          \
    X(avx2, backward)         \
    X(plain, decode)          \
    X(plain, prefill)         \
    X(plain, backward)
#else
#define FC_CPU_KERNEL_LIST(X) \
    X(plain, decode)          \
    X(plain, prefill)         \
    X(plain, backward)
#endif

#define FC_CPU_DECLARE(isa, shape)                  \
    extern const fc_cpu_ops fc_cpu_##isa##_##shape; \
    extern const fc_kernel fc_cpu_##isa##_##shape##_kernel;
FC_CPU_KERNEL_LIST(FC_CPU_DECLARE)
#undef FC_CPU_DECLARE

#endif
