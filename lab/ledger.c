/* ledger.c: see ledger.h. */
#include "ledger.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

const char *const ledger_field_names[LEDGER_FIELD_COUNT] = {
#define LEDGER_NAME(name) #name,
    LEDGER_FIELDS(LEDGER_NAME)
#undef LEDGER_NAME
};

static const char *const verdicts[] = {"negative", "mixed", "kept"};

static bool complain(char *complaint, int line, const char *what, const char *word)
{
    snprintf(complaint, LEDGER_COMPLAINT_BYTES, "line %d: %s '%.100s'", line, what, word);
    return false;
}

/* 1. Reading. */

static void start_entry(ledger *l)
{
    ledger_entry *grown = lab_zeroed(l->count + 1, sizeof *grown);
    if (l->count > 0)
        memcpy(grown, l->entries, (size_t)l->count * sizeof *grown);
    free(l->entries);
    l->entries = grown;
    l->count++;
}

/* "change: three stages" */
static bool read_field(ledger_entry *entry, char *line, int number, char *complaint)
{
    char *value = strstr(line, ": ");
    if (value == NULL)
        return complain(complaint, number, "there is no 'name: value' in", line);
    *value = '\0';
    for (int field = 0; field < LEDGER_FIELD_COUNT; field++) {
        if (strcmp(ledger_field_names[field], line) != 0)
            continue;
        if (entry->fields[field] != NULL)
            return complain(complaint, number, "this experiment has two lines", line);
        entry->fields[field] = strdup(value + 2);
        return true;
    }
    return complain(complaint, number, "an experiment has no field", line);
}

bool ledger_accepts(const ledger_entry *entry, char complaint[LEDGER_COMPLAINT_BYTES])
{
    for (int field = 0; field < LEDGER_FIELD_COUNT; field++) {
        const char *value = entry->fields[field];
        if (value == NULL || *value == '\0' || strchr(value, '\n') != NULL) {
            snprintf(complaint, LEDGER_COMPLAINT_BYTES, "'%s' is %s", ledger_field_names[field],
                     value != NULL && *value != '\0' ? "longer than a line" : "missing");
            return false;
        }
    }
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(entry->fields[LEDGER_verdict], verdicts[i]) == 0)
            return true;
    snprintf(complaint, LEDGER_COMPLAINT_BYTES,
             "the verdict '%.40s' is none of negative, mixed, kept", entry->fields[LEDGER_verdict]);
    return false;
}

static bool finish_entry(const ledger *l, int line, char *complaint)
{
    char what[LEDGER_COMPLAINT_BYTES];
    if (ledger_accepts(&l->entries[l->count - 1], what))
        return true;
    snprintf(complaint, LEDGER_COMPLAINT_BYTES, "the experiment that ends in line %d: %.200s", line,
             what);
    return false;
}

bool ledger_read(FILE *file, ledger *l, char complaint[LEDGER_COMPLAINT_BYTES])
{
    char *line = NULL;
    size_t capacity = 0;
    int number = 0;
    bool inside = false, ok = true;
    *l = (ledger){0};
    while (ok && getline(&line, &capacity, file) > 0) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        if (line[0] == '\0') {
            ok = !inside || finish_entry(l, number - 1, complaint);
            inside = false;
            continue;
        }
        if (!inside)
            start_entry(l);
        inside = true;
        ok = read_field(&l->entries[l->count - 1], line, number, complaint);
    }
    free(line);
    return ok && (!inside || finish_entry(l, number, complaint));
}

void ledger_free(ledger *l)
{
    for (int i = 0; i < l->count; i++)
        for (int field = 0; field < LEDGER_FIELD_COUNT; field++)
            free(l->entries[i].fields[field]);
    free(l->entries);
    *l = (ledger){0};
}

/* 2. Writing. */

void ledger_write_entry(FILE *file, const ledger_entry *entry)
{
    for (int field = 0; field < LEDGER_FIELD_COUNT; field++)
        fprintf(file, "%s: %s\n", ledger_field_names[field], entry->fields[field]);
}

/* A bar would end the cell. */
static void write_cell(FILE *file, const char *text)
{
    fputc(' ', file);
    for (; *text != '\0'; text++)
        fprintf(file, *text == '|' ? "\\%c" : "%c", *text);
    fputs(" |", file);
}

static bool was_kept(const ledger_entry *entry)
{
    return strcmp(entry->fields[LEDGER_verdict], "kept") == 0;
}

static void write_table(FILE *file, const ledger *l, bool kept)
{
    fputs("\n| date | change | predicted | measured | GPU and command | commit |\n"
          "|---|---|---|---|---|---|\n",
          file);
    for (int i = 0; i < l->count; i++) {
        char *const *fields = l->entries[i].fields;
        if (was_kept(&l->entries[i]) != kept)
            continue;
        fputc('|', file);
        write_cell(file, fields[LEDGER_date]);
        write_cell(file, fields[LEDGER_change]);
        write_cell(file, fields[LEDGER_predicted]);
        write_cell(file, fields[LEDGER_measured]);
        fprintf(file, " %s,", fields[LEDGER_gpu]);
        write_cell(file, fields[LEDGER_how]);
        write_cell(file, fields[LEDGER_commit]);
        fputc('\n', file);
    }
}

void ledger_write_markdown(FILE *file, const ledger *l)
{
    int kept = 0;
    for (int i = 0; i < l->count; i++)
        kept += was_kept(&l->entries[i]);
    fputs("# What did not help\n\n"
          "Experiments whose result was \"no\", with their numbers: a valid negative is a result. "
          "Times are p50 of\nCUDA-graph replays of whole calls; every variant had passed its "
          "check.\n\n"
          "This page is written from [ledger.txt](ledger.txt) by `flashcore ledger --markdown`.\n",
          file);
    write_table(file, l, false);
    if (kept == 0)
        return;
    fputs("\n## What was kept\n", file);
    write_table(file, l, true);
}
