/* check.c: `flashcore check`: the case list, on a chosen device and kernel. */
#include "bench.h"
#include "check_rows.h"
#include "device.h"
#include "interrupt.h"
#include "measure.h"
#include "output.h"
#include "sample.h"
#include "table.h"
#include "verbs.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_counts {
    size_t cases, passed, failed, refused;
    double worst; /* error as a part of its tolerance, of those that passed or failed */
} check_counts;

/* 1. Which cases. */

/* A drawn case's number is name enough. */
static bool is_called(const fc_case *c, const char *name)
{
    const size_t length = strlen(name), before = strlen(CASE_RANDOM);
    const bool is_number = strncmp(name, CASE_RANDOM, before) == 0 && !strchr(name + before, '-');
    return strcmp(name, c->name) == 0 ||
           (is_number && strncmp(name, c->name, length) == 0 && c->name[length] == '-');
}

static bool matches(const cli_arguments *arguments, const fc_case *c)
{
    if (arguments->case_name != NULL && !is_called(c, arguments->case_name))
        return false;
    if (arguments->backward && !c->backward)
        return false;
    const char *filter = arguments->filter;
    if (filter == NULL)
        return true;
    if (strpbrk(filter, "*?[") != NULL)
        return fnmatch(filter, c->name, 0) == 0 || fnmatch(filter, c->group, 0) == 0;
    return strstr(c->name, filter) != NULL || strstr(c->group, filter) != NULL;
}

/* Where cases come from: the list, or numbers that they are drawn by. */
typedef struct case_source {
    bool drawn;
    uint64_t first;
    size_t count;
} case_source;

static case_source find_source(const cli_arguments *arguments)
{
    const char *name = arguments->case_name;
    uint64_t number;
    if (arguments->random > 0)
        return (case_source){true, (uint64_t)(arguments->seed > 0 ? arguments->seed : 1),
                             (size_t)arguments->random};
    if (name != NULL && sscanf(name, CASE_RANDOM "%" SCNu64, &number) == 1)
        return (case_source){true, number, 1};
    return (case_source){false, 0, case_count()};
}

static check_row *choose_cases(const cli_arguments *arguments, size_t *wanted)
{
    const case_source source = find_source(arguments);
    check_row *rows = cli_allocate((source.count + 1) * sizeof *rows);
    *wanted = 0;
    for (size_t index = 0; index < source.count; index++) {
        fc_case *c = &rows[*wanted].of;
        if (source.drawn)
            case_random(source.first + index, c);
        else
            case_get(index, c);
        *wanted += matches(arguments, c);
    }
    return rows;
}

/* Keeps the candidates of a sample, then the sample. */
static void sample_cases(check_report *report, size_t wanted)
{
    size_t candidates = 0, kept = 0;
    for (size_t index = 0; index < report->wanted; index++)
        if (cli_is_candidate(report->context, &report->rows[index].of))
            report->rows[candidates++] = report->rows[index];
    for (size_t index = 0; index < candidates; index++)
        if (cli_is_sampled(index, candidates, wanted))
            report->rows[kept++] = report->rows[index];
    report->wanted = kept;
}

/* 2. The run. */

void check_run_case(const check_report *report, check_row *row)
{
    check_case(report->context, &row->of, &row->result);
    if (!report->backward || row->result.outcome != CHECK_PASSED || row->result.backward_kernel)
        return;
    row->result.outcome = CHECK_REFUSED;
    snprintf(row->result.reason, sizeof row->result.reason, "no backward kernel accepts it");
}

static void run_cases(check_report *report)
{
    size_t failed = 0;
    cli_catch_interrupts();
    while (report->done < report->wanted && !cli_interrupted()) {
        check_row *row = &report->rows[report->done];
        cli_progress("[%zu/%zu] %zu failed  %s", report->done + 1, report->wanted, failed,
                     row->of.name);
        check_run_case(report, row);
        failed += row->result.outcome == CHECK_FAILED;
        report->done++;
    }
    cli_progress("%s", "");
    report->interrupted = report->done < report->wanted;
}

/* 3. What came out. */

static void larger(double *worst, double error, double tolerance)
{
    double part = error > 0 ? error / tolerance : 0;
    if (!(part <= *worst)) /* NaN too */
        *worst = part;
}

/* Of one group, or of all where `group` is NULL. */
static check_counts count(const check_report *report, const char *group)
{
    check_counts counts = {0};
    for (size_t index = 0; index < report->done; index++) {
        const check_result *result = &report->rows[index].result;
        if (group != NULL && strcmp(group, report->rows[index].of.group) != 0)
            continue;
        counts.cases++;
        counts.passed += result->outcome == CHECK_PASSED;
        counts.failed += result->outcome == CHECK_FAILED;
        counts.refused += result->outcome == CHECK_REFUSED;
        if (result->outcome == CHECK_REFUSED)
            continue;
        larger(&counts.worst, result->max_error, result->tolerance);
        larger(&counts.worst, result->lse_error, result->lse_tolerance);
        larger(&counts.worst, result->gradient_error, result->gradient_tolerance);
    }
    return counts;
}

static bool is_first_of_group(const check_report *report, size_t index)
{
    for (size_t before = 0; before < index; before++) {
        if (strcmp(report->rows[before].of.group, report->rows[index].of.group) == 0)
            return false;
    }
    return true;
}

static void add_counts(text_table *table, const char *name, const check_counts *counts)
{
    table_cell(table, "%s", name);
    table_cell(table, "%zu", counts->cases);
    table_cell(table, "%zu", counts->passed);
    table_cell(table, "%zu", counts->failed);
    table_cell(table, "%zu", counts->refused);
    if (counts->passed + counts->failed > 0)
        table_cell(table, "%.2f", counts->worst);
    else
        table_cell(table, "-");
}

/* Nothing where the check did not come so far. */
static void print_error(const char *name, double error, double tolerance)
{
    if (error > 0 || tolerance > 0)
        printf("  %s: error %.3g, tolerance %.3g\n", name, error, tolerance);
}

static void print_failure(const check_report *report, const check_row *row)
{
    const check_result *result = &row->result;
    printf("\nFAILED %s (%s%s%s)\n  %s\n", row->of.name,
           result->kernel != NULL ? result->kernel : "no kernel",
           result->backward_kernel != NULL ? ", " : "",
           result->backward_kernel != NULL ? result->backward_kernel : "", result->reason);
    print_error("out", result->max_error, result->tolerance);
    print_error("lse", result->lse_error, result->lse_tolerance);
    print_error("gradients", result->gradient_error, result->gradient_tolerance);
    printf("  again: flashcore check --case '%s'%s%s%s\n", row->of.name, report->backend_words,
           report->forced_kernel != NULL ? " --kernel " : "",
           report->forced_kernel != NULL ? report->forced_kernel : "");
}

static void print_text(const check_report *report)
{
    check_counts all = count(report, NULL);
    text_table table =
        table_start("lrrrrr", "group", "cases", "passed", "failed", "refused", "error/tolerance");
    for (size_t index = 0; index < report->done; index++) {
        const char *group = report->rows[index].of.group;
        if (is_first_of_group(report, index)) {
            check_counts counts = count(report, group);
            add_counts(&table, group, &counts);
        }
    }
    add_counts(&table, "all", &all);
    table_print(&table, stdout);
    for (size_t index = 0; index < report->done; index++) {
        if (report->rows[index].result.outcome == CHECK_FAILED)
            print_failure(report, &report->rows[index]);
    }
    printf("\n%zu passed, %zu failed, %zu refused", all.passed, all.failed, all.refused);
    if (report->done < report->wanted)
        printf(", %zu not run: %s", report->wanted - report->done,
               report->interrupted ? "interrupted" : "no new process could open the device");
    printf(" (%.1f s on %s)\n", report->seconds, report->device);
}

static void write_row(json_writer *json, const check_row *row)
{
    const check_result *result = &row->result;
    json_object(json, NULL);
    json_text(json, "name", row->of.name);
    json_text(json, "group", row->of.group);
    json_text(json, "outcome", cli_outcome_name(result->outcome));
    json_text(json, "reason", result->reason);
    json_text(json, "kernel", result->kernel);
    json_text(json, "backward_kernel", result->backward_kernel);
    json_number(json, "max_error", result->max_error);
    json_number(json, "mean_error", result->mean_error);
    json_number(json, "relative_error", result->relative_error);
    json_array(json, "ulps");
    for (int bin = 0; bin < COMPARE_ULP_BINS; bin++)
        json_integer(json, NULL, result->ulps[bin]);
    json_end(json);
    json_number(json, "tolerance", result->tolerance);
    json_number(json, "lse_error", result->lse_error);
    json_number(json, "lse_tolerance", result->lse_tolerance);
    json_number(json, "gradient_error", result->gradient_error);
    json_number(json, "gradient_tolerance", result->gradient_tolerance);
    json_number(json, "seconds", result->seconds);
    json_end(json);
}

static void write_json(json_writer *json, const void *data)
{
    const check_report *report = data;
    check_counts all = count(report, NULL);
    cli_json_result(json, "check");
    json_text(json, "device", report->device);
    json_text(json, "forced_kernel", report->forced_kernel);
    json_boolean(json, "interrupted", report->interrupted);
    json_integer(json, "not_run", (int64_t)(report->wanted - report->done));
    json_number(json, "seconds", report->seconds);
    json_integer(json, "cases", (int64_t)all.cases);
    json_integer(json, "passed", (int64_t)all.passed);
    json_integer(json, "failed", (int64_t)all.failed);
    json_integer(json, "refused", (int64_t)all.refused);
    json_number(json, "worst_error_by_tolerance", all.worst);
    json_array(json, "ulp_limits");
    for (int bin = 0; bin < COMPARE_ULP_BINS - 1; bin++)
        json_number(json, NULL, compare_ulp_limits[bin]);
    json_end(json);
    json_array(json, "results");
    for (size_t index = 0; index < report->done; index++)
        write_row(json, &report->rows[index]);
    json_end(json);
    json_end(json);
}

/* 4. The verb. */

static int exit_status(const check_report *report)
{
    check_counts all = count(report, NULL);
    if (all.failed > 0)
        return CLI_FAILED;
    if (report->interrupted)
        return CLI_INTERRUPTED;
    if (all.passed == 0)
        return cli_fail(CLI_FAILED, "nothing was checked: every case was refused");
    return CLI_OK;
}

bool check_open(const cli_arguments *arguments, check_report *report)
{
    report->context = cli_open_context(arguments, &arguments->context);
    if (report->context == NULL)
        return false;
    snprintf(report->device, sizeof report->device, "%s", fc_context_device(report->context));
    if (arguments->sample > 0)
        sample_cases(report, (size_t)arguments->sample);
    return true;
}

static bool run_here(const cli_arguments *arguments, check_report *report)
{
    const bool ok = check_open(arguments, report);
    if (ok)
        run_cases(report);
    fc_context_destroy(report->context);
    return ok;
}

static int run_and_report(const cli_arguments *arguments, check_report *report)
{
    const double start = bench_now();
    const char *from_environment = getenv("FLASHCORE_KERNEL");
    report->forced_kernel =
        arguments->context.kernel != NULL ? arguments->context.kernel : from_environment;
    report->backward = arguments->backward;
    report->backend_words = arguments->emulated                         ? " --backend emu"
                            : arguments->context.device_type == FC_CUDA ? " --backend cuda"
                                                                        : "";
    if (!(arguments->isolated ? check_run_isolated(arguments, report)
                              : run_here(arguments, report)))
        return CLI_FAILED;
    report->seconds = bench_now() - start;
    if (cli_wants_text(arguments))
        print_text(report);
    bool written = cli_write_json(arguments, write_json, report);
    int status = exit_status(report);
    return written ? status : CLI_FAILED;
}

static int check_numbers(const cli_arguments *arguments)
{
    enum { MOST_DRAWN = 100000 }; /* two kilobytes each */
    if (arguments->seed > 0 && arguments->random == 0)
        return cli_fail(CLI_USAGE, "--seed is the number of the first case of --random, which is "
                                   "not there");
    if (arguments->random > MOST_DRAWN)
        return cli_fail(CLI_USAGE,
                        "--random: %lld is more than %d; draw others in a second run, "
                        "with --seed",
                        (long long)arguments->random, MOST_DRAWN);
    return CLI_OK;
}

int cli_check(const cli_arguments *arguments)
{
    int status = check_numbers(arguments);
    if (status != CLI_OK)
        return status;
    check_report report = {0};
    report.rows = choose_cases(arguments, &report.wanted);
    if (report.wanted == 0)
        status = cli_fail(CLI_USAGE, "no case matches; 'flashcore check --list' shows them all");
    for (size_t index = 0; arguments->list && index < report.wanted; index++)
        printf("%s\n", report.rows[index].of.name);
    if (status == CLI_OK && !arguments->list)
        status = run_and_report(arguments, &report);
    free(report.rows);
    return status;
}
