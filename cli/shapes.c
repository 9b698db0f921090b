/* shapes.c: the problem that the shapes of q, k and v stand for. */
#include "shapes.h"
#include "inputs.h"
#include "output.h"
#include "problem.h"

#include <inttypes.h>

typedef struct tensor_axes {
    int64_t batch; /* pages of a paged tensor; 1 of a packed one */
    int64_t heads;
    int64_t rows;
    int64_t dim;
} tensor_axes;

enum { SHAPE_TEXT_BYTES = 200 };

/* "(1, 8, 512, 64)" */
static const char *shape_text(const npy_array *array, char text[SHAPE_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, SHAPE_TEXT_BYTES, "(");
    for (int axis = 0; axis < array->dims; axis++)
        used += (size_t)snprintf(text + used, SHAPE_TEXT_BYTES - used, "%s%" PRId64,
                                 axis > 0 ? ", " : "", array->shape[axis]);
    snprintf(text + used, SHAPE_TEXT_BYTES - used, array->dims == 1 ? ",)" : ")");
    return text;
}

bool cli_wrong_shape(const cli_inputs *inputs, int input, const char *expected)
{
    char text[SHAPE_TEXT_BYTES];
    return cli_refuse("%s has shape %s; expected %s", inputs->paths[input],
                      shape_text(&inputs->arrays[input], text), expected);
}

static bool require_equal(const cli_inputs *inputs, int input, const char *axis, int64_t found,
                          int64_t expected, const char *source)
{
    char text[SHAPE_TEXT_BYTES];
    return found == expected ||
           cli_refuse("%s has shape %s, with %s %" PRId64 "; expected %" PRId64 " as in %s",
                      inputs->paths[input], shape_text(&inputs->arrays[input], text), axis, found,
                      expected, source);
}

/* Axes that a file leaves out at the front have extent 1: a matrix is one head of one sequence. */
static bool batched_axes(const cli_inputs *inputs, int input, cli_layout layout, tensor_axes *axes)
{
    const npy_array *array = &inputs->arrays[input];
    if (array->dims < 2 || array->dims > 4)
        return cli_wrong_shape(inputs, input,
                               layout == CLI_BSHD ? "(batch, rows, heads, dim)"
                                                  : "(batch, heads, rows, dim)");
    bool is_matrix = array->dims == 2;
    int64_t second = is_matrix ? 1 : array->shape[array->dims - 3];
    int64_t third = array->shape[array->dims - 2];
    bool rows_first = layout == CLI_BSHD && !is_matrix;
    axes->batch = array->dims == 4 ? array->shape[0] : 1;
    axes->heads = rows_first ? third : second;
    axes->rows = rows_first ? second : third;
    axes->dim = array->shape[array->dims - 1];
    return true;
}

static bool packed_axes(const cli_inputs *inputs, int input, tensor_axes *axes)
{
    const npy_array *array = &inputs->arrays[input];
    if (array->dims != 3)
        return cli_wrong_shape(inputs, input, "(rows, heads, dim), for packed sequences");
    *axes = (tensor_axes){1, array->shape[1], array->shape[0], array->shape[2]};
    return true;
}

static bool paged_axes(const cli_inputs *inputs, int input, tensor_axes *axes)
{
    const npy_array *array = &inputs->arrays[input];
    if (array->dims != 4)
        return cli_wrong_shape(inputs, input,
                               "(pages, rows, heads, dim), for paged keys and values");
    *axes = (tensor_axes){array->shape[0], array->shape[2], array->shape[1], array->shape[3]};
    return true;
}

static bool kv_axes(const cli_inputs *inputs, const fc_attention *problem, int input,
                    cli_layout layout, tensor_axes *axes)
{
    if (problem->packed_kv)
        return packed_axes(inputs, input, axes);
    if (problem->paged)
        return paged_axes(inputs, input, axes);
    return batched_axes(inputs, input, layout, axes);
}

/* cu_q or cu_kv: the number of sequences and the longest of them. */
static bool read_cumulative(const cli_inputs *inputs, int input, int64_t *batch, int64_t *longest)
{
    const npy_array *array = &inputs->arrays[input];
    if (array->dims != 1 || array->shape[0] < 1)
        return cli_wrong_shape(inputs, input, "(batch + 1,)");
    const int32_t *first_rows = array->data;
    *batch = array->shape[0] - 1;
    *longest = 0;
    for (int64_t b = 0; b < *batch; b++) {
        int64_t length = (int64_t)first_rows[b + 1] - first_rows[b];
        *longest = length > *longest ? length : *longest;
    }
    return true;
}

static bool set_q(const cli_inputs *inputs, cli_layout layout, fc_attention *problem)
{
    tensor_axes q = {0};
    bool packed = problem->packed_q;
    if (!(packed ? packed_axes(inputs, CLI_Q, &q) : batched_axes(inputs, CLI_Q, layout, &q)))
        return false;
    problem->q_heads = q.heads;
    problem->head_dim = q.dim;
    if (packed) {
        problem->packed_q_rows = q.rows;
        return read_cumulative(inputs, CLI_CU_Q, &problem->batch, &problem->q_length);
    }
    problem->batch = q.batch;
    problem->q_length = q.rows;
    return true;
}

static bool set_page_table(const cli_inputs *inputs, const tensor_axes *k, fc_attention *problem)
{
    const npy_array *pages = &inputs->arrays[CLI_PAGE_TABLE];
    if (pages->dims != 2)
        return cli_wrong_shape(inputs, CLI_PAGE_TABLE, "(batch, pages)");
    problem->page_count = k->batch;
    problem->page_size = k->rows;
    problem->page_table_stride = pages->shape[1];
    problem->kv_length = cli_product(pages->shape[1], k->rows);
    return require_equal(inputs, CLI_PAGE_TABLE, "batch", pages->shape[0], problem->batch,
                         problem->packed_q ? inputs->paths[CLI_CU_Q] : inputs->paths[CLI_Q]);
}

static bool set_kv_lengths(const cli_inputs *inputs, const tensor_axes *k, fc_attention *problem)
{
    if (problem->paged)
        return set_page_table(inputs, k, problem);
    const char *batch_source = inputs->paths[problem->packed_q ? CLI_CU_Q : CLI_Q];
    problem->kv_length = k->rows;
    if (!problem->packed_kv)
        return require_equal(inputs, CLI_K, "batch", k->batch, problem->batch, batch_source);
    int64_t batch = 0;
    problem->packed_kv_rows = k->rows;
    return read_cumulative(inputs, CLI_CU_KV, &batch, &problem->kv_length) &&
           require_equal(inputs, CLI_CU_KV, "batch", batch, problem->batch, batch_source);
}

static bool set_kv(const cli_inputs *inputs, cli_layout layout, fc_attention *problem)
{
    tensor_axes k = {0}, v = {0};
    const char *q_path = inputs->paths[CLI_Q], *k_path = inputs->paths[CLI_K];
    if (!kv_axes(inputs, problem, CLI_K, layout, &k) ||
        !kv_axes(inputs, problem, CLI_V, layout, &v))
        return false;
    if (v.dim == 0) /* the library would take 0 for the head dimension */
        return cli_wrong_shape(inputs, CLI_V, "at least 1 element in a value");
    problem->kv_heads = k.heads;
    problem->value_dim = v.dim;
    return require_equal(inputs, CLI_K, "dim", k.dim, problem->head_dim, q_path) &&
           require_equal(inputs, CLI_V, problem->paged ? "pages" : "batch", v.batch, k.batch,
                         k_path) &&
           require_equal(inputs, CLI_V, "heads", v.heads, k.heads, k_path) &&
           require_equal(inputs, CLI_V, "rows", v.rows, k.rows, k_path) &&
           set_kv_lengths(inputs, &k, problem);
}

bool cli_inputs_problem(const cli_arguments *arguments, const cli_inputs *inputs,
                        fc_attention *problem)
{
    *problem = arguments->problem;
    problem->q_type = inputs->types[CLI_Q];
    problem->kv_type = inputs->types[CLI_K];
    problem->packed_q = inputs->paths[CLI_CU_Q] != NULL;
    problem->packed_kv = inputs->paths[CLI_CU_KV] != NULL;
    problem->paged = inputs->paths[CLI_PAGE_TABLE] != NULL;
    if (!set_q(inputs, arguments->layout, problem) || !set_kv(inputs, arguments->layout, problem) ||
        !cli_set_extras(inputs, arguments->scale_rows, problem))
        return false;
    if (arguments->layout == CLI_BSHD)
        cli_use_row_major(problem);
    return true;
}
