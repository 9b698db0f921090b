/* truth.h: what a case should give: the library's reference kernel, in double, on each sequence
 * alone as a dense f64 problem of its exact lengths. Types, scales, strides, packing, pages and
 * broadcasts of the case are gone by then, so that nothing a kernel does with them is shared. */
#ifndef LAB_TRUTH_H
#define LAB_TRUTH_H

#include "results.h"

/* A context forced to the reference. */
fc_status lab_truth_context(fc_context **context);

fc_status lab_truth(fc_context *context, const fc_attention *problem, const lab_sequence *sequence,
                    lab_sequence_result *result);

#endif
