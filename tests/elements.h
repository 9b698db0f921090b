/* elements.h: numbers of every type in memory, and the generator of test inputs. Written apart from
 * the library's own conversions, which are among what is tested. */
#ifndef TESTS_ELEMENTS_H
#define TESTS_ELEMENTS_H

#include "flashcore.h"

/* Types that fc_buffers holds beside those of fc_type. */
enum { ELEMENT_I32 = 100, ELEMENT_U8 = 101 };

size_t element_bytes(fc_type type);

/* Distance between neighbouring numbers of a floating-point type at this value. */
double element_spacing(fc_type type, double value);

/* The value must be one that the type holds as a normal number, zero or infinity. */
void element_store(fc_type type, void *array, int64_t index, double value);
double element_load(fc_type type, const void *array, int64_t index);

/* Element `index` of the sequence: a multiple of 1/16 in [-2, 2] (FP8: in [-1, 1]; E5M2: of 1/8;
 * ELEMENT_U8: 0 or 1), which the type holds exactly. tests/data/attention_model.py has the same. */
double element_generate(fc_type type, uint64_t seed, int64_t index);

#endif
