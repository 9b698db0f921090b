/* emu_build.h: a kernel compiled for the emulator at run time, by the compiler that built it. */
#ifndef CLI_EMU_BUILD_H
#define CLI_EMU_BUILD_H

#include "cuda/variants.h"

#include <stdbool.h>

enum { EMU_BUILD_REASON_BYTES = 256 };

/* source: a file that stands in for the variant's own, or NULL. macros win over the variant's. The
 * library goes where FLASHCORE_EMU_KERNELS is to point; the folder holds what comes in between. */
bool emu_build(const fc_cuda_variant *variant, const char *source, const char *macros,
               const char *folder, const char *library, char reason[EMU_BUILD_REASON_BYTES]);

#endif
