/* source.c: see source.h. */
#include "source.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AT_ONCE = 64 };

static bool is_wrapper(const char *name)
{
    return strncmp(name, "ptx_", 4) == 0 || strncmp(name, "cuda_builtins", 13) == 0;
}

/* "/a/b/swizzle.cu:133 (discriminator 2)" */
static void take_line(const char *line, char *place)
{
    const char *slash = strrchr(line, '/');
    const char *name = slash ? slash + 1 : line;
    const size_t length = strcspn(name, " \n");
    if (name[0] == '?' || (place[0] && is_wrapper(name)))
        return;
    if (!place[0] || is_wrapper(place))
        snprintf(place, EMU_PLACE_BYTES, "%.*s", (int)length, name);
}

/* addr2line answers with "0x…" and then the frames, from the innermost out. */
static void read_answers(FILE *answers, char (*places)[EMU_PLACE_BYTES], int count)
{
    char line[4096];
    int at = -1;
    while (fgets(line, sizeof line, answers)) {
        if (strncmp(line, "0x", 2) == 0)
            at++;
        else if (at >= 0 && at < count)
            take_line(line, places[at]);
    }
}

/* Of one binary. A return address is that of the instruction behind the call. */
static void ask(const Dl_info *binary, const uintptr_t *pcs, int count,
                char (*places)[EMU_PLACE_BYTES])
{
    char command[4096 + MOST_AT_ONCE * 20];
    size_t length = (size_t)snprintf(command, 4096, "addr2line -a -i -e '%s'", binary->dli_fname);
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(command + length, sizeof command - length, " 0x%zx",
                                   (size_t)(pcs[i] - 1 - (uintptr_t)binary->dli_fbase));
    snprintf(command + length, sizeof command - length, " 2>/dev/null");
    FILE *answers = popen(command, "r"); // NOLINT(cert-env33-c): a developer's tool asks another
    if (!answers)
        return;
    read_answers(answers, places, count);
    pclose(answers);
}

void emu_source_lines(const uintptr_t *pcs, int count, char (*places)[EMU_PLACE_BYTES])
{
    for (int first = 0; first < count;) {
        Dl_info binary, other;
        int end = first + 1;
        if (!dladdr((const void *)pcs[first], &binary)) {
            snprintf(places[first], EMU_PLACE_BYTES, "unknown");
            first++;
            continue;
        }
        while (end < count && end - first < MOST_AT_ONCE &&
               dladdr((const void *)pcs[end], &other) && other.dli_fbase == binary.dli_fbase)
            end++;
        for (int i = first; i < end; i++)
            places[i][0] = 0;
        ask(&binary, pcs + first, end - first, places + first);
        for (int i = first; i < end; i++)
            if (!places[i][0])
                snprintf(places[i], EMU_PLACE_BYTES, "%s+0x%zx",
                         binary.dli_sname ? binary.dli_sname : "kernel",
                         (size_t)(pcs[i] - (uintptr_t)binary.dli_fbase));
        first = end;
    }
}

void emu_source_expand(const emu_failure *failure, char *text, size_t bytes)
{
    char places[EMU_MOST_PLACES][EMU_PLACE_BYTES];
    size_t length = 0;
    emu_source_lines(failure->places, failure->place_count, places);
    for (const char *c = failure->text; *c && length + 1 < bytes; c++) {
        if (*c == '\001' && c[1])
            length += (size_t)snprintf(text + length, bytes - length, "%s", places[*++c - '0']);
        else
            text[length++] = *c;
        if (length >= bytes)
            length = bytes - 1;
    }
    text[length] = 0;
}
