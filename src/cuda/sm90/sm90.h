/* sm90.h: attention for Hopper (compute capability 9.0). docs/kernels/sm90.md. */
#ifndef FC_CUDA_SM90_H
#define FC_CUDA_SM90_H

#include "core/internal.h"

extern const fc_kernel fc_sm90_prefill; /* many query rows */
extern const fc_kernel fc_sm90_latency; /* few blocks' worth of them */

#endif
