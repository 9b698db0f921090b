/* expect.h: what a case should give, and how far from it a kernel may be. */
#ifndef LAB_EXPECT_H
#define LAB_EXPECT_H

#include "results.h"
#include "unfused.h"

typedef struct lab_expectation {
    lab_results truth;
    lab_results unfused; /* in the case's own type */
    lab_results witness; /* in double */
    unfused_sizes largest;
} lab_expectation;

/* False with the reason where there is no truth, or the witness doubts it. Either way to be freed.
 */
bool lab_expect(const lab_tensors *tensors, lab_expectation *expectation, char reason[256]);
void lab_expectation_free(lab_expectation *expectation);

double lab_tolerance(const lab_tensors *tensors, lab_tensor tensor,
                     const lab_expectation *expectation);

/* Of out when the keys are shifted (change.h): as before, or twice as far as an unfused computation
 * gets with the larger scores, when they are kept as a fused one keeps them: not rounded to the
 * type. */
double lab_shifted_tolerance(const lab_tensors *tensors, const lab_expectation *expectation);

#endif
