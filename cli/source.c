/* source.c: a kernel file of the user's own, in place of one of the library's. */
#include "core/internal.h"
#include "cuda/services.h"
#include "cuda/variants.h"
#include "device.h"
#include "emu_build.h"
#include "files.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whose argument, macros and launch a file has unless --kernel says: a block for each tile of rows,
 * query head and sequence, nothing else. */
static const char default_kernel[] = "ladder_fused";

/* 1. The emulator has no compiler in it: the file becomes a library. */

enum { MOST_LIBRARIES = 7, PATH_BYTES = 96 }; /* as many as the emulator takes */
static char folder[PATH_BYTES];
static char libraries[MOST_LIBRARIES][PATH_BYTES + 32];
static int library_count;

static void remove_libraries(void)
{
    for (int i = 0; i < library_count; i++)
        unlink(libraries[i]);
    rmdir(folder);
}

static bool is_of_kernel(const fc_cuda_variant *variant, const char *kernel)
{
    const size_t length = strlen(kernel);
    return strncmp(variant->name, kernel, length) == 0 && variant->name[length] == '_';
}

static bool build_for_emulator(const char *path, const char *kernel)
{
    char reason[EMU_BUILD_REASON_BYTES], all[MOST_LIBRARIES * (PATH_BYTES + 33)] = "";
    snprintf(folder, sizeof folder, "/tmp/flashcore-source.XXXXXX");
    if (mkdtemp(folder) == NULL)
        return cli_refuse("cannot make a folder under /tmp");
    atexit(remove_libraries);
    for (int i = 0; i < fc_cuda_variant_count; i++) {
        const fc_cuda_variant *variant = &fc_cuda_variants[i];
        if (!is_of_kernel(variant, kernel))
            continue;
        if (library_count == MOST_LIBRARIES)
            return cli_refuse("%s has more variants than the emulator takes; use the argument of "
                              "the ladder",
                              kernel);
        char *library = libraries[library_count++];
        snprintf(library, sizeof libraries[0], "%s/%d.so", folder, i);
        cli_progress("compiling %s for the emulator...", variant->name);
        if (!emu_build(variant, path, "", folder, library, reason))
            return cli_refuse("%s as %s: %s", path, variant->name, reason);
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ":" : "", library);
    }
    cli_progress("%s", "");
    return setenv("FLASHCORE_EMU_KERNELS", all, 1) == 0;
}

/* 2. The context. */

static const fc_cuda_variant *first_variant(const char *kernel)
{
    for (int i = 0; i < fc_cuda_variant_count; i++)
        if (is_of_kernel(&fc_cuda_variants[i], kernel))
            return &fc_cuda_variants[i];
    return NULL;
}

static bool use_source(fc_context *context, const char *path, const char *kernel)
{
    const fc_cuda_variant *variant = first_variant(kernel);
    if (context->cuda == NULL)
        return cli_refuse("--source is a CUDA kernel; add --backend cuda or --backend emu");
    if (variant == NULL)
        return cli_refuse("--source: kernel '%s' has no source that another file could stand in "
                          "for",
                          kernel);
    char *text = cli_read_text(path);
    if (text == NULL)
        return false;
    bool ok = fc_cuda_use_source(context->cuda, variant->file, text) == FC_OK ||
              cli_refuse("%s", fc_last_error());
    free(text);
    if (ok && fc_cuda_emulator() != NULL && getenv("FLASHCORE_EMU_KERNELS") == NULL)
        ok = build_for_emulator(path, kernel);
    return ok;
}

fc_context *cli_open_context(const cli_arguments *arguments, const fc_context_options *options)
{
    fc_context_options own = *options;
    if (arguments->source_path != NULL && own.kernel == NULL)
        own.kernel = default_kernel;
    fc_context *context = cli_create_context(&own);
    if (context != NULL && arguments->source_path != NULL &&
        !use_source(context, arguments->source_path, own.kernel)) {
        fc_context_destroy(context);
        return NULL;
    }
    return context;
}
