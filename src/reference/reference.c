/* reference.c: what forward and backward share on the host side. */
#include "reference/reference.h"
#include "reference/row.h"

#ifdef _OPENMP
#include <omp.h>
#endif

const char *fc_reference_accepts(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem)
{
    (void)self;
    (void)problem;
    return context->device_type == FC_CPU ? NULL : "the reference runs on the CPU alone";
}

static int64_t thread_number(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

fc_score *fc_reference_scores(fc_score *all_scores, int64_t kv_length)
{
    return kv_length ? all_scores + thread_number() * kv_length : NULL;
}

size_t fc_reference_scores_bytes(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem)
{
    (void)self;
    return (size_t)context->threads * (size_t)problem->kv_length * sizeof(fc_score);
}
