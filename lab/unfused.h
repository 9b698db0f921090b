/* unfused.h: attention the plain way, with the matrices of scores and weights written out: the
 * yardstick of the error a fused kernel may have. It shares no code with the reference, so that run
 * in double it also witnesses that the truth is right. */
#ifndef LAB_UNFUSED_H
#define LAB_UNFUSED_H

#include "results.h"

typedef struct unfused_precision {
    fc_type sums;   /* FC_F32 or FC_F64: what is added up in */
    fc_type stored; /* of the scores, the weights and their gradients */
    fc_type out;    /* of the output and the gradients */
} unfused_precision;

/* What an unfused computation would use for a problem whose defaults are filled in. */
unfused_precision unfused_precision_of(const fc_attention *problem);

/* result is made by lab_sequence_result_make; *largest_score grows to the largest |score| seen that
 * is finite, before a soft-cap too: sums of products are rounded there. */
void unfused(const fc_attention *problem, const lab_sequence *sequence, unfused_precision precision,
             lab_sequence_result *result, double *largest_score);

#endif
