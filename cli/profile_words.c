/* profile_words.c: see profile_words.h. */
#include "profile_words.h"
#include "output.h"
#include "table.h"

#include <math.h>
#include <string.h>

/* 1. The metrics: right for what bounds attention. */

/* A unit's time busy, in percent of its peak; one above BUSY bounds the kernel. */
static const struct {
    const char *name, *metric, *advice;
} units[] = {
    {"tensor cores", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
     "The products themselves take the time: larger instructions (wgmma on Hopper), FP8, or fewer "
     "products (skip tiles that the mask hides)."},
    {"exponentials (XU)", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
     "The exponentials take the time: compute a part of them by a polynomial on the FMA units, or "
     "overlap them with the products of another tile."},
    {"FMA pipe", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
     "Scaling, masking and rescaling take the time: fold the scale into the exponent, skip the "
     "mask on full tiles, rescale only when the maximum grows."},
    {"issue slots", "sm__inst_issued.avg.pct_of_peak_sustained_active",
     "Warps can hardly issue more: fewer instructions for each product (wider loads, ldmatrix.x4, "
     "address arithmetic out of the loop)."},
    {"shared memory",
     "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
     "Shared memory takes the time: remove bank conflicts, keep Q in registers, give a warp more "
     "rows so that a key serves more products."},
    {"L2", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
     "L2 takes the time: larger query tiles read K and V less often; clusters can share them."},
    {"DRAM", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
     "Memory takes the time, as it should in decoding: check that every byte is read once, pack "
     "the "
     "query heads of a KV head, use a smaller type for K and V."},
};

/* Warps that wait for a reason, for each instruction issued. */
static const struct {
    const char *name, *metric, *advice;
} stalls[] = {
    {"global memory", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
     "Warps wait for global memory: start copies earlier (one more stage), or give the block more "
     "warps."},
    {"shared memory or exp",
     "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
     "Warps wait for shared memory or the exponential unit: load the next operands before this "
     "product, spread the exponentials."},
    {"a barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
     "Warps wait for each other: fewer barriers a tile, or mbarriers between those that depend."},
    {"a fixed latency", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
     "Warps wait for the instruction before: interleave two independent tiles in a warp."},
    {"the tensor or math pipe",
     "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
     "Warps queue for the math pipes: that is what a good kernel waits for; look at the units."},
    {"the memory queue", "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
     "The queue of shared memory instructions is full: use wider ones."},
    {"local or global queue",
     "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
     "The queue of global memory instructions is full: use 16-byte accesses or bulk copies; look "
     "for spills."},
    {"another warp's turn", "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
     "Warps are ready but others go first: there is enough to do, fewer warps would serve."},
};

static const struct {
    const char *text, *metric;
} numbers[] = {
    {"time", "gpu__time_duration.sum"},
    {"bytes from and to L2", "lts__t_bytes.sum"},
    {"bytes from and to DRAM", "dram__bytes.sum"},
    {"shared memory wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    {"of these by bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu.sum"},
    {"warps that are resident, % of the most", "sm__warps_active.avg.pct_of_peak_sustained_active"},
    {"registers a thread", "launch__registers_per_thread"},
    {"blocks an SM by registers", "launch__occupancy_limit_registers"},
    {"blocks an SM by shared memory", "launch__occupancy_limit_shared_mem"},
    {"blocks an SM by warps", "launch__occupancy_limit_warps"},
    {"waves of blocks", "launch__waves_per_multiprocessor"},
};

enum {
    UNITS = sizeof units / sizeof units[0],
    STALLS = sizeof stalls / sizeof stalls[0],
    NUMBERS = sizeof numbers / sizeof numbers[0]
};

/* Above this a unit has little left to give. */
static const double busy = 60;

static void add_metric(FILE *list, const char *metric)
{
    fprintf(list, "%s%s", ftell(list) > 0 ? "," : "", metric);
}

const char *profile_metrics(void)
{
    static char all[4096];
    FILE *list = fmemopen(all, sizeof all, "w");
    if (list == NULL)
        return "";
    for (int i = 0; i < UNITS; i++)
        add_metric(list, units[i].metric);
    for (int i = 0; i < STALLS; i++)
        add_metric(list, stalls[i].metric);
    for (int i = 0; i < NUMBERS; i++)
        add_metric(list, numbers[i].metric);
    fclose(list);
    return all;
}

/* 2. What they say. */

typedef struct finding {
    int unit;  /* the busiest; -1: no number */
    int stall; /* the most frequent */
    double unit_percent, stall_warps;
} finding;

static finding find(const csv_table *table, int row)
{
    finding found = {-1, -1, 0, 0};
    for (int i = 0; i < UNITS; i++) {
        const double percent = csv_number(table, row, units[i].metric);
        if (percent > found.unit_percent) {
            found.unit = i;
            found.unit_percent = percent;
        }
    }
    for (int i = 0; i < STALLS; i++) {
        const double warps = csv_number(table, row, stalls[i].metric);
        if (warps > found.stall_warps) {
            found.stall = i;
            found.stall_warps = warps;
        }
    }
    return found;
}

static double part_of_a_wave(const csv_table *table, int row)
{
    return csv_number(table, row, "launch__waves_per_multiprocessor");
}

static void print_verdict(const csv_table *table, int row)
{
    const finding found = find(table, row);
    char text[1024];
    if (found.unit < 0) {
        printf("\nncu gave no number of any unit: nothing can be said.\n");
        return;
    }
    printf("\nWhat bounds it: ");
    if (found.unit_percent >= busy)
        snprintf(text, sizeof text, "%s, %.0f %% busy. %s", units[found.unit].name,
                 found.unit_percent, units[found.unit].advice);
    else if (part_of_a_wave(table, row) < 0.5)
        snprintf(text, sizeof text,
                 "too few blocks: they fill %.0f %% of the GPU once. Split the rows into smaller "
                 "tiles or the keys over blocks; the busiest unit (%s) is at %.0f %%.",
                 100 * part_of_a_wave(table, row), units[found.unit].name, found.unit_percent);
    else
        snprintf(text, sizeof text,
                 "latency: the busiest unit (%s) is at %.0f %%, and warps mostly wait for %s. %s",
                 units[found.unit].name, found.unit_percent,
                 found.stall >= 0 ? stalls[found.stall].name : "nothing that ncu names",
                 found.stall >= 0 ? stalls[found.stall].advice : "");
    table_wrap(stdout, text, strlen("What bounds it: "), 0);
}

static void add_row(text_table *shown, const char *name, const csv_table *table, int row,
                    const char *metric, const char *unit)
{
    const int column = csv_column(table, metric);
    const double value = csv_number(table, row, metric);
    table_cell(shown, "%s", name);
    if (isnan(value))
        table_cell(shown, "no number");
    else
        table_cell(shown, "%.4g", value);
    table_cell(shown, "%s", unit != NULL ? unit : csv_cell(table, 1, column));
}

void profile_print(const csv_table *table, int row)
{
    printf("%s, grid %s, block %s on %s\n\n",
           csv_cell(table, row, csv_column(table, "Kernel Name")),
           csv_cell(table, row, csv_column(table, "Grid Size")),
           csv_cell(table, row, csv_column(table, "Block Size")),
           csv_cell(table, row, csv_column(table, "device__attribute_display_name")));
    text_table shown = table_start("lrl", "", "", "");
    for (int i = 0; i < UNITS; i++)
        add_row(&shown, units[i].name, table, row, units[i].metric, "% busy");
    for (int i = 0; i < NUMBERS; i++)
        add_row(&shown, numbers[i].text, table, row, numbers[i].metric, NULL);
    for (int i = 0; i < STALLS; i++) {
        char name[64];
        snprintf(name, sizeof name, "waiting for %s", stalls[i].name);
        add_row(&shown, name, table, row, stalls[i].metric, "warps an issue");
    }
    table_print(&shown, stdout);
    print_verdict(table, row);
    printf("\n");
}

void profile_json(json_writer *json, const csv_table *table, int row)
{
    const finding found = find(table, row);
    json_object(json, NULL);
    json_text(json, "kernel", csv_cell(table, row, csv_column(table, "Kernel Name")));
    json_text(json, "busiest_unit", found.unit >= 0 ? units[found.unit].name : NULL);
    json_number(json, "busiest_percent", found.unit_percent);
    json_text(json, "most_frequent_stall", found.stall >= 0 ? stalls[found.stall].name : NULL);
    json_object(json, "metrics");
    for (int i = 0; i < UNITS; i++)
        json_number(json, units[i].metric, csv_number(table, row, units[i].metric));
    for (int i = 0; i < NUMBERS; i++)
        json_number(json, numbers[i].metric, csv_number(table, row, numbers[i].metric));
    for (int i = 0; i < STALLS; i++)
        json_number(json, stalls[i].metric, csv_number(table, row, stalls[i].metric));
    json_end(json);
    json_end(json);
}
