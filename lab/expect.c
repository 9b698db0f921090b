/* expect.c: see expect.h. */
#include "expect.h"

#include "change.h"
#include "compare.h"
#include "truth.h"
#include "unfused.h"

#include <math.h>
#include <stdio.h>

static fc_status expect_sequence(const lab_tensors *t, int64_t b, fc_context *reference,
                                 lab_expectation *e)
{
    const unfused_precision wide = {FC_F64, FC_F64, FC_F64};
    lab_sequence s;
    lab_sequence_result part[3];
    lab_sequence_read(t, b, &s);
    for (int i = 0; i < 3; i++)
        lab_sequence_result_make(&t->problem, &s, &part[i]);
    const fc_status status = lab_truth(reference, &t->problem, &s, &part[0]);
    unfused(&t->problem, &s, unfused_precision_of(&t->problem), &part[1], &e->largest);
    unfused(&t->problem, &s, wide, &part[2], &e->largest);
    lab_results_add(t, &s, &part[0], &e->truth);
    lab_results_add(t, &s, &part[1], &e->unfused);
    lab_results_add(t, &s, &part[2], &e->witness);
    for (int i = 0; i < 3; i++)
        lab_sequence_result_free(&part[i]);
    lab_sequence_free(&s);
    return status;
}

bool lab_expect(const lab_tensors *t, lab_expectation *e, char reason[256])
{
    *e = (lab_expectation){0};
    lab_results_make(t, &e->truth);
    lab_results_make(t, &e->unfused);
    lab_results_make(t, &e->witness);
    fc_context *reference = NULL;
    fc_status status = lab_truth_context(&reference);
    for (int64_t b = 0; b < t->problem.batch && status == FC_OK; b++)
        status = expect_sequence(t, b, reference, e);
    if (status != FC_OK)
        snprintf(reason, 256, "%s", fc_last_error());
    fc_context_destroy(reference);
    return status == FC_OK && compare_witness(t, &e->truth, &e->witness, e->largest.score, reason);
}

void lab_expectation_free(lab_expectation *e)
{
    lab_results_free(&e->truth);
    lab_results_free(&e->unfused);
    lab_results_free(&e->witness);
}

double lab_tolerance(const lab_tensors *t, lab_tensor tensor, const lab_expectation *e)
{
    return compare_tolerance(t, tensor, &e->truth, &e->unfused, e->largest);
}

double lab_shifted_tolerance(const lab_tensors *t, const lab_expectation *e)
{
    unfused_precision precision = unfused_precision_of(&t->problem);
    precision.stored = precision.sums;
    lab_results shifted;
    unfused_sizes largest = {0};
    lab_results_make(t, &shifted);
    for (int64_t b = 0; b < t->problem.batch; b++) {
        lab_sequence s;
        lab_sequence_result part;
        lab_sequence_read(t, b, &s);
        for (int64_t i = 0; i < t->problem.kv_heads * s.kv_rows * t->problem.head_dim; i++)
            s.k[i] += LAB_KEY_SHIFT;
        lab_sequence_result_make(&t->problem, &s, &part);
        unfused(&t->problem, &s, precision, &part, &largest);
        lab_results_add(t, &s, &part, &shifted);
        lab_sequence_result_free(&part);
        lab_sequence_free(&s);
    }
    const double tolerance = compare_tolerance(t, LAB_OUT, &e->truth, &shifted, largest);
    lab_results_free(&shifted);
    return fmax(tolerance, lab_tolerance(t, LAB_OUT, e));
}
