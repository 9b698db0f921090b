/* problem.c: see problem.h. */
#include "problem.h"

#include <inttypes.h>
#include <stdio.h>

static void set_default(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

static void fill_sizes(fc_attention *problem)
{
    set_default(&problem->batch, 1);
    set_default(&problem->q_heads, 8);
    set_default(&problem->kv_heads, problem->q_heads);
    set_default(&problem->q_length, 512);
    set_default(&problem->kv_length, problem->q_length);
    set_default(&problem->head_dim, 64);
    set_default(&problem->value_dim, problem->head_dim);
    if (problem->q_type == FC_TYPE_AUTO)
        problem->q_type = FC_F16;
}

/* Sequences of equal length, one matrix of bias and mask for all, and just enough pages. */
static void fill_inputs(fc_attention *problem)
{
    if (problem->packed_q)
        problem->packed_q_rows = problem->batch * problem->q_length;
    if (problem->packed_kv)
        problem->packed_kv_rows = problem->batch * problem->kv_length;
    if (problem->paged) {
        set_default(&problem->page_size, 16);
        int64_t pages = (problem->kv_length + problem->page_size - 1) / problem->page_size;
        problem->page_count = problem->batch * pages;
    }
    if (problem->has_bias)
        problem->bias_strides.row = problem->kv_length;
    if (problem->has_mask)
        problem->mask_strides.row = problem->kv_length;
}

int64_t cli_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static fc_strides row_major_strides(int64_t heads, int64_t rows, int64_t dim)
{
    return (fc_strides){.batch = rows * heads * dim, .head = dim, .row = heads * dim, .dim = 1};
}

void cli_use_row_major(fc_attention *problem)
{
    if (!problem->packed_q) {
        problem->q_strides =
            row_major_strides(problem->q_heads, problem->q_length, problem->head_dim);
        problem->out_strides =
            row_major_strides(problem->q_heads, problem->q_length, problem->value_dim);
    }
    if (!problem->packed_kv && !problem->paged) {
        problem->k_strides =
            row_major_strides(problem->kv_heads, problem->kv_length, problem->head_dim);
        problem->v_strides =
            row_major_strides(problem->kv_heads, problem->kv_length, problem->value_dim);
    }
}

void cli_use_shape(cli_arguments *arguments, const cli_shape *shape)
{
    fc_attention *problem = &arguments->problem;
    problem->batch = shape->batch;
    problem->q_heads = shape->q_heads;
    problem->q_length = shape->q_length;
    problem->head_dim = shape->head_dim;
}

fc_attention cli_problem(const cli_arguments *arguments)
{
    fc_attention problem = arguments->problem;
    fill_sizes(&problem);
    fill_inputs(&problem);
    if (arguments->layout == CLI_BSHD)
        cli_use_row_major(&problem);
    return problem;
}

void cli_problem_text(const fc_attention *problem, char text[CLI_PROBLEM_TEXT_BYTES])
{
    FILE *stream = fmemopen(text, CLI_PROBLEM_TEXT_BYTES, "w");
    if (stream == NULL)
        return;
    fprintf(stream, "B=%" PRId64 " H=%" PRId64, problem->batch, problem->q_heads);
    if (problem->kv_heads != problem->q_heads)
        fprintf(stream, "/%" PRId64, problem->kv_heads);
    fprintf(stream, " S=%" PRId64, problem->q_length);
    if (problem->kv_length != problem->q_length)
        fprintf(stream, "/%" PRId64, problem->kv_length);
    fprintf(stream, " D=%" PRId64, problem->head_dim);
    if (problem->value_dim != 0 && problem->value_dim != problem->head_dim)
        fprintf(stream, "/%" PRId64, problem->value_dim);
    fprintf(stream, " %s", fc_type_name(problem->q_type));
    if (problem->kv_type != FC_TYPE_AUTO && problem->kv_type != problem->q_type)
        fprintf(stream, "/%s", fc_type_name(problem->kv_type));
    fputs(problem->causal ? " causal" : "", stream);
    if (problem->has_window)
        fprintf(stream, " window %" PRId64 ",%" PRId64, problem->window_left,
                problem->window_right);
    fputs(problem->softcap != 0 ? " softcap" : "", stream);
    fputs(problem->dropout_p != 0 ? " dropout" : "", stream);
    fputs(problem->has_alibi ? " alibi" : "", stream);
    fputs(problem->has_bias ? " bias" : "", stream);
    fputs(problem->has_mask ? " mask" : "", stream);
    fputs(problem->has_sinks ? " sinks" : "", stream);
    fputs(problem->packed_q || problem->packed_kv ? " packed" : "", stream);
    fputs(problem->paged ? " paged" : "", stream);
    fputs(problem->dependent_launch ? " dependent" : "", stream);
    fclose(stream);
}

void cli_problem_json(json_writer *json, const char *name, const fc_attention *problem)
{
    char text[CLI_PROBLEM_TEXT_BYTES] = "";
    cli_problem_text(problem, text);
    json_object(json, name);
    json_text(json, "text", text);
    json_integer(json, "batch", problem->batch);
    json_integer(json, "q_heads", problem->q_heads);
    json_integer(json, "kv_heads", problem->kv_heads);
    json_integer(json, "q_length", problem->q_length);
    json_integer(json, "kv_length", problem->kv_length);
    json_integer(json, "head_dim", problem->head_dim);
    json_integer(json, "value_dim",
                 problem->value_dim != 0 ? problem->value_dim : problem->head_dim);
    json_text(json, "type", fc_type_name(problem->q_type));
    json_boolean(json, "causal", problem->causal);
    json_end(json);
}
