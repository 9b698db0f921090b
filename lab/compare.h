/* compare.h: how far a result is from the truth, and how far it may be.
 *
 * The tolerance, for out and every gradient:
 *
 *     2 · E + ulp(largest |truth|) + ulp(largest |score|) · largest |truth|
 *
 * E is the largest error of the unfused computation in the same type (unfused.h): a fused kernel
 * keeps its scores and weights in FP32, so twice that is generous for it and out of reach for one
 * that rounds where it must not. A tensor of a few elements may have no error at all by luck, hence
 * the other terms: the last rounding of the output, and the one rounding that no FP32 computation
 * can avoid, that of the score, which is a relative error of the weight.
 *
 * LSE is FP32 whatever the type, so that E comes from scores that were not rounded to the type, and
 * the second term is 2⁻²² · max(1, largest |score|), or of 16-bit problems 2⁻²² · soft-cap where
 * that is more: 1 - 2 / (1 + exp(2x)) is tanh, rounded as a number of size 1. Tensor cores add 16
 * products to a sum at a time and cut off what FP32 cannot hold: of 16-bit problems the term is
 * 2⁻²³ · largest |scale · q·k| for every 16 dims where that is more.
 *
 * NaN and infinities have to be exactly where the truth has them. */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include "results.h"
#include "unfused.h"

/* Elements by their error in units of the type's spacing at the truth's magnitude: up to
 * compare_ulp_limits[bin], the last bin beyond. 0.5 is the correctly rounded truth. */
enum { COMPARE_ULP_BINS = 8 };
extern const double compare_ulp_limits[COMPARE_ULP_BINS - 1];

typedef struct compare_report {
    double error;          /* largest; infinity where one side alone is finite */
    double mean_error;     /* of the elements where both are finite, as the next */
    double relative_error; /* root of the sum of squares, over that of the truth */
    int64_t ulps[COMPARE_ULP_BINS];
    double tolerance;
    char reason[256]; /* "" when error <= tolerance */
} compare_report;

/* Compares what lies in image with the truth. */
void compare_tensor(const lab_tensors *tensors, lab_tensor tensor, const uint8_t *image,
                    const lab_results *truth, double tolerance, compare_report *report);

/* Whether out is twice what it was, to the bit (of subnormal numbers: to their spacing); or else
 * names an element. */
bool compare_doubled(const lab_tensors *tensors, const uint8_t *before, const uint8_t *after,
                     char *name, size_t name_bytes);

/* The distance of neighbouring values of the type at this magnitude; a value's own, which the power
 * of two below it gives. */
double compare_ulp(fc_type type, double magnitude);
double compare_ulp_of(fc_type type, double value);

/* Infinite where just one of the two is a number, or they are different infinities. */
double compare_difference(fc_type type, double got, double expected);

/* plain: of the unfused computation in the case's own type. */
double compare_tolerance(const lab_tensors *tensors, lab_tensor tensor, const lab_results *truth,
                         const lab_results *plain, unfused_sizes largest);

/* Whether the unfused computation in double agrees with the truth; or else says where not. */
bool compare_witness(const lab_tensors *tensors, const lab_results *truth,
                     const lab_results *witness, double largest_score, char reason[256]);

/* "out[b 0, head 1, row 2, dim 3]" */
void compare_name_element(const lab_tensors *tensors, lab_tensor tensor, int64_t element,
                          char *text, size_t bytes);

#endif
