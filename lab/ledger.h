/* ledger.h: the record of experiments, a text file:
 *
 *     date: 2026-11-15
 *     change: three cp.async stages in place of two
 *     predicted: hides more of the copy
 *     measured: 8.34 to 8.40 us
 *     verdict: negative
 *     gpu: H200
 *     commit: 144ba2b
 *     how: `flashcore ladder --macro STAGES=2`
 *
 * An empty line ends an experiment; lines that begin with # are for readers. */
#ifndef LAB_LEDGER_H
#define LAB_LEDGER_H

#include <stdbool.h>
#include <stdio.h>

/* In the order of the file. */
#define LEDGER_FIELDS(X) \
    X(date)              \
    X(change)            \
    X(predicted)         \
    X(measured)          \
    X(verdict)           \
    X(gpu)               \
    X(commit)            \
    X(how)

enum {
#define LEDGER_COUNT(name) LEDGER_##name,
    LEDGER_FIELDS(LEDGER_COUNT)
#undef LEDGER_COUNT
        LEDGER_FIELD_COUNT
};
extern const char *const ledger_field_names[LEDGER_FIELD_COUNT];

typedef struct ledger_entry {
    char *fields[LEDGER_FIELD_COUNT];
} ledger_entry;

typedef struct ledger {
    ledger_entry *entries;
    int count;
} ledger;

enum { LEDGER_COMPLAINT_BYTES = 256 };

/* False with a sentence that names the line. Free in either case. */
bool ledger_read(FILE *file, ledger *read, char complaint[LEDGER_COMPLAINT_BYTES]);
void ledger_free(ledger *ledger);

/* Whether every field is there, on one line, and the verdict one of those there are. */
bool ledger_accepts(const ledger_entry *entry, char complaint[LEDGER_COMPLAINT_BYTES]);
void ledger_write_entry(FILE *file, const ledger_entry *entry);

/* docs/ledger.md: what did not help, then what was kept. */
void ledger_write_markdown(FILE *file, const ledger *ledger);

#endif
