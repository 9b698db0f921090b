/* rebuild.h: a variant with other macros, compiled at run time from the very source the library was
 * built from. */
#ifndef FC_CUDA_REBUILD_H
#define FC_CUDA_REBUILD_H

#include "cuda/variants.h"
#include "jit/jit.h"

/* Macros are "NAME=VALUE" words, separated by spaces: added to those of the variant, or put in
 * their place. */
enum { FC_MACROS_BYTES = 256 };

/* Whether the variant's source has a default for the macro, which says that it can be changed. */
bool fc_rebuild_knows(const fc_cuda_variant *variant, const char *macro, const jit_source *own);

/* Compiles it for a compute capability, 89, or takes it from the cache. `own` stands in for the
 * file of its name, unless it has none. Release the kernel after a failure too. */
fc_status fc_rebuild(const fc_cuda_variant *variant, const char *macros, int compute_capability,
                     const jit_source *own, jit_kernel *kernel);

/* What it takes: the largest of its kernels, and the shape of the first. */
typedef struct fc_rebuilt_facts {
    int registers;
    int spill_bytes;
    int shared_bytes; /* static and dynamic */
    int threads;
} fc_rebuilt_facts;
fc_status fc_rebuilt_read_facts(const fc_cuda_variant *variant, const jit_kernel *kernel,
                                fc_rebuilt_facts *facts);

/* Compiles it and uses it in all plans of this context from now on; there may be none yet. */
fc_status fc_rebuild_in(fc_context *context, const fc_cuda_variant *variant, const char *macros);

#endif
