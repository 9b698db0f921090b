/* extras.c: the shapes of the inputs besides q, k and v. */
#include "output.h"
#include "shapes.h"

#include <inttypes.h>

/* Right-aligned to [batch][head][row][key], as NumPy broadcasts; an extent of 1 repeats. The keys
 * themselves never repeat. */
static bool set_broadcast(const cli_inputs *inputs, int input, const fc_attention *problem,
                          fc_broadcast *strides)
{
    const npy_array *array = &inputs->arrays[input];
    const int64_t sizes[4] = {problem->batch, problem->q_heads, problem->q_length,
                              problem->kv_length};
    int64_t *const fields[4] = {&strides->batch, &strides->head, &strides->row, &strides->key};
    int64_t stride = 1;
    bool fits = array->dims >= 1 && array->dims <= 4;
    for (int axis = 3; fits && axis >= 4 - array->dims; axis--) {
        int64_t extent = array->shape[axis - (4 - array->dims)];
        fits = extent == sizes[axis] || (extent == 1 && axis < 3);
        *fields[axis] = extent > 1 ? stride : 0;
        stride *= extent;
    }
    char expected[160];
    snprintf(expected, sizeof expected,
             "(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
             "), where all but the last may be 1 or left out",
             sizes[0], sizes[1], sizes[2], sizes[3]);
    return fits || cli_wrong_shape(inputs, input, expected);
}

static bool set_alibi(const cli_inputs *inputs, fc_attention *problem)
{
    const npy_array *array = &inputs->arrays[CLI_ALIBI];
    bool per_batch = array->dims == 2;
    bool fits = (array->dims == 1 || (per_batch && array->shape[0] == problem->batch)) &&
                array->shape[array->dims - 1] == problem->q_heads;
    problem->alibi_batch_stride = per_batch ? problem->q_heads : 0;
    char expected[96];
    snprintf(expected, sizeof expected, "(%" PRId64 ",) or (%" PRId64 ", %" PRId64 ")",
             problem->q_heads, problem->batch, problem->q_heads);
    return fits || cli_wrong_shape(inputs, CLI_ALIBI, expected);
}

static bool require_vector(const cli_inputs *inputs, int input, int64_t length, const char *what)
{
    const npy_array *array = &inputs->arrays[input];
    char expected[96];
    snprintf(expected, sizeof expected, "(%" PRId64 ",), one per %s", length, what);
    return (array->dims == 1 && array->shape[0] == length) ||
           cli_wrong_shape(inputs, input, expected);
}

typedef struct scaled_tensor {
    int input;
    int64_t heads;
    int64_t longest; /* rows of the longest sequence */
    fc_scaling *scaling;
} scaled_tensor;

/* One number, [head], [batch][head]; with blocks one more axis at the end. */
static bool set_scaling(const cli_inputs *inputs, const scaled_tensor *tensor, int64_t batch,
                        int64_t block_rows)
{
    const npy_array *array = &inputs->arrays[tensor->input];
    bool blocked = block_rows > 0;
    int64_t needed = blocked ? (tensor->longest + block_rows - 1) / block_rows : 1;
    int leading = array->dims - (blocked ? 1 : 0);
    int64_t blocks = blocked && array->dims > 0 ? array->shape[array->dims - 1] : 1;
    bool one_number = leading == 0 || (!blocked && npy_count(array) == 1);
    bool fits = leading >= 0 && leading <= 2 && blocks >= needed;
    if (fits && !one_number) {
        fits = array->shape[leading - 1] == tensor->heads &&
               (leading == 1 || array->shape[0] == batch);
        tensor->scaling->head = blocks;
        tensor->scaling->batch = leading == 2 ? tensor->heads * blocks : 0;
    }
    if (blocked) {
        tensor->scaling->block = 1;
        tensor->scaling->block_rows = block_rows;
    }
    char expected[160], last[48] = "";
    if (blocked)
        snprintf(last, sizeof last, ", each followed by %" PRId64 " blocks", needed);
    snprintf(expected, sizeof expected,
             "one number, (%" PRId64 ",) or (%" PRId64 ", %" PRId64 ")%s", tensor->heads, batch,
             tensor->heads, last);
    return fits || cli_wrong_shape(inputs, tensor->input, expected);
}

static bool set_scalings(const cli_inputs *inputs, int64_t block_rows, fc_attention *problem)
{
    const scaled_tensor tensors[] = {
        {CLI_Q_SCALE, problem->q_heads, problem->q_length, &problem->q_scaling},
        {CLI_K_SCALE, problem->kv_heads, problem->kv_length, &problem->k_scaling},
        {CLI_V_SCALE, problem->kv_heads, problem->kv_length, &problem->v_scaling},
    };
    for (size_t index = 0; index < sizeof tensors / sizeof tensors[0]; index++) {
        if (inputs->paths[tensors[index].input] != NULL &&
            !set_scaling(inputs, &tensors[index], problem->batch, block_rows))
            return false;
    }
    return true;
}

bool cli_set_extras(const cli_inputs *inputs, int64_t scale_rows, fc_attention *problem)
{
    problem->has_bias = inputs->paths[CLI_BIAS] != NULL;
    problem->has_mask = inputs->paths[CLI_MASK] != NULL;
    problem->has_alibi = inputs->paths[CLI_ALIBI] != NULL;
    problem->has_sinks = inputs->paths[CLI_SINKS] != NULL;
    problem->has_kv_lengths = inputs->paths[CLI_KV_LENGTHS] != NULL;
    problem->bias_type = inputs->types[CLI_BIAS];
    if (problem->has_bias && !set_broadcast(inputs, CLI_BIAS, problem, &problem->bias_strides))
        return false;
    if (problem->has_mask && !set_broadcast(inputs, CLI_MASK, problem, &problem->mask_strides))
        return false;
    if (problem->has_alibi && !set_alibi(inputs, problem))
        return false;
    if (problem->has_sinks && !require_vector(inputs, CLI_SINKS, problem->q_heads, "query head"))
        return false;
    if (problem->has_kv_lengths &&
        !require_vector(inputs, CLI_KV_LENGTHS, problem->batch, "sequence"))
        return false;
    return set_scalings(inputs, scale_rows, problem);
}
