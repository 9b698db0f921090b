/* nvrtc.h: NVIDIA's run-time compiler, opened when first needed; nothing links against it. */
#ifndef FC_JIT_NVRTC_H
#define FC_JIT_NVRTC_H

#include "jit/program.h"

typedef void *jit_nvrtc_program; /* nvrtcProgram */
typedef int jit_nvrtc_result;    /* nvrtcResult: 0 is success */

/* X(name, arguments): the functions in use, all there since CUDA 11.2. */
#define JIT_NVRTC_FUNCTIONS(X)                                                              \
    X(Version, (int *major, int *minor))                                                    \
    X(CreateProgram, (jit_nvrtc_program *, const char *text, const char *name, int headers, \
                      const char *const *header_texts, const char *const *header_names))    \
    X(DestroyProgram, (jit_nvrtc_program *))                                                \
    X(CompileProgram, (jit_nvrtc_program, int options, const char *const *))                \
    X(GetProgramLogSize, (jit_nvrtc_program, size_t * bytes))                               \
    X(GetProgramLog, (jit_nvrtc_program, char *))                                           \
    X(GetCUBINSize, (jit_nvrtc_program, size_t * bytes))                                    \
    X(GetCUBIN, (jit_nvrtc_program, char *))                                                \
    X(GetPTXSize, (jit_nvrtc_program, size_t * bytes))                                      \
    X(GetPTX, (jit_nvrtc_program, char *))

typedef struct jit_nvrtc {
#define JIT_NVRTC_MEMBER(name, arguments) jit_nvrtc_result(*name) arguments;
    JIT_NVRTC_FUNCTIONS(JIT_NVRTC_MEMBER)
#undef JIT_NVRTC_MEMBER
    const char *(*GetErrorString)(jit_nvrtc_result);
    char identity[96];         /* version and build, as part of signatures */
    char include_option[4096]; /* where the toolkit's headers are; "" when not found */
} jit_nvrtc;

/* One compiler per process. FLASHCORE_NVRTC names the library; otherwise the loader's path is
 * searched, then the usual places. A failure is not remembered. */
fc_status jit_nvrtc_open(const jit_nvrtc **compiler);

/* Fills in the kernel's binary and log; the log after a failure too. */
fc_status jit_nvrtc_compile(const jit_nvrtc *compiler, const jit_program *program,
                            jit_kernel *kernel);

#endif
