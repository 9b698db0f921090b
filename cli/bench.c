/* bench.c: `flashcore bench`: whole calls, timed after their result was right. */
#include "core/internal.h"
#include "device.h"
#include "gpu_state.h"
#include "interrupt.h"
#include "measure.h"
#include "output.h"
#include "problem.h"
#include "roof.h"
#include "rows.h"
#include "table.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

static const double default_seconds = 2;

typedef struct bench_shape {
    const char *name;
    int64_t batch, q_heads, kv_heads, q_length, kv_length, head_dim;
    int32_t causal;
    int32_t is_mission;
} bench_shape;

/* In the order of their work, so that a slow kernel's time on one tells whether to try the next. */
static const bench_shape shapes[] = {
    {"decode", 8, 32, 8, 1, 2048, 128, 0, 0},
    {"mission-2", 2, 8, 8, 256, 256, 64, 0, 1},
    {"mission", 1, 8, 8, 512, 512, 64, 0, 1},
    {"chunk", 1, 16, 4, 64, 2048, 128, 1, 0},
    {"prefill-1k", 1, 16, 16, 1024, 1024, 64, 1, 0},
    {"prefill-2k", 1, 16, 4, 2048, 2048, 128, 1, 0},
    {"prefill-4k", 1, 32, 8, 4096, 4096, 128, 1, 0},
};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };
_Static_assert((int)SHAPE_COUNT <= (int)CLI_MOST_SHAPES, "a report has no room for the set");

typedef struct bench_row {
    const char *name;
    cli_measurement measurement;
} bench_row;

typedef struct bench_report {
    fc_context *context;
    fc_direction direction;
    bool without_lse;
    double seconds;
    cli_roof roof; /* measured after the rows, when the clocks are warm */
    gpu_state before, after;
    size_t count;
    bench_row rows[CLI_MOST_SHAPES];
} bench_report;

static fc_attention shape_problem(const cli_arguments *arguments, const bench_shape *shape)
{
    cli_arguments sized = *arguments;
    sized.problem.batch = shape->batch;
    sized.problem.q_heads = shape->q_heads;
    sized.problem.kv_heads = shape->kv_heads;
    sized.problem.q_length = shape->q_length;
    sized.problem.kv_length = shape->kv_length;
    sized.problem.head_dim = shape->head_dim;
    sized.problem.causal |= shape->causal;
    return cli_problem(&sized);
}

/* Seconds of a call at the speed of the row before; 0 when nothing is known. */
static double expected_seconds(const bench_report *report, const fc_attention *problem)
{
    for (size_t index = report->count; index > 0; index--) {
        const cli_measurement *before = &report->rows[index - 1].measurement;
        if (before->timed)
            return before->times.p50 * bench_flops(problem, report->direction) /
                   bench_flops(&before->problem, report->direction);
    }
    return 0;
}

static cli_measurement ask_for(const bench_report *report, const fc_attention *problem)
{
    return (cli_measurement){
        .problem = *problem, .direction = report->direction, .without_lse = report->without_lse};
}

static void measure_problem(const bench_report *report, cli_measurement *measurement)
{
    cli_measure(report->context, report->seconds, measurement);
    cli_measure_cold(report->context, report->seconds / 2, measurement);
}

static void measure_shape(const cli_arguments *arguments, const bench_shape *shape,
                          bench_report *report)
{
    char expected_text[CLI_DURATION_BYTES];
    bench_row *row = &report->rows[report->count];
    fc_attention problem = shape_problem(arguments, shape);
    double expected = expected_seconds(report, &problem);
    row->name = shape->name;
    row->measurement = ask_for(report, &problem);
    cli_progress("%s: checking and timing...", shape->name);
    if (shape->is_mission || expected <= report->seconds) {
        measure_problem(report, &row->measurement);
    } else {
        row->measurement.left_out = true;
        snprintf(row->measurement.reason, sizeof row->measurement.reason,
                 "a call would take about %s; allow it with --seconds",
                 cli_duration(expected, expected_text));
    }
    report->count++;
}

static void measure_given(const cli_arguments *arguments, const char *name, bench_report *report)
{
    const fc_attention problem = cli_problem(arguments);
    bench_row *row = &report->rows[report->count++];
    row->name = name;
    row->measurement = ask_for(report, &problem);
    cli_progress("%s: checking and timing...", name);
    measure_problem(report, &row->measurement);
}

/* Of several shapes each has its own four sizes; whatever else was said holds for all. */
static void measure_each_given(const cli_arguments *arguments, bench_report *report)
{
    cli_catch_interrupts();
    for (int32_t index = 0; index < arguments->shape_count && !cli_interrupted(); index++) {
        cli_arguments sized = *arguments;
        cli_use_shape(&sized, &arguments->shapes[index]);
        measure_given(&sized, arguments->shapes[index].word, report);
    }
}

static void measure_set(const cli_arguments *arguments, bench_report *report)
{
    const bool all = arguments->bench_set == NULL || strcmp(arguments->bench_set, "standard") == 0;
    cli_catch_interrupts();
    for (size_t index = 0; index < SHAPE_COUNT; index++) {
        if ((all || shapes[index].is_mission) && !cli_interrupted())
            measure_shape(arguments, &shapes[index], report);
    }
}

static void measure_all(const cli_arguments *arguments, bench_report *report)
{
    if (arguments->shape_count > 1)
        measure_each_given(arguments, report);
    else if (arguments->problem_given)
        measure_given(arguments, "given", report);
    else
        measure_set(arguments, report);
    cli_progress("%s", "");
}

static double roof_part(const bench_report *report, const cli_measurement *measured)
{
    return cli_roof_part(&report->roof, bench_flops(&measured->problem, measured->direction),
                         bench_bytes(&measured->problem, measured->direction), measured->times.p50);
}

static void add_measurement(text_table *table, const bench_report *report,
                            const cli_measurement *measured)
{
    const double part = roof_part(report, measured);
    char p10[CLI_DURATION_BYTES], p50[CLI_DURATION_BYTES], p90[CLI_DURATION_BYTES],
        plain[CLI_DURATION_BYTES], cold[CLI_DURATION_BYTES];
    table_cell(table, "%s", cli_duration(measured->times.p10, p10));
    table_cell(table, "%s", cli_duration(measured->times.p50, p50));
    table_cell(table, "%s", cli_duration(measured->times.p90, p90));
    table_cell(table, "%.1f %%", 100 * measured->times.spread);
    table_cell(table, "%s",
               measured->times.plain_p50 > 0 ? cli_duration(measured->times.plain_p50, plain)
                                             : "-");
    table_cell(table, "%s", measured->cold_p50 > 0 ? cli_duration(measured->cold_p50, cold) : "-");
    table_cell(table, "%zu", measured->times.calls);
    table_cell(table, "%.4g", cli_tflops(measured));
    table_cell(table, "%.3g", cli_gigabytes_per_second(measured));
    table_cell(table, part > 0 ? "%.1f %%" : "-", 100 * part);
    table_cell(table, "%.1e", cli_measured_error(measured));
}

static void print_part(const char *name, bool sampled, const char *before)
{
    printf("%s%s was checked on a part: one KV head of one sequence, 1000 rows at most", before,
           name);
    if (sampled)
        printf("; and on %d rows of the whole", LAB_SAMPLED_ROWS);
    printf("\n");
}

static void print_notes(const bench_report *report)
{
    const char *before_first = "\n";
    for (size_t index = 0; index < report->count; index++) {
        const cli_measurement *measured = &report->rows[index].measurement;
        if (!measured->timed)
            printf("%s%s was not timed: %s\n", before_first, report->rows[index].name,
                   measured->reason);
        else if (measured->checked_part)
            print_part(report->rows[index].name, measured->sampled, before_first);
        else
            continue;
        before_first = "";
    }
}

static void print_text(const bench_report *report)
{
    printf("%s; whole %scalls%s, after a check of the result\n\n",
           fc_context_device(report->context), report->direction == FC_BACKWARD ? "backward " : "",
           report->context->cuda
               ? " as replays of a CUDA graph (plain: p50 without; cold: inputs not in L2)"
               : "");
    text_table table =
        table_start("lllrrrrrrrrrrr", "shape", "", "kernel", "p10", "p50", "p90", "spread", "plain",
                    "cold", "calls", "TFLOP/s", "GB/s", "of roof", "max error");
    for (size_t index = 0; index < report->count; index++) {
        const cli_measurement *measured = &report->rows[index].measurement;
        char text[CLI_PROBLEM_TEXT_BYTES] = "";
        cli_problem_text(&measured->problem, text);
        table_cell(&table, "%s", report->rows[index].name);
        table_cell(&table, "%s%s", text, measured->without_lse ? " without LSE" : "");
        const char *kernel = cli_measured_kernel(measured);
        table_cell(&table, "%s", kernel != NULL ? kernel : "-");
        if (measured->timed)
            add_measurement(&table, report, measured);
        else
            for (int column = 0; column < 11; column++)
                table_cell(&table, "-");
    }
    table_print(&table, stdout);
    print_notes(report);
    char before[GPU_STATE_TEXT_BYTES], after[GPU_STATE_TEXT_BYTES], roof[CLI_ROOF_TEXT_BYTES];
    printf("\nroof: %s\n", cli_roof_text(&report->roof, roof));
    if (report->context->cuda)
        printf("before: %s\nafter: %s\n", gpu_state_text(&report->before, before),
               gpu_state_text(&report->after, after));
}

static void write_json(json_writer *json, const void *data)
{
    const bench_report *report = data;
    cli_json_result(json, "bench");
    json_text(json, "device", fc_context_device(report->context));
    cli_roof_json(json, &report->roof);
    if (report->context->cuda) {
        gpu_state_json(json, "gpu_before", &report->before);
        gpu_state_json(json, "gpu_after", &report->after);
    }
    json_array(json, "rows");
    for (size_t index = 0; index < report->count; index++) {
        json_object(json, NULL);
        json_text(json, "name", report->rows[index].name);
        cli_measurement_json(json, &report->rows[index].measurement);
        if (report->rows[index].measurement.timed && report->roof.tflops > 0)
            json_number(json, "part_of_roof", roof_part(report, &report->rows[index].measurement));
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static bool none_failed(const bench_report *report)
{
    for (size_t index = 0; index < report->count; index++) {
        const cli_measurement *measured = &report->rows[index].measurement;
        if (!measured->timed && !measured->left_out)
            return false;
    }
    return true;
}

int cli_bench(const cli_arguments *arguments)
{
    if (arguments->problem_given && arguments->bench_set != NULL)
        return cli_fail(CLI_USAGE, "a shape and --set are both given; give one of them");
    if (arguments->shape_count > 1 && arguments->shape_size_given)
        return cli_fail(CLI_USAGE, "several --shape go without --batch, --heads, --q-length and "
                                   "--head-dim: each says these four itself");
    if (arguments->backward && arguments->without_lse)
        return cli_fail(CLI_USAGE, "--backward and --without-lse are both given; gradients are "
                                   "computed from the LSE");
    bench_report *report = cli_allocate(sizeof *report);
    report->without_lse = arguments->without_lse;
    report->direction = arguments->backward ? FC_BACKWARD : FC_FORWARD;
    report->seconds = arguments->seconds > 0 ? arguments->seconds : default_seconds;
    report->context = cli_open_context(arguments, &arguments->context);
    bool ok = report->context != NULL;
    if (ok) {
        if (report->context->cuda)
            report->before = gpu_state_read(arguments->context.device_index);
        measure_all(arguments, report);
        report->roof = cli_roof_measure(report->context);
        if (report->context->cuda)
            report->after = gpu_state_read(arguments->context.device_index);
        if (cli_wants_text(arguments))
            print_text(report);
        ok = cli_write_json(arguments, write_json, report) && none_failed(report);
    }
    fc_context_destroy(report->context);
    free(report);
    return cli_interrupted() ? CLI_INTERRUPTED : ok ? CLI_OK : CLI_FAILED;
}
