/* cubin.c: a cubin is an ELF64 file. Nothing it says is believed before it was checked against the
 * size of the file. */
#include "jit/cubin.h"

#include <string.h>

enum {
    /* The file's header. */
    ELF_CLASS_AT = 4,
    ELF_CLASS_64 = 2,
    ELF_ORDER_AT = 5,
    ELF_LITTLE_ENDIAN = 1,
    ELF_MACHINE_AT = 18,
    ELF_MACHINE_CUDA = 190,
    ELF_SECTIONS_AT = 40,
    ELF_SECTION_BYTES_AT = 58,
    ELF_SECTION_COUNT_AT = 60,
    ELF_HEADER_BYTES = 64,
    /* A section's header. */
    SECTION_TYPE_AT = 4,
    SECTION_OFFSET_AT = 24,
    SECTION_SIZE_AT = 32,
    SECTION_LINK_AT = 40,
    SECTION_HEADER_BYTES = 64,
    TYPE_CONTENT = 1,
    TYPE_SYMBOLS = 2,
    TYPE_STRINGS = 3,
    /* A symbol. */
    SYMBOL_NAME_AT = 0,
    SYMBOL_INFO_AT = 4,
    SYMBOL_SECTION_AT = 6,
    SYMBOL_VALUE_AT = 8,
    SYMBOL_SIZE_AT = 16,
    SYMBOL_BYTES = 24,
    SYMBOL_OBJECT = 1
};

typedef struct span {
    const unsigned char *start;
    uint64_t bytes;
} span;

static uint64_t load(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* Cuts bytes out of whole; false where they are not all in it. */
static bool cut(span whole, uint64_t offset, uint64_t bytes, span *part)
{
    if (offset > whole.bytes || bytes > whole.bytes - offset)
        return false;
    *part = (span){whole.start + offset, bytes};
    return true;
}

static bool is_cubin(span file)
{
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F'};
    return file.bytes >= ELF_HEADER_BYTES && memcmp(file.start, magic, sizeof magic) == 0 &&
           file.start[ELF_CLASS_AT] == ELF_CLASS_64 &&
           file.start[ELF_ORDER_AT] == ELF_LITTLE_ENDIAN &&
           load(file.start + ELF_MACHINE_AT, 2) == ELF_MACHINE_CUDA;
}

static bool find_section_headers(span file, span *headers)
{
    uint64_t count = load(file.start + ELF_SECTION_COUNT_AT, 2);
    return load(file.start + ELF_SECTION_BYTES_AT, 2) == SECTION_HEADER_BYTES &&
           cut(file, load(file.start + ELF_SECTIONS_AT, 8), count * SECTION_HEADER_BYTES, headers);
}

/* The content of section index, if it has the type. */
static bool find_section(span file, span headers, uint64_t index, uint64_t type, span *content)
{
    if (index >= headers.bytes / SECTION_HEADER_BYTES)
        return false;
    const unsigned char *header = headers.start + index * SECTION_HEADER_BYTES;
    return load(header + SECTION_TYPE_AT, 4) == type &&
           cut(file, load(header + SECTION_OFFSET_AT, 8), load(header + SECTION_SIZE_AT, 8),
               content);
}

static bool is_named(span strings, uint64_t offset, const char *name)
{
    span rest;
    size_t bytes = strlen(name) + 1;
    return cut(strings, offset, bytes, &rest) && memcmp(rest.start, name, bytes) == 0;
}

/* The symbol of the variable among those of section index, or NULL. */
static const unsigned char *find_symbol(span file, span headers, uint64_t index, const char *name)
{
    span symbols, strings;
    if (!find_section(file, headers, index, TYPE_SYMBOLS, &symbols))
        return NULL;
    const unsigned char *header = headers.start + index * SECTION_HEADER_BYTES;
    if (!find_section(file, headers, load(header + SECTION_LINK_AT, 4), TYPE_STRINGS, &strings))
        return NULL;
    for (uint64_t at = 0; symbols.bytes - at >= SYMBOL_BYTES; at += SYMBOL_BYTES) {
        const unsigned char *symbol = symbols.start + at;
        if ((symbol[SYMBOL_INFO_AT] & 15) == SYMBOL_OBJECT &&
            is_named(strings, load(symbol + SYMBOL_NAME_AT, 4), name))
            return symbol;
    }
    return NULL;
}

fc_status jit_cubin_variable(const void *cubin, size_t cubin_bytes, const char *name,
                             const void **data, size_t *data_bytes)
{
    span file = {cubin, cubin_bytes}, headers;
    FC_REQUIRE(is_cubin(file) && find_section_headers(file, &headers),
               "%zu bytes that should be a cubin are none, or a damaged one", cubin_bytes);
    const unsigned char *symbol = NULL;
    for (uint64_t i = 0; i < headers.bytes / SECTION_HEADER_BYTES && symbol == NULL; i++)
        symbol = find_symbol(file, headers, i, name);
    FC_REQUIRE(symbol != NULL, "the cubin has no variable %s", name);
    span content, value;
    FC_REQUIRE(
        find_section(file, headers, load(symbol + SYMBOL_SECTION_AT, 2), TYPE_CONTENT, &content) &&
            cut(content, load(symbol + SYMBOL_VALUE_AT, 8), load(symbol + SYMBOL_SIZE_AT, 8),
                &value),
        "the variable %s has no initial value in the cubin", name);
    *data = value.start;
    *data_bytes = (size_t)value.bytes;
    return FC_OK;
}
