/* npy_header.c: the dictionary of a .npy header, such as
 *   {'descr': '<f2', 'fortran_order': False, 'shape': (1, 8, 512, 64), }
 * Each step takes the text from *at on and leaves *at behind what it read. */
#include "npy_header.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool npy_fail(char error[NPY_ERROR_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, NPY_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static void skip_spaces(const char **at)
{
    while (isspace((unsigned char)**at))
        (*at)++;
}

static bool take(const char **at, char wanted)
{
    skip_spaces(at);
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

static bool take_word(const char **at, const char *word)
{
    skip_spaces(at);
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_string(const char **at, char *text, size_t capacity)
{
    skip_spaces(at);
    char quote = **at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *start = *at + 1, *end = strchr(start, quote);
    if (end == NULL || (size_t)(end - start) >= capacity)
        return false;
    memcpy(text, start, (size_t)(end - start));
    text[end - start] = '\0';
    *at = end + 1;
    return true;
}

static bool take_descr(const char **at, npy_array *array, npy_header *head,
                       char error[NPY_ERROR_BYTES])
{
    char descr[16] = "";
    skip_spaces(at);
    if (**at == '[')
        return npy_fail(error, "holds structured elements; plain numbers are expected");
    if (!take_string(at, descr, sizeof descr))
        return npy_fail(error, "has a damaged header (no element type after 'descr')");
    const char *type = descr[0] != '\0' && strchr("<>|=", descr[0]) != NULL ? descr + 1 : descr;
    bool size_is_digit = strlen(type) == 2 && type[1] >= '1' && type[1] <= '8';
    if (!size_is_digit || strchr("fiubV", type[0]) == NULL)
        return npy_fail(error, "holds elements of type '%s', which is not supported", descr);
    array->kind = type[0];
    array->item_bytes = (size_t)(type[1] - '0');
    head->big_endian = descr[0] == '>';
    head->has_descr = true;
    return true;
}

static bool take_order(const char **at, npy_header *head, char error[NPY_ERROR_BYTES])
{
    head->fortran_order = take_word(at, "True");
    if (!head->fortran_order && !take_word(at, "False"))
        return npy_fail(error, "has a damaged header (fortran_order is neither True nor False)");
    head->has_order = true;
    return true;
}

static bool take_extent(const char **at, int64_t *extent)
{
    skip_spaces(at);
    if (!isdigit((unsigned char)**at))
        return false;
    char *end;
    errno = 0;
    *extent = strtoll(*at, &end, 10);
    *at = *end == 'L' ? end + 1 : end; /* Python 2 wrote long integers so */
    return errno == 0;
}

static bool take_shape(const char **at, npy_array *array, npy_header *head,
                       char error[NPY_ERROR_BYTES])
{
    array->dims = 0;
    if (!take(at, '('))
        return npy_fail(error, "has a damaged header (no tuple after 'shape')");
    while (!take(at, ')')) {
        if (array->dims == NPY_MAX_DIMS)
            return npy_fail(error, "has more than %d dimensions", (int)NPY_MAX_DIMS);
        if (!take_extent(at, &array->shape[array->dims++]))
            return npy_fail(error, "has a damaged header (an extent of the shape is no number)");
        if (!take(at, ',') && **at != ')')
            return npy_fail(error, "has a damaged header (the shape does not end)");
    }
    head->has_shape = true;
    return true;
}

static bool take_entry(const char **at, npy_array *array, npy_header *head,
                       char error[NPY_ERROR_BYTES])
{
    char key[32];
    if (!take_string(at, key, sizeof key) || !take(at, ':'))
        return npy_fail(error, "has a damaged header (a key is missing)");
    if (strcmp(key, "descr") == 0)
        return take_descr(at, array, head, error);
    if (strcmp(key, "fortran_order") == 0)
        return take_order(at, head, error);
    if (strcmp(key, "shape") == 0)
        return take_shape(at, array, head, error);
    return npy_fail(error, "has a damaged header (unknown key '%s')", key);
}

bool npy_parse_header(const char *text, npy_array *array, npy_header *head,
                      char error[NPY_ERROR_BYTES])
{
    const char *at = text;
    if (!take(&at, '{'))
        return npy_fail(error, "has a damaged header (no dictionary)");
    while (!take(&at, '}')) {
        if (!take_entry(&at, array, head, error))
            return false;
        if (!take(&at, ',') && *at != '}')
            return npy_fail(error, "has a damaged header (the dictionary does not end)");
    }
    skip_spaces(&at);
    if (*at != '\0')
        return npy_fail(error, "has a damaged header (text after the dictionary)");
    if (!head->has_descr || !head->has_order || !head->has_shape)
        return npy_fail(error, "has a damaged header (descr, fortran_order or shape is missing)");
    return true;
}
