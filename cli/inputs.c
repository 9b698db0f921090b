/* inputs.c: finding and reading the files of `run`. */
#include "inputs.h"
#include "core/convert.h"
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 1. Files. */

static char *find_path(const cli_arguments *arguments, int input)
{
    if (arguments->inputs[input] != NULL)
        return cli_format("%s", arguments->inputs[input]);
    if (arguments->operand == NULL)
        return NULL;
    char *path = cli_format("%s/%s.npy", arguments->operand, cli_input_names[input]);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static bool read_input(cli_inputs *inputs, int input)
{
    char error[NPY_ERROR_BYTES];
    const char *path = inputs->paths[input];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return cli_refuse("cannot read %s: %s", path, strerror(errno));
    bool ok = npy_read(file, &inputs->arrays[input], error);
    fclose(file);
    return ok || cli_refuse("%s %s", path, error);
}

static bool read_all(const cli_arguments *arguments, cli_inputs *inputs)
{
    for (int input = 0; input < CLI_INPUT_COUNT; input++) {
        inputs->paths[input] = find_path(arguments, input);
        if (inputs->paths[input] == NULL && input <= CLI_V) {
            const char *name = cli_input_names[input];
            if (arguments->operand != NULL)
                return cli_refuse("there is no %s/%s.npy; give --%s FILE or another directory",
                                  arguments->operand, name, name);
            return cli_refuse("--%s FILE is missing (or a directory that holds %s.npy)", name,
                              name);
        }
        if (inputs->paths[input] != NULL && !read_input(inputs, input))
            return false;
    }
    return true;
}

/* 2. Floating-point elements. */

static fc_type native_type(const npy_array *array)
{
    if (array->kind != 'f')
        return FC_TYPE_AUTO;
    switch (array->item_bytes) {
    case 2: return FC_F16;
    case 4: return FC_F32;
    case 8: return FC_F64;
    default: return FC_TYPE_AUTO;
    }
}

/* Types that NumPy has no name for come as unsigned integers or as raw bytes; some packages call
 * FP8 f1. */
static bool is_raw(const npy_array *array)
{
    return array->kind == 'u' || array->kind == 'V' ||
           (array->kind == 'f' && array->item_bytes == 1);
}

static bool raw_type(const char *path, const npy_array *array, fc_type wanted, const char *flag,
                     fc_type *type)
{
    if (!is_raw(array) || array->item_bytes > 2)
        return cli_refuse("%s holds elements of type %c%zu; expected a floating-point type", path,
                          array->kind, array->item_bytes);
    const char *candidates = array->item_bytes == 2 ? "bf16" : "e4m3 or e5m2";
    if (wanted == FC_TYPE_AUTO)
        return cli_refuse("%s holds raw elements (%c%zu); say which type they are: --%s %s", path,
                          array->kind, array->item_bytes, flag, candidates);
    if (fc_type_bytes(wanted) != array->item_bytes)
        return cli_refuse("%s holds elements of %zu bytes, but --%s %s means %zu; try %s", path,
                          array->item_bytes, flag, fc_type_name(wanted), fc_type_bytes(wanted),
                          candidates);
    *type = wanted;
    return true;
}

static bool find_type(cli_inputs *inputs, int input, fc_type wanted, const char *flag)
{
    const char *path = inputs->paths[input];
    const npy_array *array = &inputs->arrays[input];
    fc_type native = native_type(array);
    if (native == FC_TYPE_AUTO)
        return raw_type(path, array, wanted, flag, &inputs->types[input]);
    if (wanted != FC_TYPE_AUTO && wanted != native)
        return cli_refuse("%s holds %s, but --%s says %s; --convert changes the type of q, k, v",
                          path, fc_type_name(native), flag, fc_type_name(wanted));
    inputs->types[input] = native;
    return true;
}

static bool find_types(const fc_attention *flags, cli_inputs *inputs)
{
    bool kv_given = flags->kv_type != FC_TYPE_AUTO;
    fc_type kv_wanted = kv_given ? flags->kv_type : flags->q_type;
    const char *kv_flag = kv_given ? "kv-type" : "type";
    if (!find_type(inputs, CLI_Q, flags->q_type, "type") ||
        !find_type(inputs, CLI_K, kv_wanted, kv_flag) ||
        !find_type(inputs, CLI_V, kv_wanted, kv_flag))
        return false;
    if (inputs->types[CLI_K] != inputs->types[CLI_V])
        return cli_refuse("%s holds %s and %s holds %s; expected one type for both",
                          inputs->paths[CLI_K], fc_type_name(inputs->types[CLI_K]),
                          inputs->paths[CLI_V], fc_type_name(inputs->types[CLI_V]));
    return inputs->paths[CLI_BIAS] == NULL ||
           find_type(inputs, CLI_BIAS, flags->bias_type, "bias-type");
}

static void convert(cli_inputs *inputs, int input, fc_type target)
{
    npy_array *array = &inputs->arrays[input];
    int64_t count = npy_count(array);
    void *converted = cli_allocate((size_t)count * fc_type_bytes(target));
    for (int64_t index = 0; index < count; index++)
        fc_store(target, converted, index, fc_load(inputs->types[input], array->data, index));
    free(array->data);
    array->data = converted;
    array->item_bytes = fc_type_bytes(target);
    inputs->types[input] = target;
}

/* 3. The other inputs. */

/* NumPy's integers have 64 bits unless told otherwise; the library takes 32. */
static bool narrow_integers(cli_inputs *inputs, int input)
{
    npy_array *array = &inputs->arrays[input];
    bool is_32 = array->item_bytes == 4, is_64 = array->item_bytes == 8;
    if (array->kind != 'i' || (!is_32 && !is_64))
        return cli_refuse("%s holds elements of type %c%zu; expected int32 or int64",
                          inputs->paths[input], array->kind, array->item_bytes);
    if (is_32)
        return true;
    int64_t count = npy_count(array);
    int32_t *narrow = cli_allocate((size_t)count * sizeof *narrow);
    for (int64_t index = 0; index < count; index++) {
        int64_t value = ((const int64_t *)array->data)[index];
        narrow[index] = (int32_t)value;
        if (value < INT32_MIN || value > INT32_MAX) {
            free(narrow);
            return cli_refuse("%s holds %" PRId64 ", which does not fit into 32 bits",
                              inputs->paths[input], value);
        }
    }
    free(array->data);
    array->data = narrow;
    array->item_bytes = sizeof *narrow;
    return true;
}

static bool check_mask(const char *path, const npy_array *array)
{
    if (array->item_bytes != 1 || strchr("bu", array->kind) == NULL)
        return cli_refuse("%s holds elements of type %c%zu; expected bool", path, array->kind,
                          array->item_bytes);
    const uint8_t *shown = array->data;
    for (int64_t index = 0; index < npy_count(array); index++) {
        if (shown[index] > 1)
            return cli_refuse("%s holds a byte %d; expected 0 (hidden) or 1 (shown)", path,
                              shown[index]);
    }
    return true;
}

static bool check_other(cli_inputs *inputs, int input)
{
    switch (input) {
    case CLI_MASK: return check_mask(inputs->paths[input], &inputs->arrays[input]);
    case CLI_CU_Q:
    case CLI_CU_KV:
    case CLI_KV_LENGTHS:
    case CLI_PAGE_TABLE: return narrow_integers(inputs, input);
    default:
        return native_type(&inputs->arrays[input]) == FC_F32 ||
               cli_refuse("%s holds elements of type %c%zu; expected float32", inputs->paths[input],
                          inputs->arrays[input].kind, inputs->arrays[input].item_bytes);
    }
}

bool cli_inputs_load(const cli_arguments *arguments, cli_inputs *inputs)
{
    *inputs = (cli_inputs){0};
    if (!read_all(arguments, inputs) || !find_types(&arguments->problem, inputs))
        return false;
    for (int input = CLI_Q; input <= CLI_V && arguments->convert_to != FC_TYPE_AUTO; input++)
        convert(inputs, input, arguments->convert_to);
    for (int input = CLI_MASK; input < CLI_INPUT_COUNT; input++) {
        if (inputs->paths[input] != NULL && !check_other(inputs, input))
            return false;
    }
    return true;
}

void cli_inputs_free(cli_inputs *inputs)
{
    for (int input = 0; input < CLI_INPUT_COUNT; input++) {
        free(inputs->paths[input]);
        npy_free(&inputs->arrays[input]);
    }
}

fc_buffers cli_inputs_buffers(const cli_arguments *arguments, void *const data[CLI_INPUT_COUNT])
{
    fc_buffers buffers = fc_buffers_init();
    buffers.q = data[CLI_Q];
    buffers.k = data[CLI_K];
    buffers.v = data[CLI_V];
    buffers.q_scale = data[CLI_Q_SCALE];
    buffers.k_scale = data[CLI_K_SCALE];
    buffers.v_scale = data[CLI_V_SCALE];
    buffers.alibi = data[CLI_ALIBI];
    buffers.bias = data[CLI_BIAS];
    buffers.mask = data[CLI_MASK];
    buffers.sinks = data[CLI_SINKS];
    buffers.cu_q = data[CLI_CU_Q];
    buffers.cu_kv = data[CLI_CU_KV];
    buffers.kv_lengths = data[CLI_KV_LENGTHS];
    buffers.page_table = data[CLI_PAGE_TABLE];
    buffers.dropout_seed = arguments->dropout_seed;
    buffers.dropout_offset = arguments->dropout_offset;
    return buffers;
}
