#include "tables.h"

#include "elements.h"
#include "table_reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Arrays ---------------------------------------------------------------------------------- */

static fc_type type_or(fc_type given, fc_type otherwise)
{
    return given != FC_TYPE_AUTO ? given : otherwise;
}

static bool is_fp8(fc_type type)
{
    return type == FC_F8_E4M3 || type == FC_F8_E5M2;
}

static fc_type array_type(const fc_attention *problem, const char *name)
{
    static const char *const floats[] = {"lse",     "alibi",   "sinks", "q_scale",
                                         "k_scale", "v_scale", "dbias", "dsinks"};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        if (strcmp(name, floats[i]) == 0)
            return FC_F32;
    if (strcmp(name, "mask") == 0)
        return ELEMENT_U8;
    if (strncmp(name, "cu_", 3) == 0 || strcmp(name, "kv_lengths") == 0 ||
        strcmp(name, "page_table") == 0)
        return ELEMENT_I32;
    if (strcmp(name, "bias") == 0)
        return type_or(problem->bias_type, FC_F32);
    if (strcmp(name, "q") == 0)
        return problem->q_type;
    if (strcmp(name, "k") == 0 || strcmp(name, "v") == 0)
        return type_or(problem->kv_type, problem->q_type);
    return type_or(problem->out_type, is_fp8(problem->q_type) ? FC_BF16 : problem->q_type);
}

static size_t guard_bytes(const table_array *array)
{
    return TABLE_GUARD_ELEMENTS * element_bytes(array->type);
}

static table_array *need_array(reader *from, table_case *owner)
{
    if (owner->array_count == TABLE_MAX_ARRAYS)
        reader_stop(from, "%s has too many arrays", owner->name);
    table_array *array = &owner->arrays[owner->array_count++];
    snprintf(array->name, sizeof array->name, "%s", reader_word(from));
    array->type = array_type(&owner->problem, array->name);
    array->origin = reader_integer(from);
    array->count = reader_integer(from);
    size_t bytes =
        (size_t)(array->count + 2 * (int64_t)TABLE_GUARD_ELEMENTS) * element_bytes(array->type);
    char *allocated = malloc(bytes);
    if (allocated == NULL)
        reader_stop(from, "out of memory");
    memset(allocated, TABLE_POISON, bytes);
    array->memory = allocated + guard_bytes(array);
    return array;
}

static void read_generated(reader *from, table_case *owner)
{
    table_array *array = need_array(from, owner);
    uint64_t seed = (uint64_t)reader_integer(from);
    for (int64_t i = 0; i < array->count; i++)
        element_store(array->type, array->memory, i, element_generate(array->type, seed, i));
}

static void read_values(reader *from, table_case *owner)
{
    table_array *array = need_array(from, owner);
    for (int64_t i = 0; i < array->count; i++)
        element_store(array->type, array->memory, i, reader_number(from));
}

static void read_expected(reader *from, table_case *owner)
{
    table_array *array = need_array(from, owner);
    array->expected = malloc((size_t)array->count * sizeof(double));
    if (array->expected == NULL)
        reader_stop(from, "out of memory");
    for (int64_t i = 0; i < array->count; i++)
        array->expected[i] = reader_number_or_dot(from);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Sets the pointer of fc_buffers or fc_gradients that has the array's name. */
static bool bind_array(table_case *owner, const table_array *array)
{
    static const struct {
        const char *name;
        size_t offset;
        bool gradient;
    } pointers[] = {
#define BUFFER(name) {#name, offsetof(fc_buffers, name), false}
#define GRADIENT(name)                            \
    {                                             \
#name, offsetof(fc_gradients, name), true \
    }
        BUFFER(q),          BUFFER(k),        BUFFER(v),       BUFFER(out),   BUFFER(lse),
        BUFFER(q_scale),    BUFFER(k_scale),  BUFFER(v_scale), BUFFER(alibi), BUFFER(bias),
        BUFFER(mask),       BUFFER(sinks),    BUFFER(cu_q),    BUFFER(cu_kv), BUFFER(kv_lengths),
        BUFFER(page_table), GRADIENT(dout),   GRADIENT(dq),    GRADIENT(dk),  GRADIENT(dv),
        GRADIENT(dbias),    GRADIENT(dsinks),
    };
    void *element = (char *)array->memory + (size_t)array->origin * element_bytes(array->type);
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        if (strcmp(pointers[i].name, array->name) != 0)
            continue;
        char *base = pointers[i].gradient ? (char *)&owner->gradients : (char *)&owner->buffers;
        memcpy(base + pointers[i].offset, &element, sizeof element);
        return true;
    }
    return false;
}

static void read_case(reader *from, table_case *into)
{
    memset(into, 0, sizeof *into);
    snprintf(into->name, sizeof into->name, "%s", reader_word(from));
    into->problem = fc_attention_init();
    into->buffers = fc_buffers_init();
    into->gradients = fc_gradients_init();
    while (strcmp(reader_word(from), "end") != 0) {
        if (strcmp(from->word, "generate") == 0)
            read_generated(from, into);
        else if (strcmp(from->word, "values") == 0)
            read_values(from, into);
        else if (strcmp(from->word, "expect") == 0)
            read_expected(from, into);
        else if (strcmp(from->word, "dropout_seed") == 0)
            into->buffers.dropout_seed = reader_u64(from);
        else if (strcmp(from->word, "dropout_offset") == 0)
            into->buffers.dropout_offset = reader_u64(from);
        else
            reader_field(from, &into->problem);
    }
    for (int i = 0; i < into->array_count; i++)
        if (!bind_array(into, &into->arrays[i]))
            reader_stop(from, "%s: no array is called '%s'", into->name, into->arrays[i].name);
}

table_case *tables_read(const char *path, int *count)
{
    reader from = {fopen(path, "r"), path, ""};
    if (from.file == NULL)
        reader_stop(&from, "cannot be opened");
    table_case *cases = NULL;
    *count = 0;
    while (reader_next_word(&from)) {
        if (strcmp(from.word, "case") != 0)
            reader_stop(&from, "'case' was expected");
        table_case *more = realloc(cases, (size_t)(*count + 1) * sizeof *cases);
        if (more == NULL)
            reader_stop(&from, "out of memory");
        cases = more;
        read_case(&from, &cases[(*count)++]);
    }
    fclose(from.file);
    return cases;
}

void tables_free(table_case *cases, int count)
{
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < cases[i].array_count; j++) {
            free((char *)cases[i].arrays[j].memory - guard_bytes(&cases[i].arrays[j]));
            free(cases[i].arrays[j].expected);
        }
    }
    free(cases);
}
