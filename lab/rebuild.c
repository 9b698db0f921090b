/* rebuild.c: see rebuild.h. */
#include "rebuild.h"

#include "cuda/device.h"
#include "jit/jit.h"

#include <stdio.h>

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

static fc_status list_macros(const fc_cuda_variant *variant, const char *macro, macro_list *list)
{
    char name[MACRO_BYTES];
    snprintf(name, sizeof name, "KERNEL_NAME=%s", variant->name);
    FC_TRY(set_macro(list, name, strlen(name)));
    for (const char *rest = variant->macros; *rest;) {
        const size_t length = strcspn(rest, " ");
        FC_TRY(set_macro(list, rest, length));
        rest += length + strspn(rest + length, " ");
    }
    return set_macro(list, macro, strlen(macro));
}

bool rebuild_knows(const char *variant_name, const char *macro)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(variant_name);
    char line[MACRO_BYTES];
    snprintf(line, sizeof line, "#ifndef %.*s\n", (int)strcspn(macro, "="), macro);
    for (size_t i = 0; variant && i < jit_source_count; i++)
        if (strcmp(jit_sources[i].name, variant->file) == 0)
            return strstr(jit_sources[i].text, line) != NULL;
    return false;
}

fc_status rebuild_variant(fc_context *context, const char *variant_name, const char *macro)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(variant_name);
    FC_REQUIRE(variant, "there is no variant %s", variant_name);
    macro_list macros = {0};
    FC_TRY(list_macros(variant, macro, &macros));
    char architecture[16];
    const int capability = context->cuda->compute_capability;
    /* Hopper's own instructions are in no other set. */
    snprintf(architecture, sizeof architecture, "sm_%d%s", capability, capability == 90 ? "a" : "");
    const jit_request request = {.file = variant->file,
                                 .macros = macros.pointers,
                                 .macro_count = macros.count,
                                 .architecture = architecture};
    jit_kernel kernel;
    fc_status status = jit_build(&request, &kernel);
    if (status == FC_OK)
        status =
            fc_cuda_replace_variant(context->cuda, variant, kernel.binary, kernel.binary_bytes);
    jit_release(&kernel);
    return status;
}
