/* json_read.c: see json_read.h. By the grammar of RFC 8259. */
#include "json_read.h"

#include "memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LEVELS = 64 };

typedef struct reader {
    const char *start, *at;
    int level;
    char *error; /* NULL once a mistake was found and told */
} reader;

static bool fail(reader *r, const char *what)
{
    if (r->error == NULL)
        return false;
    int line = 1;
    for (const char *c = r->start; c < r->at; c++)
        line += *c == '\n';
    snprintf(r->error, JSON_ERROR_BYTES, "line %d: %s", line, what);
    r->error = NULL;
    return false;
}

static void skip_space(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool take(reader *r, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* 1. Texts. */

static int put_utf8(char *out, unsigned code)
{
    if (code < 0x80)
        return out[0] = (char)code, 1;
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

static bool read_hex(reader *r, unsigned *code)
{
    *code = 0;
    for (int digit = 0; digit < 4; digit++, r->at++) {
        if (!isxdigit((unsigned char)*r->at))
            return fail(r, "\\u wants four hexadecimal digits");
        const int c = tolower((unsigned char)*r->at);
        *code = *code * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* After the backslash and the u. Characters beyond 16 bits are written as a pair. */
static bool read_unicode(reader *r, unsigned *code)
{
    unsigned low;
    if (!read_hex(r, code))
        return false;
    if (*code >= 0xd800 && *code < 0xdc00) {
        if (!take(r, "\\u") || !read_hex(r, &low) || low < 0xdc00 || low >= 0xe000)
            return fail(r, "half of a character that is written as a pair");
        *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    } else if (*code == 0 || (*code >= 0xdc00 && *code < 0xe000)) {
        return fail(r, "\\u names no character");
    }
    return true;
}

static bool read_escape(reader *r, char **out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *letter = *r->at != '\0' ? strchr(letters, *r->at) : NULL;
    unsigned code;
    if (letter != NULL) {
        *(*out)++ = meanings[letter - letters];
        r->at++;
        return true;
    }
    if (!take(r, "u"))
        return fail(r, "a backslash before a letter that has no meaning");
    if (!read_unicode(r, &code))
        return false;
    *out += put_utf8(*out, code);
    return true;
}

/* Escapes are never shorter than what they stand for. */
static char *read_text(reader *r)
{
    if (!take(r, "\""))
        return fail(r, "a text was expected"), NULL;
    const char *end = r->at;
    while (*end != '\0' && *end != '"')
        end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    char *text = lab_zeroed(end - r->at + 1, 1), *out = text;
    while (*r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            fail(r, *r->at == '\0' ? "a text has no end" : "a text goes over a line's end");
        else if (*r->at != '\\')
            *out++ = *r->at++;
        else if (r->at++, read_escape(r, &out))
            continue;
        if (r->error == NULL)
            return free(text), NULL;
    }
    r->at++;
    return text;
}

/* 2. Values. */

static bool read_number(reader *r, double *number)
{
    const char *c = r->at + (*r->at == '-');
    const size_t whole = strspn(c, "0123456789");
    if (whole == 0 || (whole > 1 && *c == '0'))
        return fail(r, "a value was expected");
    c += whole;
    if (*c == '.') {
        const size_t digits = strspn(++c, "0123456789");
        if (digits == 0)
            return fail(r, "a number ends with its point");
        c += digits;
    }
    if (*c == 'e' || *c == 'E') {
        c += c[1] == '+' || c[1] == '-' ? 2 : 1;
        const size_t digits = strspn(c, "0123456789");
        if (digits == 0)
            return fail(r, "a number has no exponent after its e");
        c += digits;
    }
    *number = strtod(r->at, NULL);
    r->at = c;
    return true;
}

static json_value *read_value(reader *r);

static json_value *read_member(reader *r, bool named)
{
    char *name = NULL;
    if (named) {
        skip_space(r);
        name = read_text(r);
        skip_space(r);
        if (name == NULL || !take(r, ":")) {
            free(name);
            return fail(r, "a colon was expected after the name"), NULL;
        }
    }
    json_value *value = read_value(r);
    if (value != NULL)
        value->name = name;
    else
        free(name);
    return value;
}

/* After the opening bracket. */
static bool read_members(reader *r, json_value *into, const char *closing)
{
    json_value **place = &into->first;
    if (++r->level > MOST_LEVELS)
        return fail(r, "more than 64 levels of arrays and objects");
    skip_space(r);
    if (!take(r, closing)) {
        do {
            *place = read_member(r, into->kind == JSON_OBJECT);
            if (*place == NULL)
                return false;
            place = &(*place)->next;
            skip_space(r);
        } while (take(r, ","));
        if (!take(r, closing))
            return fail(r, into->kind == JSON_OBJECT ? "a comma or a } was expected"
                                                     : "a comma or a ] was expected");
    }
    r->level--;
    return true;
}

static bool fill_value(reader *r, json_value *value)
{
    if (take(r, "{")) {
        value->kind = JSON_OBJECT;
        return read_members(r, value, "}");
    }
    if (take(r, "[")) {
        value->kind = JSON_ARRAY;
        return read_members(r, value, "]");
    }
    if (*r->at == '"') {
        value->kind = JSON_TEXT;
        value->text = read_text(r);
        return value->text != NULL;
    }
    if (take(r, "null"))
        return true;
    value->kind = JSON_BOOLEAN;
    if (take(r, "true"))
        return value->number = 1, true;
    if (take(r, "false"))
        return true;
    value->kind = JSON_NUMBER;
    return read_number(r, &value->number);
}

static json_value *read_value(reader *r)
{
    json_value *value = lab_zeroed(1, sizeof *value);
    skip_space(r);
    if (fill_value(r, value))
        return value;
    json_free(value);
    return NULL;
}

json_value *json_read(const char *text, char error[JSON_ERROR_BYTES])
{
    reader r = {.start = text, .at = text, .error = error};
    json_value *value = read_value(&r);
    skip_space(&r);
    if (value != NULL && *r.at != '\0') {
        fail(&r, "there is more after the value");
        json_free(value);
        return NULL;
    }
    return value;
}

void json_free(json_value *value)
{
    while (value != NULL) {
        json_value *next = value->next;
        json_free(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
}

/* 3. Looking things up. */

const json_value *json_member(const json_value *object, const char *name)
{
    const json_value *member = object != NULL && object->kind == JSON_OBJECT ? object->first : NULL;
    while (member != NULL && strcmp(member->name, name) != 0)
        member = member->next;
    return member;
}

const json_value *json_first(const json_value *object, const char *name)
{
    const json_value *member = json_member(object, name);
    return member != NULL ? member->first : NULL;
}

double json_number_of(const json_value *object, const char *name, double otherwise)
{
    const json_value *member = json_member(object, name);
    return member != NULL && member->kind == JSON_NUMBER ? member->number : otherwise;
}

const char *json_text_of(const json_value *object, const char *name, const char *otherwise)
{
    const json_value *member = json_member(object, name);
    return member != NULL && member->kind == JSON_TEXT ? member->text : otherwise;
}

bool json_is_true(const json_value *object, const char *name)
{
    const json_value *member = json_member(object, name);
    return member != NULL && member->kind == JSON_BOOLEAN && member->number != 0;
}
