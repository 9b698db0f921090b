/* emu.c: `flashcore emu`: what a kernel does, counted by the emulator, and what that must cost. */
#include "bench.h"
#include "device.h"
#include "emu_compare.h"
#include "emu_count.h"
#include "emulator.h"
#include "gpu_limits.h"
#include "output.h"
#include "problem.h"
#include "table.h"
#include "verbs.h"

enum { SHOWN_LINES = 12 };

/* 1. What came out. */

#define TOTALS(X)                                                    \
    X(launches, "launches")                                          \
    X(blocks, "blocks")                                              \
    X(mma, "mma of 16x8x16 products")                                \
    X(mma8, "mma of 16x8x32 products of 8 bits")                     \
    X(wgmma_products, "products of wgmma")                           \
    X(wgmma8_products, "products of wgmma of 8 bits")                \
    X(ldmatrix, "ldmatrix and stmatrix")                             \
    X(exp2, "exponentials")                                          \
    X(shuffles, "shuffles and votes of a warp")                      \
    X(barriers, "visits of a warp to a barrier")                     \
    X(warp_syncs, "__syncwarp")                                      \
    X(mbarrier_waits, "mbarrier waits of a thread")                  \
    X(copies, "cp.async of a thread")                                \
    X(bulk_copies, "bulk copies")                                    \
    X(bulk_bytes, "bytes of global memory they read or write")       \
    X(shared_requests, "shared memory requests of a warp")           \
    X(shared_passes, "passes through the banks they take")           \
    X(bank_conflicts, "of these by bank conflicts")                  \
    X(global_reads, "global reads of a warp")                        \
    X(global_read_sectors, "sectors of 32 bytes they read, from L2") \
    X(global_writes, "global writes of a warp")                      \
    X(global_write_sectors, "sectors they write")                    \
    X(wasted_sectors, "sectors, read or written, beyond what was needed")

static void print_totals(const emu_totals *totals)
{
    text_table table = table_start("rl", "count", "of");
#define ADD_TOTAL(member, text)                                         \
    if (totals->member > 0) {                                           \
        table_cell(&table, "%llu", (unsigned long long)totals->member); \
        table_cell(&table, "%s", text);                                 \
    }
    TOTALS(ADD_TOTAL)
#undef ADD_TOTAL
    table_print(&table, stdout);
}

static void print_lines(const emu_report *report)
{
    text_table table = table_start("lllrrr", "line", "memory", "", "requests", "units", "fewest");
    const size_t shown = report->line_count < SHOWN_LINES ? report->line_count : SHOWN_LINES;
    for (size_t i = 0; i < shown; i++) {
        const emu_line *line = &report->lines[i];
        table_cell(&table, "%s", line->place);
        table_cell(&table, "%s", line->space == 's' ? "shared" : "global");
        table_cell(&table, "%s", line->writes ? "written" : "read");
        table_cell(&table, "%llu", (unsigned long long)line->requests);
        table_cell(&table, "%llu", (unsigned long long)line->units);
        table_cell(&table, "%llu", (unsigned long long)line->fewest_units);
    }
    printf("\nAccesses by line, the most wasteful first; units are passes through the banks of "
           "shared memory,\nor sectors of global memory:\n\n");
    table_print(&table, stdout);
    if (report->line_count > shown)
        printf("and %zu lines more; --json has them all\n", report->line_count - shown);
}

static void print_bounds(const emu_report *report)
{
    text_table table = table_start("lrrrrlr", "GPU", "tensor cores", "exponentials",
                                   "shared memory", "at least", "by", "memory, cold");
    const double bytes = bench_bytes(&report->problem, FC_FORWARD);
    for (int i = 0; i < gpu_count; i++) {
        const gpu_bound bound = gpu_bound_of(&gpu_table[i], &report->totals, bytes);
        table_cell(&table, "%s", gpu_table[i].name);
        table_cell(&table, "%.2f", bound.products * 1e6);
        table_cell(&table, "%.2f", bound.exponentials * 1e6);
        table_cell(&table, "%.2f", bound.shared_memory * 1e6);
        table_cell(&table, "%.2f", bound.longest * 1e6);
        table_cell(&table, "%s", bound.longest_name);
        table_cell(&table, "%.2f", bound.memory * 1e6);
    }
    printf("\nLower bounds in microseconds, from published peaks: no time that was measured. Each "
           "unit alone,\nwith all multiprocessors busy to the end; latencies and launches come on "
           "top:\n\n");
    table_print(&table, stdout);
}

static void write_bounds(json_writer *json, const emu_report *report)
{
    const double bytes = bench_bytes(&report->problem, FC_FORWARD);
    json_array(json, "lower_bounds");
    for (int i = 0; i < gpu_count; i++) {
        const gpu_bound bound = gpu_bound_of(&gpu_table[i], &report->totals, bytes);
        json_object(json, NULL);
        json_text(json, "gpu", gpu_table[i].name);
        json_text(json, "source", gpu_table[i].source);
        json_number(json, "tensor_cores_us", bound.products * 1e6);
        json_number(json, "exponentials_us", bound.exponentials * 1e6);
        json_number(json, "shared_memory_us", bound.shared_memory * 1e6);
        json_number(json, "at_least_us", bound.longest * 1e6);
        json_text(json, "bound_by", bound.longest_name);
        json_number(json, "cold_memory_us", bound.memory * 1e6);
        json_end(json);
    }
    json_end(json);
}

static void write_json(json_writer *json, const void *data)
{
    const emu_report *report = data;
    cli_json_result(json, "emu");
    json_text(json, "device", report->device);
    json_text(json, "kernel", report->kernel);
    cli_problem_json(json, "problem", &report->problem);
    json_object(json, "counts");
#define WRITE_TOTAL(member, text) json_integer(json, #member, (int64_t)report->totals.member);
    TOTALS(WRITE_TOTAL)
#undef WRITE_TOTAL
    json_end(json);
    json_array(json, "lines");
    for (size_t i = 0; i < report->line_count; i++) {
        const emu_line *line = &report->lines[i];
        json_object(json, NULL);
        json_text(json, "line", line->place);
        json_text(json, "memory", line->space == 's' ? "shared" : "global");
        json_boolean(json, "writes", line->writes);
        json_integer(json, "requests", (int64_t)line->requests);
        json_integer(json, "units", (int64_t)line->units);
        json_integer(json, "fewest", (int64_t)line->fewest_units);
        json_end(json);
    }
    json_end(json);
    write_bounds(json, report);
    json_end(json);
}

/* 2. The verb. */

int cli_emu(const cli_arguments *arguments)
{
    char complaint[CLI_COMPLAINT_BYTES], text[CLI_PROBLEM_TEXT_BYTES] = "";
    fc_context_options options = arguments->context;
    if (arguments->compare)
        return cli_emu_compare(arguments);
    options.device_type = FC_CUDA;
    if (!cli_use_emulator(complaint))
        return cli_fail(CLI_FAILED, "%s", complaint);
    fc_context *context = cli_open_context(arguments, &options);
    if (context == NULL)
        return CLI_FAILED;
    static emu_report report;
    report.problem = cli_problem(arguments);
    report.device = fc_context_device(context);
    bool ok = emu_count(context, &report);
    if (ok && cli_wants_text(arguments)) {
        cli_problem_text(&report.problem, text);
        printf("%s: %s on %s\n\n", report.kernel, text, report.device);
        print_totals(&report.totals);
        print_lines(&report);
        print_bounds(&report);
    }
    ok = ok && cli_write_json(arguments, write_json, &report);
    fc_context_destroy(context);
    return ok ? CLI_OK : CLI_FAILED;
}
