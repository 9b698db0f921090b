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

/* The largest finite |scale · q·k|, and |score| that a soft-cap, ALiBi and a bias made of one. */
typedef struct unfused_sizes {
    double product;
    double score;
} unfused_sizes;

/* result is made by lab_sequence_result_make; *largest grows to what is seen. */
void unfused(const fc_attention *problem, const lab_sequence *sequence, unfused_precision precision,
             lab_sequence_result *result, unfused_sizes *largest);

#endif
