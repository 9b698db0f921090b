/* csv.c: see csv.h. */
#include "csv.h"
#include "output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The cell that begins at *at, which moves behind its comma or to the end of its line. */
static char *take_cell(char **at)
{
    char *cell = *at, *out = *at;
    if (*cell != '"') {
        char *end = cell + strcspn(cell, ",\n");
        *at = *end == ',' ? end + 1 : end;
        if (*end == ',')
            *end = '\0';
        return cell;
    }
    char *in = cell + 1;
    for (; *in != '\0' && (*in != '"' || in[1] == '"'); in++) {
        in += *in == '"'; /* two quotes stand for one */
        *out++ = *in;
    }
    in += *in == '"';
    *at = *in == ',' ? in + 1 : in;
    *out = '\0';
    return cell;
}

static void add_cell(csv_table *table, int *count, int *capacity, char *cell)
{
    if (*count == *capacity) {
        *capacity = *capacity == 0 ? 256 : 2 * *capacity;
        char **grown = cli_allocate((size_t)*capacity * sizeof(char *));
        if (*count > 0)
            memcpy(grown, table->cells, (size_t)*count * sizeof(char *));
        free(table->cells);
        table->cells = grown;
    }
    table->cells[(*count)++] = cell;
}

/* The line ends are still there: a cell may only be cut where its line was taken apart. */
static void read_line(csv_table *table, int *count, int *capacity, char *line)
{
    char *at = line;
    do {
        add_cell(table, count, capacity, take_cell(&at));
    } while (*at != '\0');
}

bool csv_read(const char *text, const char *first_name, csv_table *table)
{
    *table = (csv_table){.text = cli_format("%s", text)};
    int count = 0, capacity = 0;
    char *rest = table->text, *line;
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        const bool begins =
            line[0] == '"' && strncmp(line + 1, first_name, strlen(first_name)) == 0;
        if (table->columns == 0 && !begins)
            continue;
        const int before = count;
        read_line(table, &count, &capacity, line);
        if (table->columns == 0)
            table->columns = count;
        if (count - before != table->columns) {
            count = before; /* a remark between the rows */
            continue;
        }
        table->rows++;
    }
    return table->rows > 2;
}

void csv_free(csv_table *table)
{
    free(table->cells);
    free(table->text);
    *table = (csv_table){0};
}

int csv_column(const csv_table *table, const char *name)
{
    for (int column = 0; column < table->columns; column++)
        if (strcmp(table->cells[column], name) == 0)
            return column;
    return -1;
}

const char *csv_cell(const csv_table *table, int row, int column)
{
    if (row < 0 || row >= table->rows || column < 0 || column >= table->columns)
        return "";
    return table->cells[row * table->columns + column];
}

double csv_number(const csv_table *table, int row, const char *name)
{
    char digits[64];
    size_t used = 0;
    for (const char *c = csv_cell(table, row, csv_column(table, name));
         *c != '\0' && used < sizeof digits - 1; c++)
        if (*c != ',')
            digits[used++] = *c;
    digits[used] = '\0';
    char *end;
    const double value = strtod(digits, &end);
    return end != digits && *end == '\0' ? value : (double)NAN;
}
