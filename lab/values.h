/* values.h: the numbers of a case. Each depends only on the case's seed and the element's place in
 * its sequence, not on the layout or on the order of filling. */
#ifndef LAB_VALUES_H
#define LAB_VALUES_H

#include "tensors.h"

typedef struct lab_place {
    int64_t b, head, row, dim;
} lab_place;

/* The first `count` elements of the place's row, of q, k, v or dout; not yet rounded to the type.
 */
void lab_row_values(const lab_tensors *tensors, lab_tensor tensor, lab_place place, int64_t count,
                    double *values);

/* A scale of FP8 elements, a slope, a bias, a sink. */
double lab_parameter(const lab_tensors *tensors, lab_tensor tensor, lab_place place);

/* 0 hides key place.dim from row place.row. */
uint8_t lab_mask_value(const lab_tensors *tensors, lab_place place);

uint64_t lab_hash(uint64_t seed, uint64_t value);

#endif
