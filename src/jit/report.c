/* report.c: a kernel's report begins with the line "Compiling entry function"; of what follows, the
 * lines on its own name count and those on functions that it calls do not. */
#include "jit/report.h"

#include <stdlib.h>
#include <string.h>

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

/* What follows these words in the line, or NULL where they are not in it. */
static const char *after(const char *line, const char *words)
{
    size_t length = strcspn(line, "\n"), chars = strlen(words);
    for (size_t at = 0; at + chars <= length; at++)
        if (memcmp(line + at, words, chars) == 0)
            return line + at + chars;
    return NULL;
}

static void copy_until(char *to, size_t capacity, const char *from, const char *ends)
{
    size_t chars = strcspn(from, ends);
    if (chars > capacity)
        chars = capacity;
    memcpy(to, from, chars);
    to[chars] = '\0';
}

/* The number before unit, 12 of "…, 12 bytes smem, …", or absent. */
static int number_before(const char *line, const char *unit, int absent)
{
    const char *at = after(line, unit);
    if (at == NULL)
        return absent;
    at -= strlen(unit);
    const char *digits = at;
    while (digits > line && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    return digits < at ? (int)strtol(digits, NULL, 10) : absent;
}

static bool read_entry(const char *line, jit_report *report)
{
    const char *name = after(line, "Compiling entry function '");
    if (name == NULL)
        return false;
    *report = (jit_report){.registers = -1,
                           .barriers = -1,
                           .static_shared_bytes = -1,
                           .stack_bytes = -1,
                           .spill_store_bytes = -1,
                           .spill_load_bytes = -1};
    copy_until(report->kernel, JIT_REPORT_NAME_CHARS, name, "'\n");
    const char *architecture = after(name, "' for '");
    if (architecture != NULL)
        copy_until(report->architecture, JIT_REPORT_ARCHITECTURE_CHARS, architecture, "'\n");
    return true;
}

static bool is_about(const char *name, const char *kernel)
{
    size_t chars = strcspn(name, " \r\n");
    if (chars > JIT_REPORT_NAME_CHARS)
        chars = JIT_REPORT_NAME_CHARS;
    return strlen(kernel) == chars && memcmp(name, kernel, chars) == 0;
}

static void raise_to(int *value, int other)
{
    if (*value < other)
        *value = other;
}

static void read_detail(const char *line, bool own, jit_report *report)
{
    int stack = number_before(line, " bytes stack frame", -1);
    if (stack >= 0 && own) {
        raise_to(&report->stack_bytes, stack);
        report->spill_store_bytes = number_before(line, " bytes spill stores", -1);
        report->spill_load_bytes = number_before(line, " bytes spill loads", -1);
    }
    int registers = number_before(line, " registers", -1);
    if (registers >= 0 && after(line, "Used ") != NULL) {
        report->registers = registers;
        report->barriers = number_before(line, " barriers", 0);
        report->static_shared_bytes = number_before(line, " bytes smem", 0);
        raise_to(&report->stack_bytes, number_before(line, " bytes cumulative stack size", -1));
    }
}

bool jit_report_next(const char **text, jit_report *report)
{
    const char *line = *text;
    while (*line != '\0' && !read_entry(line, report))
        line = next_line(line);
    bool found = *line != '\0';
    bool own = true;
    jit_report other;
    for (line = next_line(line); found && *line != '\0' && !read_entry(line, &other);
         line = next_line(line)) {
        const char *name = after(line, "Function properties for ");
        if (name != NULL)
            own = is_about(name, report->kernel);
        read_detail(line, own, report);
    }
    *text = line;
    return found;
}
