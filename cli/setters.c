/* setters.c: see setters.h. */
#include "setters.h"
#include "emulator.h"
#include "problem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static bool complain(char complaint[CLI_COMPLAINT_BYTES], const char *text, const char *expected)
{
    snprintf(complaint, CLI_COMPLAINT_BYTES, "'%s' is not %s", text, expected);
    return false;
}

static bool parse_integer(const char *text, int64_t smallest, int64_t largest, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || parsed < smallest || parsed > largest)
        return false;
    *value = parsed;
    return true;
}

/* "1,8,512,64" into `count` integers. */
static bool parse_list(const char *text, int64_t smallest, int64_t largest, int64_t *values,
                       size_t count)
{
    for (size_t index = 0; index < count; index++) {
        char word[32];
        size_t length = strcspn(text, ",");
        bool is_last = index + 1 == count;
        if (length >= sizeof word || (text[length] == '\0') != is_last)
            return false;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!parse_integer(word, smallest, largest, &values[index]))
            return false;
        text += length + 1;
    }
    return true;
}

bool cli_set_switch(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments, (void)text, (void)complaint;
    *(int32_t *)field = 1;
    return true;
}

bool cli_set_text(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    *(const char **)field = text;
    return text[0] != '\0' || complain(complaint, text, "a name");
}

bool cli_set_json(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    arguments->json = 1;
    return text == NULL || cli_set_text(arguments, field, text, complaint);
}

bool cli_set_rows(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    return parse_integer(text, 1, INT32_MAX, field) ||
           complain(complaint, text, "a whole number, 1 to 2147483647");
}

bool cli_set_size(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    const fc_attention *problem = &arguments->problem;
    arguments->problem_given = 1;
    if (field == &problem->batch || field == &problem->q_heads || field == &problem->q_length ||
        field == &problem->head_dim)
        arguments->shape_size_given = 1;
    return cli_set_rows(arguments, field, text, complaint);
}

bool cli_set_threads(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    int64_t value;
    if (!parse_integer(text, 1, 65536, &value))
        return complain(complaint, text, "a number of threads, 1 to 65536");
    *(int32_t *)field = (int32_t)value;
    return true;
}

bool cli_set_unsigned(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return complain(complaint, text, "a whole number, 0 to 2^64 - 1");
    *(uint64_t *)field = value;
    return true;
}

bool cli_set_float(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end != '\0')
        return complain(complaint, text, "a number");
    *(float *)field = value;
    return true;
}

bool cli_set_seconds(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value <= 86400))
        return complain(complaint, text, "a number of seconds, above 0 and up to 86400");
    *(double *)field = value;
    return true;
}

fc_type cli_type_by_name(const char *name)
{
    for (fc_type type = FC_F32; type <= FC_F64; type++) {
        if (strcmp(name, fc_type_name(type)) == 0)
            return type;
    }
    return FC_TYPE_AUTO;
}

bool cli_set_type(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments;
    *(fc_type *)field = cli_type_by_name(text);
    if (*(fc_type *)field != FC_TYPE_AUTO)
        return true;
    int length = snprintf(complaint, CLI_COMPLAINT_BYTES, "'%.40s' is none of", text);
    for (fc_type type = FC_F32; type <= FC_F64; type++)
        length += snprintf(complaint + length, (size_t)(CLI_COMPLAINT_BYTES - length), " %s",
                           fc_type_name(type));
    return false;
}

bool cli_set_shape(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)field;
    int64_t sizes[4];
    if (!parse_list(text, 1, INT32_MAX, sizes, 4))
        return complain(complaint, text, "four numbers B,H,S,D such as 1,8,512,64");
    if (arguments->shape_count == CLI_MOST_SHAPES)
        return complain(complaint, text, "one of the first 32 shapes; more are not taken");
    const cli_shape shape = {text, sizes[0], sizes[1], sizes[2], sizes[3]};
    arguments->shapes[arguments->shape_count++] = shape;
    cli_use_shape(arguments, &shape);
    arguments->problem_given = 1;
    return true;
}

bool cli_set_window(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)field;
    int64_t sides[2];
    if (!parse_list(text, -1, INT32_MAX, sides, 2))
        return complain(complaint, text, "two numbers LEFT,RIGHT such as 128,0 (-1: no limit)");
    arguments->problem.has_window = 1;
    arguments->problem.window_left = sides[0];
    arguments->problem.window_right = sides[1];
    return true;
}

bool cli_set_top_left(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)field, (void)text, (void)complaint;
    arguments->problem.diagonal = FC_TOP_LEFT;
    return true;
}

/* Which choices there are is in the table; the parser has checked. */
bool cli_set_layout(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)arguments, (void)complaint;
    *(cli_layout *)field = strcmp(text, "bshd") == 0 ? CLI_BSHD : CLI_BHSD;
    return true;
}

bool cli_set_backend(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    *(fc_device_type *)field = strcmp(text, "cpu") == 0 ? FC_CPU : FC_CUDA;
    arguments->emulated = strcmp(text, "emu") == 0;
    return !arguments->emulated || cli_use_emulator(complaint);
}

bool cli_set_with(cli_arguments *arguments, void *field, const char *text, char *complaint)
{
    (void)field;
    fc_attention *problem = &arguments->problem;
    const struct {
        const char *name;
        int32_t *switches[2];
    } inputs[] = {
        {"alibi", {&problem->has_alibi}},
        {"bias", {&problem->has_bias}},
        {"mask", {&problem->has_mask}},
        {"sinks", {&problem->has_sinks}},
        {"kv-lengths", {&problem->has_kv_lengths}},
        {"packed", {&problem->packed_q, &problem->packed_kv}},
        {"paged", {&problem->paged, &problem->has_kv_lengths}},
    };
    size_t input_count = sizeof inputs / sizeof inputs[0];
    while (*text != '\0') {
        size_t length = strcspn(text, ","), index = 0;
        while (index < input_count && (strlen(inputs[index].name) != length ||
                                       strncmp(inputs[index].name, text, length) != 0))
            index++;
        if (index == input_count)
            return complain(complaint, text,
                            "a list of alibi, bias, mask, sinks, kv-lengths, packed, paged");
        for (int which = 0; which < 2 && inputs[index].switches[which] != NULL; which++)
            *inputs[index].switches[which] = 1;
        text += length + (text[length] == ',' ? 1 : 0);
    }
    return true;
}
