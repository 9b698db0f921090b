/* reference.h: attention in double precision, the truth that every other kernel is held to. */
#ifndef FC_REFERENCE_H
#define FC_REFERENCE_H

#include "core/internal.h"

extern const fc_kernel fc_reference_forward;
extern const fc_kernel fc_reference_backward;

const char *fc_reference_accepts(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem);

/* The calling thread's row of scores in the room below; NULL where there are no keys. */
struct fc_score *fc_reference_scores(struct fc_score *all_scores, int64_t kv_length);

/* Room for one row of scores a thread. */
size_t fc_reference_scores_bytes(const fc_kernel *self, const fc_context *context,
                                 const fc_attention *problem);

#endif
