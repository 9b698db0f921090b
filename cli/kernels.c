/* kernels.c: `flashcore kernels`: who would run a problem, and why not another. */
#include "device.h"
#include "output.h"
#include "problem.h"
#include "table.h"
#include "verbs.h"

#include <stdlib.h>

typedef struct kernel_report {
    const char *device;
    fc_attention problem;
    int count;
    fc_kernel_info *kernels;
} kernel_report;

static const char *direction_text(const fc_kernel_info *kernel)
{
    return kernel->direction == FC_FORWARD ? "forward" : "backward";
}

static bool query_kernels(fc_context *context, kernel_report *report)
{
    report->count = fc_kernel_count();
    report->kernels = cli_allocate((size_t)report->count * sizeof *report->kernels);
    for (int index = 0; index < report->count; index++) {
        report->kernels[index] = fc_kernel_info_init();
        if (fc_kernel_query(context, &report->problem, index, &report->kernels[index]) != FC_OK)
            return cli_refuse("%s", fc_last_error());
    }
    return true;
}

static void write_json(json_writer *json, const void *data)
{
    const kernel_report *report = data;
    json_object(json, NULL);
    json_text(json, "device", report->device);
    cli_problem_json(json, "problem", &report->problem);
    json_array(json, "kernels");
    for (int index = 0; index < report->count; index++) {
        const fc_kernel_info *kernel = &report->kernels[index];
        json_object(json, NULL);
        json_text(json, "name", kernel->name);
        json_text(json, "direction", direction_text(kernel));
        json_text(json, "summary", kernel->summary);
        json_boolean(json, "accepts", kernel->accepts);
        json_boolean(json, "chosen", kernel->chosen);
        json_text(json, "reason", kernel->reason);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static void print_text(const kernel_report *report)
{
    char text[CLI_PROBLEM_TEXT_BYTES] = "";
    cli_problem_text(&report->problem, text);
    printf("%s on %s\n\n", text, report->device);
    text_table table = table_start("llll", "kernel", "direction", "verdict", "");
    for (int index = 0; index < report->count; index++) {
        const fc_kernel_info *kernel = &report->kernels[index];
        table_cell(&table, "%s", kernel->name);
        table_cell(&table, "%s", direction_text(kernel));
        table_cell(&table, "%s",
                   kernel->chosen    ? "runs it"
                   : kernel->accepts ? "accepts"
                                     : "refuses");
        table_cell(&table, "%s", kernel->accepts ? kernel->summary : kernel->reason);
    }
    table_print(&table, stdout);
}

int cli_kernels(const cli_arguments *arguments)
{
    fc_context *context = cli_create_context(&arguments->context);
    if (context == NULL)
        return CLI_FAILED;
    kernel_report report = {.device = fc_context_device(context),
                            .problem = cli_problem(arguments)};
    bool ok = query_kernels(context, &report);
    if (ok && cli_wants_text(arguments))
        print_text(&report);
    ok = ok && cli_write_json(arguments, write_json, &report);
    free(report.kernels);
    fc_context_destroy(context);
    return ok ? CLI_OK : CLI_FAILED;
}
