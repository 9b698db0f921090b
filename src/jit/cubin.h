/* cubin.h: reads from a compiled kernel file without a driver. */
#ifndef FC_JIT_CUBIN_H
#define FC_JIT_CUBIN_H

#include "core/internal.h"

/* The initial bytes of a __device__ or __constant__ variable; data points into the cubin. Any
 * bytes may be given: what is no cubin, or a damaged one, is refused. */
fc_status jit_cubin_variable(const void *cubin, size_t cubin_bytes, const char *name,
                             const void **data, size_t *data_bytes);

#endif
