/* resources.c: `flashcore resources`: what the compiler gave every CUDA kernel, against its budget.
 */
#include "cuda/variants.h"
#include "output.h"
#include "table.h"
#include "verbs.h"

#include <string.h>

typedef struct resource_report {
    const char *filter;
    int64_t most_registers; /* 0: the budget of variants.txt */
    int kernels;
    int over_budget;
} resource_report;

static int shared_bytes(const fc_cuda_report *kernel)
{
    return kernel->static_shared_bytes + kernel->shape.shared_bytes;
}

static int register_budget(const resource_report *report, const fc_cuda_variant *variant)
{
    return report->most_registers > 0 ? (int)report->most_registers : variant->most_registers;
}

static bool is_over_budget(const resource_report *report, const fc_cuda_variant *variant,
                           const fc_cuda_report *kernel)
{
    return kernel->registers > register_budget(report, variant) ||
           shared_bytes(kernel) > variant->most_shared_bytes ||
           kernel->spill_bytes > variant->most_spill_bytes;
}

typedef void visit_kernel(void *user, const resource_report *report, const fc_cuda_variant *variant,
                          const fc_cuda_report *kernel);

static void for_each_kernel(const resource_report *report, visit_kernel *visit, void *user)
{
    for (int i = 0; i < fc_cuda_variant_count; i++) {
        const fc_cuda_variant *variant = &fc_cuda_variants[i];
        for (int j = 0; j < variant->report_count; j++)
            if (report->filter == NULL || strstr(variant->reports[j].kernel, report->filter))
                visit(user, report, variant, &variant->reports[j]);
    }
}

static void count_kernel(void *user, const resource_report *report, const fc_cuda_variant *variant,
                         const fc_cuda_report *kernel)
{
    resource_report *counts = user;
    counts->kernels++;
    counts->over_budget += is_over_budget(report, variant, kernel);
}

static void add_kernel(void *user, const resource_report *report, const fc_cuda_variant *variant,
                       const fc_cuda_report *kernel)
{
    text_table *table = user;
    table_cell(table, "%s", kernel->kernel);
    table_cell(table, "sm_%d", kernel->architecture);
    table_cell(table, "%d", kernel->shape.threads);
    table_cell(table, "%d of %d", kernel->registers, register_budget(report, variant));
    table_cell(table, "%d of %d", shared_bytes(kernel), variant->most_shared_bytes);
    table_cell(table, "%d", kernel->stack_bytes);
    table_cell(table, "%d of %d", kernel->spill_bytes, variant->most_spill_bytes);
    table_cell(table, "%s", is_over_budget(report, variant, kernel) ? "OVER BUDGET" : "ok");
}

static void write_kernel(void *user, const resource_report *report, const fc_cuda_variant *variant,
                         const fc_cuda_report *kernel)
{
    json_writer *json = user;
    json_object(json, NULL);
    json_text(json, "kernel", kernel->kernel);
    json_text(json, "variant", variant->name);
    json_integer(json, "architecture", kernel->architecture);
    json_integer(json, "threads", kernel->shape.threads);
    json_integer(json, "query_tile", kernel->shape.query_tile);
    json_integer(json, "kv_tile", kernel->shape.kv_tile);
    json_integer(json, "registers", kernel->registers);
    json_integer(json, "most_registers", register_budget(report, variant));
    json_integer(json, "shared_bytes", shared_bytes(kernel));
    json_integer(json, "most_shared_bytes", variant->most_shared_bytes);
    json_integer(json, "stack_bytes", kernel->stack_bytes);
    json_integer(json, "spill_bytes", kernel->spill_bytes);
    json_integer(json, "most_spill_bytes", variant->most_spill_bytes);
    json_boolean(json, "within_budget", !is_over_budget(report, variant, kernel));
    json_end(json);
}

static void write_json(json_writer *json, const void *data)
{
    const resource_report *report = data;
    cli_json_result(json, "resources");
    json_array(json, "kernels");
    for_each_kernel(report, write_kernel, json);
    json_end(json);
    json_integer(json, "over_budget", report->over_budget);
    json_end(json);
}

static void print_text(const resource_report *report)
{
    text_table table = table_start("llrrrrrl", "kernel", "target", "threads", "registers",
                                   "shared bytes", "stack", "spilled bytes", "");
    for_each_kernel(report, add_kernel, &table);
    table_print(&table, stdout);
    printf("\n%d kernels, %d over budget\n", report->kernels, report->over_budget);
}

int cli_resources(const cli_arguments *arguments)
{
    resource_report report = {.filter = arguments->filter,
                              .most_registers = arguments->most_registers};
    for_each_kernel(&report, count_kernel, &report);
    if (fc_cuda_variant_count == 0)
        return cli_fail(CLI_FAILED, "this program was built without its CUDA part: there are no "
                                    "kernels to report on");
    if (report.kernels == 0)
        return cli_fail(CLI_FAILED, "no kernel's name holds '%s'", report.filter);
    if (cli_wants_text(arguments))
        print_text(&report);
    if (!cli_write_json(arguments, write_json, &report))
        return CLI_FAILED;
    return report.over_budget > 0 ? CLI_FAILED : CLI_OK;
}
