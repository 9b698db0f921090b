/* f16_promise.h: the error that flashcore.h promises of FP16 inputs drawn from a unit normal
 * distribution: below 1e-3. */
#ifndef LAB_F16_PROMISE_H
#define LAB_F16_PROMISE_H

#include "results.h"

/* What out may be wrong by, whose largest element is magnitude; infinity where nothing is promised.
 */
double f16_promise(const lab_tensors *tensors, double magnitude);

/* Rows that see fewer keys have results as large as single values. Rounding those between 2 and 4
 * takes nearly all of the error that is promised. Whether there are any, and how they lie, is luck;
 * so all results of such rows have to be right up to their own rounding and what is then left.
 * Scores that are more than products may be wrong by more, and are passed over. */
enum { F16_FEW_KEYS = 32 };
bool f16_few_keys(const lab_tensors *tensors, const uint8_t *image, const lab_results *truth,
                  char reason[256]);

#endif
