/* ladder.c: `flashcore ladder`: every rung checked, then timed: what each technique buys here. */
#include "cuda/ladder/ladder.h"
#include "cuda/rebuild.h"
#include "device.h"
#include "interrupt.h"
#include "measure.h"
#include "output.h"
#include "problem.h"
#include "roof.h"
#include "table.h"
#include "verbs.h"
#include "waterfall.h"

#include <ctype.h>
#include <stdlib.h>

enum { MOST_ROWS = 2 * FC_LADDER_RUNG_COUNT };

typedef struct ladder_row {
    const fc_kernel *kernel;
    const fc_kernel *base; /* that the gain is measured against: NULL for the first rung */
    const char *rung;      /* the kernel's name without "ladder_" */
    const char *summary;
    bool changed; /* built anew with the macro of --without or --macro */
    cli_measurement measurement;
    fc_ladder_facts facts;
} ladder_row;

typedef struct ladder_report {
    char device[128];
    fc_cuda_limits limits;
    char macro[96]; /* "USE_SWIZZLE=0", or "" */
    int count;
    ladder_row rows[MOST_ROWS];
} ladder_report;

/* 1. Measuring. */

static fc_attention rung_problem(const fc_kernel *rung, const cli_arguments *arguments)
{
    fc_attention problem = cli_problem(arguments);
    if (rung == &fc_ladder_quantised) {
        problem.q_type = FC_F8_E4M3;
        problem.out_type = FC_F16;
    }
    return problem;
}

static bool read_facts(fc_context *context, const fc_attention *problem, fc_ladder_facts *facts)
{
    fc_plan *plan = NULL;
    if (fc_plan_create(context, problem, &plan) != FC_OK)
        return false;
    fc_ladder_read_facts(plan, facts);
    fc_plan_destroy(plan);
    return true;
}

/* The context is the row's own: a rung that was built anew must not serve the others. */
static fc_context *open_rung(const cli_arguments *arguments, const fc_kernel *rung,
                             const fc_attention *problem, const char *macro)
{
    fc_context_options options = arguments->context;
    options.device_type = FC_CUDA;
    options.kernel = rung->name;
    fc_context *context = cli_create_context(&options);
    char variant[FC_LADDER_VARIANT_BYTES];
    fc_ladder_variant_name(rung, problem, variant);
    if (context && macro && fc_rebuild_in(context, fc_cuda_find_variant(variant), macro) != FC_OK) {
        cli_refuse("%s with %s: %s", rung->name, macro, fc_last_error());
        fc_context_destroy(context);
        return NULL;
    }
    return context;
}

static bool measure_rung(const cli_arguments *arguments, int index, const char *macro,
                         ladder_report *report)
{
    const fc_kernel *rung = fc_ladder[index];
    const double seconds = arguments->seconds > 0 ? arguments->seconds : 0.5;
    const fc_attention problem = rung_problem(rung, arguments);
    ladder_row *row = &report->rows[report->count++];
    row->kernel = rung;
    row->base = macro ? rung : fc_ladder_bases[index] == rung ? NULL : fc_ladder_bases[index];
    row->rung = rung->name + strlen("ladder_");
    row->summary = rung->summary;
    row->changed = macro != NULL;
    cli_progress("%s%s%s: checking and timing...", row->rung, macro ? ", " : "",
                 macro ? macro : "");
    fc_context *context = open_rung(arguments, rung, &problem, macro);
    if (!context)
        return false;
    snprintf(report->device, sizeof report->device, "%s", fc_context_device(context));
    bool ok = fc_cuda_read_limits(context->cuda, &report->limits) == FC_OK;
    row->measurement = (cli_measurement){.problem = problem};
    cli_measure(context, seconds, &row->measurement);
    ok = ok && row->measurement.timed && read_facts(context, &problem, &row->facts);
    if (!ok)
        cli_refuse("%s: %s", rung->name,
                   row->measurement.reason[0] ? row->measurement.reason : fc_last_error());
    fc_context_destroy(context);
    return ok;
}

static bool has_macro(const fc_kernel *rung, const cli_arguments *arguments, const char *macro)
{
    char variant[FC_LADDER_VARIANT_BYTES];
    const fc_attention problem = rung_problem(rung, arguments);
    fc_ladder_variant_name(rung, &problem, variant);
    return fc_rebuild_knows(fc_cuda_find_variant(variant), macro, NULL);
}

/* With a macro only the rungs that have it are measured, each as it is and changed. */
static bool measure_all(const cli_arguments *arguments, ladder_report *report)
{
    bool ok = true;
    cli_catch_interrupts();
    for (int i = 0; i < FC_LADDER_RUNG_COUNT && !cli_interrupted(); i++) {
        if (!report->macro[0]) {
            ok = measure_rung(arguments, i, NULL, report) && ok;
        } else if (has_macro(fc_ladder[i], arguments, report->macro)) {
            ok = measure_rung(arguments, i, NULL, report) && ok;
            ok = measure_rung(arguments, i, report->macro, report) && ok;
        }
    }
    cli_progress("%s", "");
    return ok;
}

/* 2. Showing. */

static double microseconds(const ladder_row *row)
{
    return row->measurement.times.p50 * 1e6;
}

/* Over the rung that this one builds on; of a changed rung, over the same one unchanged. 0: there
 * is nothing to compare with. */
static double speed_up(const ladder_report *report, int index)
{
    const ladder_row *row = &report->rows[index];
    for (int i = 0; i < index; i++) {
        const ladder_row *base = &report->rows[i];
        if (base->kernel == row->base && !base->changed && base->measurement.timed &&
            row->measurement.timed)
            return microseconds(base) / microseconds(row);
    }
    return 0;
}

static void add_row(text_table *table, const ladder_report *report, int index)
{
    const ladder_row *row = &report->rows[index];
    const double times = speed_up(report, index);
    table_cell(table, "%s%s%s", row->rung, row->changed ? " " : "",
               row->changed ? report->macro : "");
    if (!row->measurement.timed) {
        for (int column = 1; column < 10; column++)
            table_cell(table, "-");
        return;
    }
    table_cell(table, "%.2f", microseconds(row));
    table_cell(table, "%.2f", row->measurement.times.plain_p50 * 1e6);
    if (times > 0)
        table_cell(table, "%.2fx", times);
    else
        table_cell(table, "%s", "");
    table_cell(table, "%d", row->facts.registers);
    table_cell(table, "%.1f", row->facts.shared_bytes / 1024.0);
    table_cell(table, "%d", row->facts.blocks_a_multiprocessor);
    table_cell(table, "%.1f", cli_tflops(&row->measurement));
    table_cell(table, "%.0f", cli_gigabytes_per_second(&row->measurement));
    table_cell(table, "%.1e", row->measurement.check.max_error);
}

static void print_text(const ladder_report *report)
{
    const cli_roof roof = cli_roof_by_clocks(&report->limits);
    char text[CLI_PROBLEM_TEXT_BYTES] = "";
    cli_problem_text(&report->rows[0].measurement.problem, text);
    printf("%s on %s: every rung checked against double precision, then timed\n"
           "us: p50 of CUDA graph replays, whole calls; plain: without a graph\n\n",
           text, report->device);
    text_table table = table_start("lrrrrrrrrr", "rung", "us", "plain us", "gain", "registers",
                                   "shared KB", "blocks/SM", "TFLOP/s", "GB/s", "max error");
    for (int i = 0; i < report->count; i++)
        add_row(&table, report, i);
    table_print(&table, stdout);
    printf("\nlimits by its clocks: %.0f TFLOP/s (f16 tensor cores), %.0f GB/s; %d "
           "multiprocessors\n",
           roof.tflops, roof.gigabytes_per_second, report->limits.multiprocessors);
}

static void write_json(json_writer *json, const void *data)
{
    const ladder_report *report = data;
    const cli_roof roof = cli_roof_by_clocks(&report->limits);
    cli_json_result(json, "ladder");
    json_text(json, "device", report->device);
    json_integer(json, "driver", report->limits.driver_version);
    cli_roof_json(json, &roof);
    json_array(json, "rungs");
    for (int i = 0; i < report->count; i++) {
        const ladder_row *row = &report->rows[i];
        json_object(json, NULL);
        json_text(json, "rung", row->rung);
        json_text(json, "summary", row->summary);
        json_text(json, "over", row->base ? row->base->name : NULL);
        json_text(json, "macro", row->changed ? report->macro : NULL);
        json_number(json, "speed_up", speed_up(report, i));
        json_integer(json, "registers", row->facts.registers);
        json_integer(json, "shared_bytes", row->facts.shared_bytes);
        json_integer(json, "blocks_a_multiprocessor", row->facts.blocks_a_multiprocessor);
        cli_measurement_json(json, &row->measurement);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static bool draw(const cli_arguments *arguments, const ladder_report *report)
{
    waterfall_bar bars[MOST_ROWS];
    int count = 0;
    for (int i = 0; i < report->count; i++) {
        const ladder_row *row = &report->rows[i];
        if (!row->measurement.timed)
            continue;
        const double gain = speed_up(report, i);
        bars[count] =
            (waterfall_bar){.note = row->summary,
                            .microseconds = microseconds(row),
                            .shade = gain > 0 && gain < 1 ? WATERFALL_WORSE : WATERFALL_PLAIN};
        snprintf(bars[count].name, sizeof bars[count].name, "%s%s%s", row->rung,
                 row->changed ? " " : "", row->changed ? report->macro : "");
        count++;
    }
    char problem[CLI_PROBLEM_TEXT_BYTES] = "", title[128 + 32 + CLI_PROBLEM_TEXT_BYTES];
    cli_problem_text(&report->rows[0].measurement.problem, problem);
    snprintf(title, sizeof title, "The ladder on %s, %s", report->device, problem);
    cli_output output = {0};
    bool ok = cli_output_open(&output, arguments->svg_path);
    if (ok) {
        waterfall_write(output.file, title, "orange: slower than the rung it builds on", bars,
                        count, true);
        ok = cli_output_commit(&output);
    }
    cli_output_discard(&output);
    return ok;
}

/* 3. The verb. */

static bool choose_macro(const cli_arguments *arguments, ladder_report *report)
{
    if (arguments->macro != NULL) {
        snprintf(report->macro, sizeof report->macro, "%s", arguments->macro);
        if (!strchr(arguments->macro, '='))
            return cli_refuse("--macro %s has no value; write NAME=VALUE", arguments->macro);
    } else if (arguments->without != NULL) {
        snprintf(report->macro, sizeof report->macro, "USE_%s=0", arguments->without);
        for (char *c = report->macro; *c; c++)
            *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    } else {
        return true;
    }
    for (int i = 0; i < FC_LADDER_RUNG_COUNT; i++)
        if (has_macro(fc_ladder[i], arguments, report->macro))
            return true;
    return cli_refuse("no rung has the macro of %s; techniques to leave out: " FC_LADDER_TECHNIQUES,
                      report->macro);
}

int cli_ladder(const cli_arguments *arguments)
{
    if (arguments->without != NULL && arguments->macro != NULL)
        return cli_fail(CLI_USAGE, "--without and --macro are both given; give one of them");
    ladder_report *report = cli_allocate(sizeof *report);
    bool ok = choose_macro(arguments, report);
    if (!ok) {
        free(report);
        return CLI_USAGE;
    }
    if (fc_device_count(FC_CUDA) == 0) {
        free(report);
        return cli_fail(CLI_FAILED, "the ladder runs on a CUDA device: %s",
                        *fc_cuda_absence() ? fc_cuda_absence() : "there is none here");
    }
    ok = measure_all(arguments, report);
    if (cli_wants_text(arguments))
        print_text(report);
    ok = cli_write_json(arguments, write_json, report) && ok;
    if (arguments->svg_path != NULL)
        ok = draw(arguments, report) && ok;
    free(report);
    return cli_interrupted() ? CLI_INTERRUPTED : ok ? CLI_OK : CLI_FAILED;
}
