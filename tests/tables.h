/* tables.h: reads tests/data/tables.txt, problems with the results that another program computed
 * (tests/data/make_tables.py). Words apart by blanks; a case is
 *
 *     case NAME
 *     FIELD VALUE                         fields of fc_attention, dropout_seed, dropout_offset
 *     generate ARRAY ORIGIN COUNT SEED    an input, by element_generate
 *     values ARRAY ORIGIN COUNT v v …     an input, written out
 *     expect ARRAY ORIGIN COUNT v v …     an output, as it must lie in memory; . is not written
 *     end
 *
 * ORIGIN is the index of the element that fc_buffers points to. */
#ifndef TESTS_TABLES_H
#define TESTS_TABLES_H

#include "flashcore.h"

enum { TABLE_MAX_ARRAYS = 24, TABLE_NAME_BYTES = 64 };

/* The bytes of an output before the call, and those around every array: found again where nothing
 * may be written. */
enum { TABLE_POISON = 0xA5, TABLE_GUARD_ELEMENTS = 64 };

typedef struct table_array {
    char name[TABLE_NAME_BYTES]; /* a pointer of fc_buffers or fc_gradients */
    fc_type type;                /* or ELEMENT_I32, ELEMENT_U8 */
    int64_t origin;
    int64_t count;
    void *memory;     /* element 0; TABLE_GUARD_ELEMENTS of poison lie before and after */
    double *expected; /* NULL for an input; NAN where the library must not write */
} table_array;

typedef struct table_case {
    char name[TABLE_NAME_BYTES];
    fc_attention problem;
    fc_buffers buffers;     /* points into the arrays */
    fc_gradients gradients; /* all NULL but dout when the table has none */
    table_array arrays[TABLE_MAX_ARRAYS];
    int array_count;
} table_case;

/* Every case of the file. Stops the program with a message when the file is not as above. */
table_case *tables_read(const char *path, int *count);
void tables_free(table_case *cases, int count);

#endif
