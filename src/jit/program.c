/* program.c: gathers the headers that a source reaches, in the order of their #include lines, and
 * the options. */
#include "jit/program.h"

#include "jit/sha256.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 256 };

static const jit_source *find_source(const jit_source *sources, size_t source_count,
                                     const char *name)
{
    for (size_t i = 0; i < source_count; i++)
        if (strcmp(sources[i].name, name) == 0)
            return &sources[i];
    return NULL;
}

/* Appends the parts of relative to path, which is "" or a path without "." and "..". False where it
 * leads out of the tree or is too long. */
static bool append_path(char path[MAX_PATH], const char *relative)
{
    while (*relative != '\0') {
        size_t chars = strcspn(relative, "/");
        size_t used = strlen(path);
        if (chars == 2 && memcmp(relative, "..", 2) == 0) {
            if (used == 0)
                return false;
            char *slash = strrchr(path, '/');
            *(slash != NULL ? slash : path) = '\0';
        } else if (chars > 0 && !(chars == 1 && relative[0] == '.')) {
            if (used + 1 + chars + 1 > MAX_PATH)
                return false;
            snprintf(path + used, MAX_PATH - used, "%s%.*s", used > 0 ? "/" : "", (int)chars,
                     relative);
        }
        relative += chars + (relative[chars] == '/');
    }
    return true;
}

/* As a compiler looks: beside the includer, then at the root. NULL for what is not ours, such as
 * the toolkit's own headers. */
static const jit_source *resolve_include(const jit_source *sources, size_t source_count,
                                         const jit_source *includer, const char *spelling)
{
    char path[MAX_PATH] = "";
    const char *slash = strrchr(includer->name, '/');
    const jit_source *found = NULL;
    if (slash != NULL && slash - includer->name < MAX_PATH)
        memcpy(path, includer->name, (size_t)(slash - includer->name));
    if (append_path(path, spelling))
        found = find_source(sources, source_count, path);
    path[0] = '\0';
    if (found == NULL && append_path(path, spelling))
        found = find_source(sources, source_count, path);
    return found;
}

/* Takes ownership of spelling. */
static fc_status add_header(jit_program *program, char *spelling, const jit_source *header)
{
    for (int i = 0; i < program->header_count; i++) {
        if (strcmp(program->header_names[i], spelling) != 0)
            continue;
        free(spelling);
        FC_REQUIRE(program->headers[i] == header,
                   "%s includes two files by the name \"%s\", %s and %s, which NVRTC can't tell "
                   "apart",
                   program->source->name, program->header_names[i], program->headers[i]->name,
                   header->name);
        return FC_OK;
    }
    if (program->header_count == JIT_MAX_HEADERS) {
        free(spelling);
        return fc_fail(FC_ERROR_INVALID, "%s includes more than %d headers", program->source->name,
                       JIT_MAX_HEADERS);
    }
    program->header_names[program->header_count] = spelling;
    program->headers[program->header_count++] = header;
    return FC_OK;
}

/* After the quote of an #include "…" line, or NULL. */
static const char *quoted_include(const char *line)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return NULL;
    line += strspn(line, " \t");
    if (strncmp(line, "include", 7) != 0)
        return NULL;
    line += 7 + strspn(line + 7, " \t");
    return *line == '"' ? line + 1 : NULL;
}

static fc_status add_includes(const jit_source *sources, size_t source_count,
                              const jit_source *includer, jit_program *program)
{
    const char *line = includer->text;
    while (*line != '\0') {
        const char *name = quoted_include(line);
        if (name != NULL) {
            char *spelling = strndup(name, strcspn(name, "\"\n"));
            if (spelling == NULL)
                return fc_fail(FC_ERROR_MEMORY, "out of memory while reading %s", includer->name);
            const jit_source *header = resolve_include(sources, source_count, includer, spelling);
            if (header != NULL)
                FC_TRY(add_header(program, spelling, header));
            else
                free(spelling);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return FC_OK;
}

fc_status jit_program_add_option(jit_program *program, const char *format, ...)
{
    FC_REQUIRE(program->option_count < JIT_MAX_OPTIONS,
               "%s is to be built with more than %d macros and options", program->source->name,
               JIT_MAX_OPTIONS);
    va_list arguments;
    va_start(arguments, format);
    int chars = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *option = chars < 0 ? NULL : malloc((size_t)chars + 1);
    if (option == NULL)
        return fc_fail(FC_ERROR_MEMORY, "out of memory for the options of %s",
                       program->source->name);
    va_start(arguments, format);
    vsnprintf(option, (size_t)chars + 1, format, arguments);
    va_end(arguments);
    program->options[program->option_count++] = option;
    return FC_OK;
}

static bool is_architecture(const char *name)
{
    const char *number = strchr(name, '_');
    if (number == NULL || (strncmp(name, "sm_", 3) != 0 && strncmp(name, "compute_", 8) != 0))
        return false;
    size_t digits = strspn(++number, "0123456789");
    return digits > 0 && (number[digits] == '\0' ||
                          (islower((unsigned char)number[digits]) && number[digits + 1] == '\0'));
}

static fc_status add_options(const jit_request *request, jit_program *program)
{
    FC_TRY(jit_program_add_option(program, "--gpu-architecture=%s", request->architecture));
    FC_TRY(jit_program_add_option(program, "--std=c++17"));
    if (!program->wants_ptx)
        FC_TRY(jit_program_add_option(program, "--ptxas-options=-v"));
    for (int i = 0; i < request->option_count; i++)
        FC_TRY(jit_program_add_option(program, "%s", request->options[i]));
    for (int i = 0; i < request->macro_count; i++)
        FC_TRY(jit_program_add_option(program, "-D%s", request->macros[i]));
    return FC_OK;
}

fc_status jit_program_create(const jit_source *sources, size_t source_count,
                             const jit_request *request, jit_program *program)
{
    *program = (jit_program){.source = find_source(sources, source_count, request->file)};
    FC_REQUIRE(program->source != NULL, "file = \"%s\" is none of the %zu kernel sources",
               request->file, source_count);
    FC_REQUIRE(is_architecture(request->architecture),
               "architecture = \"%s\" is not of the form sm_80, sm_90a or compute_80",
               request->architecture);
    program->wants_ptx = request->architecture[0] == 'c';
    FC_TRY(add_includes(sources, source_count, program->source, program));
    for (int i = 0; i < program->header_count; i++)
        FC_TRY(add_includes(sources, source_count, program->headers[i], program));
    return add_options(request, program);
}

void jit_program_release(jit_program *program)
{
    for (int i = 0; i < program->header_count; i++)
        free(program->header_names[i]);
    for (int i = 0; i < program->option_count; i++)
        free(program->options[i]);
    *program = (jit_program){0};
}

/* With its length in front, so that no two lists of texts give the same bytes. */
static void sign_text(jit_sha256 *hash, const char *text)
{
    uint64_t chars = strlen(text);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(chars >> 8 * i);
    jit_sha256_add(hash, length, sizeof length);
    jit_sha256_add(hash, text, (size_t)chars);
}

static void sign_count(jit_sha256 *hash, int count)
{
    char text[16];
    snprintf(text, sizeof text, "%d", count);
    sign_text(hash, text);
}

void jit_program_sign(const jit_program *program, const char *compiler,
                      char signature[JIT_SIGNATURE_CHARS + 1])
{
    jit_sha256 hash;
    jit_sha256_start(&hash);
    sign_text(&hash, fc_version());
    sign_text(&hash, compiler);
    sign_count(&hash, program->option_count);
    for (int i = 0; i < program->option_count; i++)
        sign_text(&hash, program->options[i]);
    sign_text(&hash, program->source->name);
    sign_text(&hash, program->source->text);
    sign_count(&hash, program->header_count);
    for (int i = 0; i < program->header_count; i++) {
        sign_text(&hash, program->header_names[i]);
        sign_text(&hash, program->headers[i]->text);
    }
    unsigned char digest[JIT_SHA256_BYTES];
    jit_sha256_finish(&hash, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(signature + 2 * i, 3, "%02x", digest[i]);
}
