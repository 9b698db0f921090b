/* emu_compare.h: the emulator held to a GPU. */
#ifndef CLI_EMU_COMPARE_H
#define CLI_EMU_COMPARE_H

#include "options.h"

/* Runs a sample of every CUDA kernel's cases on both and prints how far their outputs differ. The
 * exit status is 1 when one differs by more than rounding. */
int cli_emu_compare(const cli_arguments *arguments);

#endif
