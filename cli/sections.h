/* sections.h: the parts of a report page, one for each kind of result. */
#ifndef CLI_SECTIONS_H
#define CLI_SECTIONS_H

#include "page.h"

enum { REPORT_MOST_FILES = 64 };

typedef struct report_file {
    char *name; /* without its folder */
    json_value *json;
    const char *verb; /* that wrote it; "" when it says none */
} report_file;

typedef struct report_data {
    int count;
    report_file files[REPORT_MOST_FILES];
} report_data;

/* Whether there is a section for results of this verb. */
bool sections_know(const char *verb);

/* All of them, in the order of reading: the machine, right, fast, why. */
void sections_write(FILE *file, const report_data *data);

#endif
