/* alone.h: one sequence of a case as a problem with batch = 1, in the same memory. */
#ifndef LAB_ALONE_H
#define LAB_ALONE_H

#include "tensors.h"

/* lengths: device memory for four integers, which lab_alone_lengths gives the values of. */
void lab_alone(const lab_tensors *tensors, int64_t b, const int32_t *lengths, fc_attention *problem,
               fc_buffers *buffers);
void lab_alone_lengths(const lab_tensors *tensors, int64_t b, int32_t lengths[4]);

#endif
