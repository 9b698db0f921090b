/* sm80.h: attention for compute capability 8.0 and newer: Ampere, Ada (the L4) and what comes
 * after. docs/kernels/sm80.md. */
#ifndef FC_CUDA_SM80_H
#define FC_CUDA_SM80_H

#include "core/internal.h"

extern const fc_kernel fc_sm80_prefill; /* many query rows */
extern const fc_kernel fc_sm80_latency; /* few of them, or few blocks' worth */

#endif
