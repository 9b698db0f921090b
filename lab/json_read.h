/* json_read.h: a JSON reader: a text becomes a tree of values.
 *
 *     json_value *bench = json_read(text, error);
 *     for (const json_value *row = json_first(bench, "rows"); row != NULL; row = row->next)
 *         printf("%g\n", json_number_of(row, "p50_us", NAN));
 *     json_free(bench);
 *
 * Looking something up in NULL, or in a value of another kind, finds nothing: a result that an
 * older program wrote may lack any member. */
#ifndef LAB_JSON_READ_H
#define LAB_JSON_READ_H

#include <stdbool.h>

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOLEAN,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

typedef struct json_value {
    json_kind kind;
    char *name;               /* inside an object, else NULL */
    char *text;               /* of JSON_TEXT */
    double number;            /* of JSON_NUMBER; 1 or 0 of JSON_BOOLEAN */
    struct json_value *first; /* of the elements or members */
    struct json_value *next;  /* within the array or object around it */
} json_value;

/* NULL with a sentence that names the line, when the text is not one JSON value. */
enum { JSON_ERROR_BYTES = 160 };
json_value *json_read(const char *text, char error[JSON_ERROR_BYTES]);
void json_free(json_value *value);

const json_value *json_member(const json_value *object, const char *name); /* NULL: none */
const json_value *json_first(const json_value *object, const char *name); /* of that member's own */
double json_number_of(const json_value *object, const char *name, double otherwise);
const char *json_text_of(const json_value *object, const char *name, const char *otherwise);
bool json_is_true(const json_value *object, const char *name);

#endif
