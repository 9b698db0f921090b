/* json.c: see json.h. */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static void write_escaped(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

static void start_line(json_writer *json)
{
    fputc('\n', json->file);
    for (int level = 0; level < json->depth; level++)
        fputs("  ", json->file);
}

static void start_value(json_writer *json, const char *name)
{
    if (json->depth > 0) {
        bool *has_member = &json->has_member[json->depth - 1];
        if (*has_member)
            fputc(',', json->file);
        *has_member = true;
        start_line(json);
    }
    if (name != NULL) {
        write_escaped(json->file, name);
        fputs(": ", json->file);
    }
}

static void open_level(json_writer *json, const char *name, char opening, char closing)
{
    assert(json->depth < JSON_MAX_DEPTH);
    start_value(json, name);
    fputc(opening, json->file);
    json->closing[json->depth] = closing;
    json->has_member[json->depth] = false;
    json->depth++;
}

json_writer json_start(FILE *file)
{
    return (json_writer){.file = file};
}

void json_object(json_writer *json, const char *name)
{
    open_level(json, name, '{', '}');
}

void json_array(json_writer *json, const char *name)
{
    open_level(json, name, '[', ']');
}

void json_end(json_writer *json)
{
    assert(json->depth > 0);
    json->depth--;
    if (json->has_member[json->depth])
        start_line(json);
    fputc(json->closing[json->depth], json->file);
    if (json->depth == 0)
        fputc('\n', json->file);
}

void json_text(json_writer *json, const char *name, const char *value)
{
    start_value(json, name);
    if (value != NULL)
        write_escaped(json->file, value);
    else
        fputs("null", json->file);
}

void json_number(json_writer *json, const char *name, double value)
{
    start_value(json, name);
    if (isfinite(value))
        fprintf(json->file, "%.9g", value);
    else
        fputs("null", json->file);
}

void json_integer(json_writer *json, const char *name, int64_t value)
{
    start_value(json, name);
    fprintf(json->file, "%" PRId64, value);
}

void json_boolean(json_writer *json, const char *name, bool value)
{
    start_value(json, name);
    fputs(value ? "true" : "false", json->file);
}
