/* csv.h: a table of ncu: a line of names, a line of units, then values, all in quotes. */
#ifndef CLI_CSV_H
#define CLI_CSV_H

#include <stdbool.h>

typedef struct csv_table {
    char *text; /* cut into cells */
    int columns, rows;
    char **cells; /* [row][column]; the first row has the names */
} csv_table;

/* Lines before the one that begins with `first_name` are no part of it. False: there is no such
 * table. Free in either case. */
bool csv_read(const char *text, const char *first_name, csv_table *table);
void csv_free(csv_table *table);

/* The column of that name, or -1. */
int csv_column(const csv_table *table, const char *name);
const char *csv_cell(const csv_table *table, int row, int column); /* "" outside */

/* 1234.5 of "1,234.5"; NaN where there is no number. */
double csv_number(const csv_table *table, int row, const char *name);

#endif
