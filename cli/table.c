/* table.c: see table.h. */
#include "table.h"
#include "output.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Columns on a terminal: every byte of UTF-8 that does not continue a character begins one. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void add_cell(text_table *table, char *text)
{
    if (table->cells == table->capacity) {
        table->capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        char **grown = cli_allocate(table->capacity * sizeof *grown);
        if (table->cells > 0)
            memcpy(grown, table->cell, table->cells * sizeof *grown);
        free(table->cell);
        table->cell = grown;
    }
    table->cell[table->cells++] = text;
}

text_table table_start(const char *alignment, ...)
{
    text_table made = {.columns = strlen(alignment), .alignment = alignment};
    va_list headings;
    va_start(headings, alignment);
    for (size_t column = 0; column < made.columns; column++)
        add_cell(&made, cli_format("%s", va_arg(headings, const char *)));
    va_end(headings);
    return made;
}

void table_cell(text_table *table, const char *format, ...)
{
    va_list arguments;
    char text[512];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add_cell(table, cli_format("%s", text));
}

static void print_row(const text_table *table, const size_t *widths, char *const *cells, FILE *file)
{
    size_t gap = 0; /* spaces owed, so that no line ends with any */
    for (size_t column = 0; column < table->columns; column++) {
        size_t padding = widths[column] - text_width(cells[column]);
        if (table->alignment[column] == 'r')
            gap += padding;
        if (cells[column][0] != '\0') {
            fprintf(file, "%*s%s", (int)gap, "", cells[column]);
            gap = 0;
        }
        if (table->alignment[column] == 'l')
            gap += padding;
        gap += 2;
    }
    fputc('\n', file);
}

void table_print(text_table *table, FILE *file)
{
    size_t widths[TABLE_MAX_COLUMNS] = {0};
    for (size_t cell = 0; cell < table->cells; cell++) {
        size_t *widest = &widths[cell % table->columns], width = text_width(table->cell[cell]);
        *widest = width > *widest ? width : *widest;
    }
    for (size_t cell = 0; cell + table->columns <= table->cells; cell += table->columns)
        print_row(table, widths, table->cell + cell, file);
    for (size_t cell = 0; cell < table->cells; cell++)
        free(table->cell[cell]);
    free(table->cell);
}

void table_wrap(FILE *file, const char *text, size_t column, size_t indent)
{
    bool line_is_empty = true;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (!line_is_empty && column + 1 + length > TABLE_LINE_COLUMNS) {
            fprintf(file, "\n%*s", (int)indent, "");
            column = indent;
            line_is_empty = true;
        }
        if (!line_is_empty)
            fputc(' ', file);
        fprintf(file, "%.*s", (int)length, text);
        column += length + (line_is_empty ? 0 : 1);
        line_is_empty = false;
        text += length + (text[length] == ' ' ? 1 : 0);
    }
    fputc('\n', file);
}
