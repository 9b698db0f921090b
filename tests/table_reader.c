#include "table_reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- Words ----------------------------------------------------------------------------------- */

void reader_stop(const reader *from, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", from->path);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (after the word '%s')\n", from->word);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

bool reader_next_word(reader *from)
{
    return fscanf(from->file, "%63s", from->word) == 1;
}

const char *reader_word(reader *from)
{
    if (!reader_next_word(from))
        reader_stop(from, "ends in the middle of a case");
    return from->word;
}

static double number_of(const reader *from)
{
    char *end;
    double value = strtod(from->word, &end);
    if (*end != '\0')
        reader_stop(from, "a number was expected");
    return value;
}

double reader_number(reader *from)
{
    reader_word(from);
    return number_of(from);
}

double reader_number_or_dot(reader *from)
{
    return strcmp(reader_word(from), ".") == 0 ? (double)NAN : number_of(from);
}

int64_t reader_integer(reader *from)
{
    return (int64_t)reader_number(from);
}

uint64_t reader_u64(reader *from)
{
    return strtoull(reader_word(from), NULL, 10);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

typedef enum field_kind {
    FIELD_I64,
    FIELD_I32,
    FIELD_FLOAT,
    FIELD_TYPE,
    FIELD_STRIDES, /* four int64_t, as are the next two */
    FIELD_BROADCAST,
    FIELD_SCALING
} field_kind;

static const struct {
    const char *name;
    size_t offset;
    field_kind kind;
} fields[] = {
#define AT(name) #name, offsetof(fc_attention, name)
    {AT(batch), FIELD_I64},
    {AT(q_heads), FIELD_I64},
    {AT(kv_heads), FIELD_I64},
    {AT(q_length), FIELD_I64},
    {AT(kv_length), FIELD_I64},
    {AT(head_dim), FIELD_I64},
    {AT(value_dim), FIELD_I64},
    {AT(q_strides), FIELD_STRIDES},
    {AT(k_strides), FIELD_STRIDES},
    {AT(v_strides), FIELD_STRIDES},
    {AT(out_strides), FIELD_STRIDES},
    {AT(lse_strides), FIELD_STRIDES},
    {AT(dout_strides), FIELD_STRIDES},
    {AT(dq_strides), FIELD_STRIDES},
    {AT(dk_strides), FIELD_STRIDES},
    {AT(dv_strides), FIELD_STRIDES},
    {AT(packed_q_rows), FIELD_I64},
    {AT(packed_kv_rows), FIELD_I64},
    {AT(page_size), FIELD_I64},
    {AT(page_count), FIELD_I64},
    {AT(page_table_stride), FIELD_I64},
    {AT(window_left), FIELD_I64},
    {AT(window_right), FIELD_I64},
    {AT(alibi_batch_stride), FIELD_I64},
    {AT(bias_strides), FIELD_BROADCAST},
    {AT(mask_strides), FIELD_BROADCAST},
    {AT(q_scaling), FIELD_SCALING},
    {AT(k_scaling), FIELD_SCALING},
    {AT(v_scaling), FIELD_SCALING},
    {AT(q_type), FIELD_TYPE},
    {AT(kv_type), FIELD_TYPE},
    {AT(out_type), FIELD_TYPE},
    {AT(bias_type), FIELD_TYPE},
    {AT(scale), FIELD_FLOAT},
    {AT(softcap), FIELD_FLOAT},
    {AT(dropout_p), FIELD_FLOAT},
    {AT(causal), FIELD_I32},
    {AT(diagonal), FIELD_I32},
    {AT(has_window), FIELD_I32},
    {AT(has_alibi), FIELD_I32},
    {AT(has_bias), FIELD_I32},
    {AT(has_mask), FIELD_I32},
    {AT(has_sinks), FIELD_I32},
    {AT(has_kv_lengths), FIELD_I32},
    {AT(packed_q), FIELD_I32},
    {AT(packed_kv), FIELD_I32},
    {AT(paged), FIELD_I32},
};

static fc_type read_type(reader *from)
{
    static const char *const names[] = {
        [FC_F32] = "f32",         [FC_F16] = "f16",         [FC_BF16] = "bf16",
        [FC_F8_E4M3] = "f8_e4m3", [FC_F8_E5M2] = "f8_e5m2", [FC_F64] = "f64",
    };
    reader_word(from);
    for (fc_type type = FC_F32; type <= FC_F64; type++)
        if (strcmp(from->word, names[type]) == 0)
            return type;
    reader_stop(from, "an element type was expected");
}

/* One of the four members of a struct: `axis` is what follows the dot. */
static void read_member(reader *from, int64_t *members, field_kind kind, const char *axis)
{
    static const char *const axes[][4] = {
        [FIELD_STRIDES] = {"batch", "head", "row", "dim"},
        [FIELD_BROADCAST] = {"batch", "head", "row", "key"},
        [FIELD_SCALING] = {"batch", "head", "block", "block_rows"},
    };
    for (int i = 0; i < 4; i++) {
        if (strcmp(axis, axes[kind][i]) == 0) {
            members[i] = reader_integer(from);
            return;
        }
    }
    reader_stop(from, "no such member");
}

static void read_scalar(reader *from, void *place, field_kind kind)
{
    if (kind == FIELD_I64)
        *(int64_t *)place = reader_integer(from);
    else if (kind == FIELD_I32)
        *(int32_t *)place = (int32_t)reader_integer(from);
    else if (kind == FIELD_FLOAT)
        *(float *)place = (float)reader_number(from);
    else
        *(fc_type *)place = read_type(from);
}

void reader_field(reader *from, fc_attention *problem)
{
    size_t length = strcspn(from->word, ".");
    const char *axis = from->word[length] == '.' ? from->word + length + 1 : NULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strlen(fields[i].name) != length || memcmp(fields[i].name, from->word, length) != 0)
            continue;
        void *place = (char *)problem + fields[i].offset;
        if ((axis != NULL) != (fields[i].kind >= FIELD_STRIDES))
            reader_stop(from, "a member is named by a dot, and only a member");
        if (axis != NULL)
            read_member(from, place, fields[i].kind, axis);
        else
            read_scalar(from, place, fields[i].kind);
        return;
    }
    reader_stop(from, "no such field");
}
