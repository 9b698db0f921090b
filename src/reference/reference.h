/* reference.h: attention in double precision, the truth that every other kernel is held to. */
#ifndef FC_REFERENCE_H
#define FC_REFERENCE_H

#include "core/internal.h"

extern const fc_kernel fc_reference_forward;
extern const fc_kernel fc_reference_backward;

const char *fc_reference_accepts(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem);

/* Number of the calling thread within the team of the context's threads. */
int64_t fc_reference_thread(void);

/* Room for one row of scores a thread. */
size_t fc_reference_scores_bytes(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem);

#endif
