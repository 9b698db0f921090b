/* page.h: an HTML page that needs nothing besides itself: no network, no script. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "json_read.h"
#include "svg.h"

void page_start(FILE *file, const char *title);
void page_end(FILE *file);
void page_heading(FILE *file, const char *text);
void page_paragraph(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A picture stands between these; the caption is under it. */
void page_figure_start(FILE *file);
void page_figure_end(FILE *file, const char *caption);

/* One row for each value of a list (first and those after it), one column for each member. A member
 * of a member is written with a point: "problem.text". */
typedef struct page_column {
    const char *heading;
    const char *member;
} page_column;
void page_table(FILE *file, const json_value *first, const page_column *columns, int count);

/* The same, folded away under a line that says what it is; shown on paper. */
void page_folded_table(FILE *file, const char *summary, const json_value *first,
                       const page_column *columns, int count);

#endif
