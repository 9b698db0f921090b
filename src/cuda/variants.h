/* variants.h: the kernels that were built ahead. The table is generated from variants.txt, the
 * compiler's reports and the binaries (tools/describe_variants.c). */
#ifndef FC_CUDA_VARIANTS_H
#define FC_CUDA_VARIANTS_H

#include "cuda/kernel_shape.h"

#include <stddef.h>

/* What the compiler said of one kernel for one architecture. */
typedef struct fc_cuda_report {
    const char *kernel;
    int architecture; /* 80, 89, 90 */
    int registers;
    int stack_bytes;
    int spill_bytes;
    int static_shared_bytes;
    kernel_shape shape;
} fc_cuda_report;

typedef struct fc_cuda_variant fc_cuda_variant;
struct fc_cuda_variant {
    const char *name;
    const char *file;   /* relative to src/cuda */
    const char *macros; /* "HEAD_DIM=64 STAGES=2", KERNEL_NAME not among them */
    int most_registers; /* the budget */
    int most_shared_bytes;
    int most_spill_bytes;
    const unsigned char *image; /* fat binary */
    size_t image_bytes;
    const fc_cuda_report *reports;
    int report_count;
};

extern const fc_cuda_variant fc_cuda_variants[];
extern const int fc_cuda_variant_count;

/* NULL when there is none of that name. */
const fc_cuda_variant *fc_cuda_find_variant(const char *name);

#endif
