/* sample.h: a few cases in place of the whole list. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "cases.h"

#include <stdbool.h>

/* Products of Q·Kᵀ and P·V of the largest case that a sample may hold. */
enum { SAMPLE_MOST_PRODUCTS = 1 << 23 };

/* Whether a sample may hold the case: a kernel of the context accepts it, and it is not large. */
bool cli_is_candidate(fc_context *context, const fc_case *c);

/* Whether to take the candidate with this number (from 0) for a sample of `wanted`: the first one
 * of each of so many equal parts of the list. */
bool cli_is_sampled(size_t number, size_t candidates, size_t wanted);

#endif
