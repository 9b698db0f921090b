/* rebuild.c: see rebuild.h. */
#include "cuda/rebuild.h"

#include "cuda/device.h"
#include "jit/cubin.h"
#include "jit/report.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_MACROS = 16, MACRO_BYTES = 96 };

typedef struct macro_list {
    char text[MOST_MACROS][MACRO_BYTES];
    const char *pointers[MOST_MACROS];
    int count;
} macro_list;

static bool same_macro(const char *a, const char *b)
{
    const size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && memcmp(a, b, length) == 0;
}

/* A later value takes the place of an earlier one. */
static fc_status set_macro(macro_list *list, const char *macro, size_t length)
{
    FC_REQUIRE(length < MACRO_BYTES, "macro %.40s... is longer than %d characters", macro,
               MACRO_BYTES - 1);
    char text[MACRO_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)length, macro);
    int place = 0;
    while (place < list->count && !same_macro(list->text[place], text))
        place++;
    FC_REQUIRE(place < MOST_MACROS, "there are more than %d macros", MOST_MACROS);
    snprintf(list->text[place], MACRO_BYTES, "%s", text);
    list->pointers[place] = list->text[place];
    list->count += place == list->count;
    return FC_OK;
}

static fc_status set_macros(macro_list *list, const char *words)
{
    for (const char *rest = words; *rest;) {
        const size_t length = strcspn(rest, " ");
        FC_TRY(set_macro(list, rest, length));
        rest += length + strspn(rest + length, " ");
    }
    return FC_OK;
}

static fc_status list_macros(const fc_cuda_variant *variant, const char *macros, macro_list *list)
{
    char name[MACRO_BYTES];
    snprintf(name, sizeof name, "KERNEL_NAME=%s", variant->name);
    FC_TRY(set_macros(list, name));
    FC_TRY(set_macros(list, variant->macros));
    return set_macros(list, macros);
}

static bool replaces(const jit_source *own, const char *file)
{
    return own && own->name && strcmp(own->name, file) == 0;
}

bool fc_rebuild_knows(const fc_cuda_variant *variant, const char *macro, const jit_source *own)
{
    char line[MACRO_BYTES];
    snprintf(line, sizeof line, "#ifndef %.*s\n", (int)strcspn(macro, "="), macro);
    for (size_t i = 0; variant && i < jit_source_count; i++)
        if (strcmp(jit_sources[i].name, variant->file) == 0)
            return strstr(replaces(own, variant->file) ? own->text : jit_sources[i].text, line) !=
                   NULL;
    return false;
}

static fc_status build_with(const jit_source *own, const jit_request *request, jit_kernel *kernel)
{
    jit_source *sources = malloc(jit_source_count * sizeof *sources);
    if (!sources)
        return fc_fail(FC_ERROR_MEMORY, "no memory to compile with");
    for (size_t i = 0; i < jit_source_count; i++) {
        sources[i] = jit_sources[i];
        if (replaces(own, sources[i].name))
            sources[i].text = own->text;
    }
    const fc_status status = jit_build_from(sources, jit_source_count, request, kernel);
    free(sources);
    return status;
}

fc_status fc_rebuild(const fc_cuda_variant *variant, const char *macros, int compute_capability,
                     const jit_source *own, jit_kernel *kernel)
{
    macro_list list = {0};
    *kernel = (jit_kernel){0};
    FC_REQUIRE(variant, "this library was built without a variant for this problem");
    FC_TRY(list_macros(variant, macros, &list));
    char architecture[16];
    /* Hopper's own instructions are in no other set. */
    snprintf(architecture, sizeof architecture, "sm_%d%s", compute_capability,
             compute_capability == 90 ? "a" : "");
    const jit_request request = {.file = variant->file,
                                 .macros = list.pointers,
                                 .macro_count = list.count,
                                 .architecture = architecture};
    return build_with(own, &request, kernel);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

fc_status fc_rebuilt_read_facts(const fc_cuda_variant *variant, const jit_kernel *kernel,
                                fc_rebuilt_facts *facts)
{
    const char *text = kernel->log,
               *name = variant->report_count > 0 ? variant->reports[0].kernel : variant->name;
    char symbol[128];
    const void *data;
    size_t bytes;
    jit_report report;
    kernel_shape shape;
    *facts = (fc_rebuilt_facts){0};
    while (text && jit_report_next(&text, &report)) {
        facts->registers = larger(facts->registers, report.registers);
        facts->spill_bytes =
            larger(facts->spill_bytes, report.spill_store_bytes + report.spill_load_bytes);
        facts->shared_bytes = larger(facts->shared_bytes, report.static_shared_bytes);
    }
    snprintf(symbol, sizeof symbol, "%s_shape", name);
    FC_TRY(jit_cubin_variable(kernel->binary, kernel->binary_bytes, symbol, &data, &bytes));
    FC_REQUIRE(bytes == sizeof shape, "%s has %zu bytes; a kernel_shape has %zu", symbol, bytes,
               sizeof shape);
    memcpy(&shape, data, sizeof shape);
    facts->threads = shape.threads;
    facts->shared_bytes += shape.shared_bytes;
    return FC_OK;
}

fc_status fc_rebuild_in(fc_context *context, const fc_cuda_variant *variant, const char *macros)
{
    jit_kernel kernel;
    fc_status status = fc_rebuild(variant, macros, context->cuda->compute_capability,
                                  &context->cuda->own, &kernel);
    if (status == FC_OK)
        status =
            fc_cuda_replace_variant(context->cuda, variant, kernel.binary, kernel.binary_bytes);
    jit_release(&kernel);
    return status;
}
