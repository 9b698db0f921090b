/* rows.h: some rows of a problem too large to be checked as a whole, from all over it, against
 * the truth. A check of a part may run another variant of a kernel than the whole does; these rows
 * are of the very call that is timed. */
#ifndef LAB_ROWS_H
#define LAB_ROWS_H

#include "tensors.h"

enum { LAB_SAMPLED_ROWS = 32 };

/* Whether a row's output is that of a problem of one row and the keys it sees: nothing hangs on its
 * place among the others. */
bool lab_can_sample(const fc_attention *problem);

/* Compares rows of out, as they lie in image, with the truth: each element may be off by tolerance
 * and one unit of its own last place. False with the reason where one is not. */
bool lab_sample_rows(const lab_tensors *tensors, const uint8_t *image, double tolerance,
                     char reason[256]);

#endif
