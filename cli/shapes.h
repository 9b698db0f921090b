/* shapes.h: what shapes.c and extras.c share. */
#ifndef CLI_SHAPES_H
#define CLI_SHAPES_H

#include "inputs.h"

/* "FILE has shape …; expected …"; false. */
bool cli_wrong_shape(const cli_inputs *inputs, int input, const char *expected);

/* Bias, mask, slopes, sinks, lengths and scales; the sizes of the problem are there already. */
bool cli_set_extras(const cli_inputs *inputs, int64_t scale_rows, fc_attention *problem);

#endif
