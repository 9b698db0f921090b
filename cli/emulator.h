/* emulator.h: the emulator of the CUDA kernels, which is a library of its own (emu/). */
#ifndef CLI_EMULATOR_H
#define CLI_EMULATOR_H

#include "options.h"

/* FLASHCORE_EMU, or in the build folder beside the program's. */
enum { CLI_EMULATOR_PATH_BYTES = 4096 };
bool cli_find_emulator(char path[CLI_EMULATOR_PATH_BYTES]);

/* Makes it the CUDA driver of this process; before the first context. False with a sentence where
 * it is not there. */
bool cli_use_emulator(char complaint[CLI_COMPLAINT_BYTES]);

#endif
