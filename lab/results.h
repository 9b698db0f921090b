/* results.h: what a computation gave, in plain numbers: for one sequence, and for a whole case
 * element by element in the layout of its output buffers. */
#ifndef LAB_RESULTS_H
#define LAB_RESULTS_H

#include "tensors.h"

typedef struct lab_sequence_result {
    double *out;    /* [q_heads][q_rows][value_dim] */
    double *lse;    /* [q_heads][q_rows] */
    double *dq;     /* [q_heads][q_rows][head_dim]; from here on NULL without backward */
    double *dk;     /* [kv_heads][kv_rows][head_dim] */
    double *dv;     /* [kv_heads][kv_rows][value_dim] */
    double *dbias;  /* [q_heads][q_rows][kv_rows] */
    double *dsinks; /* [q_heads] */
} lab_sequence_result;

void lab_sequence_result_make(const fc_attention *problem, const lab_sequence *sequence,
                              lab_sequence_result *result);
void lab_sequence_result_free(lab_sequence_result *result);

typedef struct lab_results {
    double *values[LAB_TENSOR_COUNT]; /* one per element of the buffer, 0 where nothing was added */
} lab_results;

void lab_results_make(const lab_tensors *tensors, lab_results *results);
void lab_results_free(lab_results *results);

/* Adds a sequence's numbers at their places. Elements that several sequences or heads share (dk of
 * a shared page, dbias of a broadcast bias) become the sum. */
void lab_results_add(const lab_tensors *tensors, const lab_sequence *sequence,
                     const lab_sequence_result *part, lab_results *results);

/* The nearest value of the type. */
double lab_round(fc_type type, double value);

#endif
