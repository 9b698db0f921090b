/* plan.h: a prepared problem of the sm_80 kernels. Kernels that leave some calls to sm80_prefill
 * hold one too. */
#ifndef FC_CUDA_SM80_PLAN_H
#define FC_CUDA_SM80_PLAN_H

#include "cuda/attention.h"

typedef struct fc_sm80_plan {
    attention_args args;           /* all but the pointers */
    const fc_cuda_function *plain; /* NULL where the problem needs the variant with features */
    const fc_cuda_function *full;
    const fc_cuda_function *merge; /* NULL where the keys are not split over blocks */
} fc_sm80_plan;

/* Up to so many keys of 64 dims sm80_latency has its smallest blocks. */
enum { FC_SM80_FEWEST_KEYS = 128 };

/* Whether those are no more than multiprocessors. */
bool fc_sm80_has_one_wave(const fc_context *context, const fc_attention *p);

fc_status fc_sm80_prepare_prefill(const fc_plan *plan, fc_sm80_plan *s);
fc_status fc_sm80_run(const fc_plan *plan, const fc_sm80_plan *s, const fc_buffers *b,
                      fc_stream stream);

#endif
