/* table.h: text in aligned columns and wrapped paragraphs. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 16, TABLE_LINE_COLUMNS = 100 };

typedef struct text_table {
    size_t columns;
    const char *alignment; /* one letter per column: l or r */
    size_t cells, capacity;
    char **cell;
} text_table;

/* The headings follow as strings, one per letter of `alignment`. */
text_table table_start(const char *alignment, ...);

/* Cells from left to right, formatted; a heading's text counts as the first row. */
void table_cell(text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints and frees. */
void table_print(text_table *table, FILE *file);

/* Words of `text` from the current column on; lines after the first begin at `indent`. */
void table_wrap(FILE *file, const char *text, size_t column, size_t indent);

#endif
