/* program.h: all that a compiler reads to build one kernel, and the signature over it. */
#ifndef FC_JIT_PROGRAM_H
#define FC_JIT_PROGRAM_H

#include "jit/jit.h"

enum { JIT_MAX_HEADERS = 64, JIT_MAX_OPTIONS = 128 };

typedef struct jit_program {
    const jit_source *source;
    /* NVRTC finds a header in memory by the very words of the #include line, so that each stands
     * here under every spelling in use. */
    char *header_names[JIT_MAX_HEADERS];
    const jit_source *headers[JIT_MAX_HEADERS];
    int header_count;
    char *options[JIT_MAX_OPTIONS];
    int option_count;
    bool wants_ptx;
} jit_program;

/* Release program after a failure too. */
fc_status jit_program_create(const jit_source *sources, size_t source_count,
                             const jit_request *request, jit_program *program);
void jit_program_release(jit_program *program);

fc_status jit_program_add_option(jit_program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* SHA-256, in hexadecimal, of this library's version, the compiler's identity and the program. */
void jit_program_sign(const jit_program *program, const char *compiler,
                      char signature[JIT_SIGNATURE_CHARS + 1]);

#endif
