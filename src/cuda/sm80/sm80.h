/* sm80.h: attention for compute capability 8.0 and newer: Ampere, Ada (the L4) and what comes
 * after. docs/kernels/sm80.md. */
#ifndef FC_CUDA_SM80_H
#define FC_CUDA_SM80_H

#include "cuda/attention.h"

extern const fc_kernel fc_sm80_prefill; /* many query rows */
extern const fc_kernel fc_sm80_latency; /* few of them, or few blocks' worth */

typedef struct fc_sm80_plan {
    attention_args args;           /* all but the pointers */
    const fc_cuda_function *plain; /* NULL where the problem needs the variant with features */
    const fc_cuda_function *full;
    const fc_cuda_function *merge; /* NULL where the keys are not split over blocks */
} fc_sm80_plan;

/* For kernels that leave some calls to sm80_prefill. */
fc_status fc_sm80_prepare_prefill(const fc_plan *plan, fc_sm80_plan *s);
fc_status fc_sm80_run(const fc_plan *plan, const fc_sm80_plan *s, const fc_buffers *b,
                      fc_stream stream);

#endif
