/* problem.h: problems made of flags, shown to people and to machines. */
#ifndef CLI_PROBLEM_H
#define CLI_PROBLEM_H

#include "json.h"
#include "options.h"

/* Sizes that were not given are those of the mission shape: batch 1, 8 heads, 512 rows, 64
 * dimensions, f16. */
fc_attention cli_problem(const cli_arguments *arguments);

/* Of several shapes, the one that cli_problem is to make. */
void cli_use_shape(cli_arguments *arguments, const cli_shape *shape);

enum { CLI_PROBLEM_TEXT_BYTES = 200 };
void cli_problem_text(const fc_attention *problem, char text[CLI_PROBLEM_TEXT_BYTES]);
void cli_problem_json(json_writer *json, const char *name, const fc_attention *problem);

/* INT64_MAX where it overflows: the library refuses that. */
int64_t cli_product(int64_t a, int64_t b);

/* Strides of [batch][row][head][dim]; packed and paged tensors have them anyway. */
void cli_use_row_major(fc_attention *problem);

#endif
