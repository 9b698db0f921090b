/* emulator.h: the emulator of the CUDA kernels, which is a library of its own (emu/). */
#ifndef CLI_EMULATOR_H
#define CLI_EMULATOR_H

#include "options.h"

/* Makes it the CUDA driver of this process; before the first context. False with a sentence where
 * it is not there. */
bool cli_use_emulator(char complaint[CLI_COMPLAINT_BYTES]);

#endif
