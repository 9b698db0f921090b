/* json.h: a JSON writer. Values go straight to a stream; commas and indentation are its work.
 *
 *     json_writer json = json_start(file);
 *     json_object(&json, NULL);
 *     json_text(&json, "kernel", "reference");
 *     json_number(&json, "p50_us", 12.5);
 *     json_end(&json);
 *
 * A name is given inside an object and is NULL inside an array and at the top. */
#ifndef LAB_JSON_H
#define LAB_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_MAX_DEPTH = 16 };

typedef struct json_writer {
    FILE *file;
    int depth;
    char closing[JSON_MAX_DEPTH];
    bool has_member[JSON_MAX_DEPTH];
} json_writer;

json_writer json_start(FILE *file);

void json_object(json_writer *json, const char *name);
void json_array(json_writer *json, const char *name);
void json_end(json_writer *json); /* the innermost object or array; the outermost ends the line */

void json_text(json_writer *json, const char *name, const char *value); /* NULL becomes null */
void json_number(json_writer *json, const char *name, double value);    /* NaN and inf: null */
void json_integer(json_writer *json, const char *name, int64_t value);
void json_boolean(json_writer *json, const char *name, bool value);

#endif
