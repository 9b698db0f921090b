/* emu_build.c: see emu_build.h. */
#include "emu_build.h"
#include "child.h"
#include "emulator.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The compiler's words, with bars between them; emu/CMakeLists.txt says them. */
#ifndef FC_EMU_COMPILER
#define FC_EMU_COMPILER ""
#endif

enum { MOST_WORDS = 128 };

typedef struct word_list {
    char *words[MOST_WORDS + 1];
    int count;
} word_list;

static void add_word(word_list *list, char *word)
{
    if (list->count < MOST_WORDS)
        list->words[list->count++] = word;
    else
        free(word);
}

static void add_words(word_list *list, const char *prefix, const char *text, const char *between)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, between);
        if (length > 0)
            add_word(list, cli_format("%s%.*s", prefix, (int)length, text));
        text += length + (text[length] != '\0');
    }
}

static bool run_words(word_list *list, const char *output, char reason[EMU_BUILD_REASON_BYTES])
{
    child_result ended;
    const child_run run = {
        .words = (const char *const *)list->words, .output_path = output, .limit_seconds = 600};
    child_wait(&run, &ended);
    for (int i = 0; i < list->count; i++)
        free(list->words[i]);
    if (ended.reason[0] == '\0')
        return true;
    snprintf(reason, EMU_BUILD_REASON_BYTES, "%s", ended.reason);
    if (ended.started)
        child_find_line(output, "error: ", reason, EMU_BUILD_REASON_BYTES);
    return false;
}

/* A later macro wins over an earlier one of the same name, as in rebuild.c. A file of one's own
 * finds what lies beside the one it stands in for. */
static bool compile(const fc_cuda_variant *variant, const char *source, const char *macros,
                    const char *object, const char *output, char reason[EMU_BUILD_REASON_BYTES])
{
    word_list list = {.count = 0};
    const int folder = (int)strcspn(variant->file, "/");
    add_words(&list, "", FC_EMU_COMPILER, "|");
    add_word(&list, cli_format("-Wno-macro-redefined"));
    add_word(&list, cli_format("-I%s/%.*s", FC_CUDA_SOURCES, folder, variant->file));
    add_word(&list, cli_format("-DKERNEL_NAME=%s", variant->name));
    add_words(&list, "-D", variant->macros, " ");
    add_words(&list, "-D", macros, " ");
    add_word(&list, cli_format("-c"));
    add_word(&list, cli_format("-o"));
    add_word(&list, cli_format("%s", object));
    add_word(&list, source != NULL ? cli_format("%s", source)
                                   : cli_format("%s/%s", FC_CUDA_SOURCES, variant->file));
    return run_words(&list, output, reason);
}

static bool link_library(const char *object, const char *emulator, const char *library,
                         const char *output, char reason[EMU_BUILD_REASON_BYTES])
{
    word_list list = {.count = 0};
    add_words(&list, "", "cc|-shared|-Wl,-Bsymbolic|-o", "|");
    add_word(&list, cli_format("%s", library));
    add_word(&list, cli_format("%s", object));
    add_word(&list, cli_format("%s", emulator));
    add_word(&list, cli_format("-lm"));
    return run_words(&list, output, reason);
}

bool emu_build(const fc_cuda_variant *variant, const char *source, const char *macros,
               const char *folder, const char *library, char reason[EMU_BUILD_REASON_BYTES])
{
    char emulator[CLI_EMULATOR_PATH_BYTES];
    if (FC_EMU_COMPILER[0] == '\0' || !cli_find_emulator(emulator)) {
        snprintf(reason, EMU_BUILD_REASON_BYTES, "this build has no emulator");
        return false;
    }
    char *object = cli_format("%s/kernel.o", folder), *output = cli_format("%s/build.txt", folder);
    const bool ok = compile(variant, source, macros, object, output, reason) &&
                    link_library(object, emulator, library, output, reason);
    unlink(object);
    unlink(output);
    free(object);
    free(output);
    return ok;
}
