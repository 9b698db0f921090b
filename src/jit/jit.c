/* jit.c: from a request to a binary. */
#include "jit/jit.h"

#include "jit/cache.h"
#include "jit/nvrtc.h"
#include "jit/program.h"

#include <stdio.h>
#include <stdlib.h>

static void note_cache_problem(jit_kernel *kernel)
{
    snprintf(kernel->cache_problem, sizeof kernel->cache_problem, "%s", fc_last_error());
}

static fc_status load_or_compile(const jit_nvrtc *compiler, const jit_program *program,
                                 jit_kernel *kernel)
{
    int directory;
    if (jit_cache_open(&directory) != FC_OK) {
        note_cache_problem(kernel);
        return jit_nvrtc_compile(compiler, program, kernel);
    }
    fc_status status = FC_OK;
    kernel->from_cache = jit_cache_load(directory, kernel);
    if (!kernel->from_cache) {
        status = jit_nvrtc_compile(compiler, program, kernel);
        if (status == FC_OK && jit_cache_store(directory, kernel) != FC_OK)
            note_cache_problem(kernel);
    }
    jit_cache_close(directory);
    return status;
}

fc_status jit_build_from(const jit_source *sources, size_t source_count, const jit_request *request,
                         jit_kernel *kernel)
{
    *kernel = (jit_kernel){0};
    const jit_nvrtc *compiler;
    FC_TRY(jit_nvrtc_open(&compiler));
    jit_program program;
    fc_status status = jit_program_create(sources, source_count, request, &program);
    if (status == FC_OK && compiler->include_option[0] != '\0')
        status = jit_program_add_option(&program, "%s", compiler->include_option);
    if (status == FC_OK) {
        jit_program_sign(&program, compiler->identity, kernel->signature);
        status = load_or_compile(compiler, &program, kernel);
    }
    jit_program_release(&program);
    return status;
}

fc_status jit_build(const jit_request *request, jit_kernel *kernel)
{
    return jit_build_from(jit_sources, jit_source_count, request, kernel);
}

void jit_release(jit_kernel *kernel)
{
    free(kernel->binary);
    free(kernel->log);
    *kernel = (jit_kernel){0};
}
