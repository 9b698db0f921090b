/* jit.h: kernels compiled at run time, by NVRTC, from the sources the library carries.
 *   request -> program (all that the compiler reads) -> signature -> cache, or compiler and cache
 */
#ifndef FC_JIT_JIT_H
#define FC_JIT_JIT_H

#include "core/internal.h"

typedef struct jit_source {
    const char *name; /* path below src/cuda: "ladder/swizzle.cu" */
    const char *text;
} jit_source;

/* Every kernel source and header; the build writes this table. */
extern const jit_source jit_sources[];
extern const size_t jit_source_count;

typedef struct jit_request {
    const char *file;          /* the name of a source */
    const char *const *macros; /* "HEAD_DIM=64" */
    int macro_count;
    const char *const *options; /* the compiler's own: "--maxrregcount=128" */
    int option_count;
    const char *architecture; /* "sm_90a" gives machine code, "compute_80" PTX */
} jit_request;

enum { JIT_SIGNATURE_CHARS = 64 };

typedef struct jit_kernel {
    void *binary; /* a cubin, or PTX with its closing 0 */
    size_t binary_bytes;
    char *log; /* the compiler's words, the resources of each kernel among them: report.h */
    char signature[JIT_SIGNATURE_CHARS + 1];
    bool from_cache;
    char cache_problem[512]; /* why nothing could be kept for the next time; "" when all is well */
} jit_kernel;

/* Release kernel after a failure too: its log may hold all that the compiler had to say. */
fc_status jit_build(const jit_request *request, jit_kernel *kernel);
void jit_release(jit_kernel *kernel);

/* The same from other sources, for generated code and for tests. */
fc_status jit_build_from(const jit_source *sources, size_t source_count, const jit_request *request,
                         jit_kernel *kernel);

#endif
