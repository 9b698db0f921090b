/* inputs.h: the files of `run`, read and brought into the types that the library takes. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "npy.h"
#include "options.h"

typedef struct cli_inputs {
    char *paths[CLI_INPUT_COUNT]; /* NULL: not given */
    npy_array arrays[CLI_INPUT_COUNT];
    fc_type types[CLI_INPUT_COUNT]; /* of q, k, v and bias; after --convert */
} cli_inputs;

/* Both print what is wrong: the file, what it holds, what was expected. Free in either case. */
bool cli_inputs_load(const cli_arguments *arguments, cli_inputs *inputs);
void cli_inputs_free(cli_inputs *inputs);

/* Sizes and switches from the shapes; the rest of the problem from the flags. */
bool cli_inputs_problem(const cli_arguments *arguments, const cli_inputs *inputs,
                        fc_attention *problem);

/* The inputs as they lie in the device's memory, NULL where there is none. */
fc_buffers cli_inputs_buffers(const cli_arguments *arguments, void *const data[CLI_INPUT_COUNT]);

#endif
