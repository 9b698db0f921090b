/* table_reader.h: the words of a table. Whatever is not as it should be stops the program with a
 * message. */
#ifndef TESTS_TABLE_READER_H
#define TESTS_TABLE_READER_H

#include "flashcore.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct reader {
    FILE *file;
    const char *path;
    char word[64]; /* the last one */
} reader;

_Noreturn void reader_stop(const reader *from, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool reader_next_word(reader *from); /* false at the end of the file */
const char *reader_word(reader *from);
double reader_number(reader *from);
double reader_number_or_dot(reader *from); /* NAN for a dot */
int64_t reader_integer(reader *from);
uint64_t reader_u64(reader *from);

/* Reads the value of the field of fc_attention that the last word names. */
void reader_field(reader *from, fc_attention *problem);

#endif
