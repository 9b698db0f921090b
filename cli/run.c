/* run.c: `flashcore run`: attention over .npy files. */
#include "bench.h"
#include "core/internal.h"
#include "device.h"
#include "inputs.h"
#include "memory.h"
#include "output.h"
#include "problem.h"
#include "verbs.h"

#include <stdlib.h>

typedef struct run_report {
    fc_context *context;
    fc_attention problem;
    const char *kernel;
    double seconds;
    const char *out_path;
    const char *lse_path; /* NULL: not written */
} run_report;

/* 1. Outputs, in the shape of q. */

static char npy_kind(fc_type type)
{
    return type == FC_BF16 ? 'V' : 'f'; /* raw bytes: NumPy has no bf16 */
}

static npy_array make_out(const fc_attention *problem, const npy_array *q)
{
    npy_array out = *q;
    out.kind = npy_kind(problem->out_type);
    out.item_bytes = fc_type_bytes(problem->out_type);
    out.shape[q->dims - 1] = problem->value_dim;
    out.data = cli_allocate((size_t)npy_count(&out) * out.item_bytes);
    return out;
}

/* [batch][head][row], of packed queries [head][row]; without the axes that q left out. */
static npy_array make_lse(const fc_attention *problem, const npy_array *q)
{
    const int64_t axes[3] = {problem->batch, problem->q_heads, problem->q_length};
    npy_array lse = {.kind = 'f', .item_bytes = sizeof(float), .dims = q->dims - 1};
    for (int axis = 0; axis < lse.dims; axis++)
        lse.shape[axis] = axes[axis + 3 - lse.dims];
    if (problem->packed_q)
        lse.shape[1] = problem->packed_q_rows;
    lse.data = cli_allocate((size_t)npy_count(&lse) * lse.item_bytes);
    return lse;
}

/* Both are complete on disk before either takes its name. */
static bool write_outputs(const run_report *report, const npy_array *out, const npy_array *lse)
{
    cli_output out_file = {0}, lse_file = {0};
    bool wants_lse = report->lse_path != NULL;
    bool ok = cli_output_open(&out_file, report->out_path) &&
              (!wants_lse || cli_output_open(&lse_file, report->lse_path));
    if (ok) {
        npy_write(out_file.file, out);
        if (wants_lse)
            npy_write(lse_file.file, lse);
        ok = cli_output_finish(&out_file) && (!wants_lse || cli_output_finish(&lse_file));
    }
    ok = ok && cli_output_commit(&out_file) && (!wants_lse || cli_output_commit(&lse_file));
    cli_output_discard(&out_file);
    cli_output_discard(&lse_file);
    return ok;
}

/* 2. The call, on arrays in the device's own memory. */

enum { OUT = CLI_INPUT_COUNT, LSE, WORKSPACE, PLACE_COUNT };

typedef struct run_memory {
    lab_memory device;
    void *places[PLACE_COUNT]; /* NULL: not there */
} run_memory;

static bool make_place(run_memory *memory, int place, size_t bytes)
{
    memory->places[place] = memory->device.allocate(memory->device.user, bytes ? bytes : 1);
    return memory->places[place] != NULL ||
           cli_refuse("no memory for %zu bytes on the device", bytes);
}

static size_t array_bytes(const npy_array *array)
{
    return (size_t)npy_count(array) * array->item_bytes;
}

static bool upload_inputs(run_memory *memory, const cli_inputs *inputs)
{
    for (int input = 0; input < CLI_INPUT_COUNT; input++) {
        const npy_array *array = &inputs->arrays[input];
        if (array->data == NULL)
            continue;
        if (!make_place(memory, input, array_bytes(array)))
            return false;
        if (memory->device.upload(memory->device.user, memory->places[input], array->data,
                                  array_bytes(array)) != FC_OK)
            return cli_refuse("%s", fc_last_error());
    }
    return true;
}

/* Waits for the call, on a GPU too. */
static bool download(const run_memory *memory, int place, npy_array *array)
{
    return memory->places[place] == NULL ||
           memory->device.download(memory->device.user, array->data, memory->places[place],
                                   array_bytes(array)) == FC_OK ||
           cli_refuse("%s", fc_last_error());
}

static void release_places(run_memory *memory)
{
    for (int place = 0; place < PLACE_COUNT; place++)
        if (memory->places[place] != NULL)
            memory->device.release(memory->device.user, memory->places[place]);
}

static bool forward(const fc_plan *plan, const fc_buffers *buffers, run_memory *memory,
                    npy_array *out, npy_array *lse, double *seconds)
{
    double start = bench_now();
    if (fc_plan_forward(plan, buffers, NULL) != FC_OK)
        return cli_refuse("%s", fc_last_error());
    bool ok = download(memory, OUT, out) && download(memory, LSE, lse);
    *seconds = bench_now() - start;
    return ok;
}

static bool run_plan(const cli_arguments *arguments, const cli_inputs *inputs, const fc_plan *plan,
                     npy_array *out, npy_array *lse, run_report *report)
{
    size_t workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    run_memory memory = {.device = lab_memory_of(report->context)};
    bool ok = upload_inputs(&memory, inputs) && make_place(&memory, OUT, array_bytes(out)) &&
              (report->lse_path == NULL || make_place(&memory, LSE, array_bytes(lse))) &&
              (workspace_bytes == 0 || make_place(&memory, WORKSPACE, workspace_bytes));
    if (ok) {
        fc_buffers buffers = cli_inputs_buffers(arguments, memory.places);
        buffers.out = memory.places[OUT];
        buffers.lse = memory.places[LSE];
        buffers.workspace = memory.places[WORKSPACE];
        buffers.workspace_bytes = workspace_bytes;
        ok = forward(plan, &buffers, &memory, out, lse, &report->seconds);
    }
    release_places(&memory);
    return ok;
}

/* The plan comes first: what it accepts has sizes that fit into memory, and its problem has every
 * default filled in. */
static bool compute(const cli_arguments *arguments, const cli_inputs *inputs, run_report *report)
{
    fc_plan *plan = NULL;
    if (fc_plan_create(report->context, &report->problem, &plan) != FC_OK)
        return cli_refuse("%s", fc_last_error());
    const npy_array *q = &inputs->arrays[CLI_Q];
    npy_array out = make_out(&plan->problem, q), lse = make_lse(&plan->problem, q);
    report->kernel = fc_plan_kernel(plan, FC_FORWARD);
    bool ok =
        run_plan(arguments, inputs, plan, &out, &lse, report) && write_outputs(report, &out, &lse);
    npy_free(&out);
    npy_free(&lse);
    fc_plan_destroy(plan);
    return ok;
}

/* 3. What was done. */

static void write_json(json_writer *json, const void *data)
{
    const run_report *report = data;
    json_object(json, NULL);
    json_text(json, "device", fc_context_device(report->context));
    json_text(json, "kernel", report->kernel);
    cli_problem_json(json, "problem", &report->problem);
    json_number(json, "seconds", report->seconds);
    json_text(json, "out", report->out_path);
    json_text(json, "lse", report->lse_path);
    json_end(json);
}

static void print_text(const run_report *report)
{
    char text[CLI_PROBLEM_TEXT_BYTES] = "";
    cli_problem_text(&report->problem, text);
    printf("%s: %s on %s, %.3g ms; wrote %s%s%s\n", text, report->kernel,
           fc_context_device(report->context), report->seconds * 1e3, report->out_path,
           report->lse_path != NULL ? " and " : "",
           report->lse_path != NULL ? report->lse_path : "");
}

int cli_run(const cli_arguments *arguments)
{
    cli_inputs inputs;
    const char *directory = arguments->operand != NULL ? arguments->operand : ".";
    char *default_path = cli_format("%s/out.npy", directory);
    run_report report = {
        .out_path = arguments->out_path != NULL ? arguments->out_path : default_path,
        .lse_path = arguments->lse_path,
    };
    bool ok = cli_inputs_load(arguments, &inputs) &&
              cli_inputs_problem(arguments, &inputs, &report.problem) &&
              (report.context = cli_create_context(&arguments->context)) != NULL &&
              compute(arguments, &inputs, &report);
    if (ok && cli_wants_text(arguments))
        print_text(&report);
    ok = ok && cli_write_json(arguments, write_json, &report);
    fc_context_destroy(report.context);
    cli_inputs_free(&inputs);
    free(default_path);
    return ok ? CLI_OK : CLI_FAILED;
}
