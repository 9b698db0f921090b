/* sections.c: see sections.h. */
#include "sections.h"
#include "charts.h"
#include "output.h"
#include "waterfall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BARS = 256 };

#define TABLE(file, list, columns) \
    page_table(file, list, columns, sizeof(columns) / sizeof((columns)[0]))
#define FOLDED_TABLE(file, summary, list, columns) \
    page_folded_table(file, summary, list, columns, sizeof(columns) / sizeof((columns)[0]))

static int length_of(const json_value *first)
{
    int length = 0;
    for (; first != NULL; first = first->next)
        length++;
    return length;
}

/* Above 0 only where the row was timed. */
static double time_of(const json_value *row)
{
    return json_number_of(row, "p50_us", 0);
}

static const char *problem_of(const json_value *row)
{
    return json_text_of(json_member(row, "problem"), "text", "");
}

/* 1. What was run, and where. */

static void write_steps(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {{"step", "step"},
                                          {"outcome", "outcome"},
                                          {"seconds", "seconds"},
                                          {"why", "reason"},
                                          {"command", "command"}};
    (void)data;
    TABLE(file, json_first(result, "steps"), columns);
}

static void write_machine(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column devices[] = {
        {"device", "name"}, {"type", "type"}, {"usable", "usable"}};
    const char *processor = json_text_of(result, "processor", "");
    (void)data;
    page_paragraph(file, "FlashCore %s, %s.", json_text_of(result, "version", "?"),
                   json_text_of(result, "build", "?"));
    TABLE(file, json_first(result, "devices"), devices);
    page_paragraph(file, "Processor: %s, %.0f online, kernels for %s (used: %s).",
                   processor[0] != '\0' ? processor : "of unknown name",
                   json_number_of(result, "processors_online", 0),
                   json_text_of(result, "instruction_sets", "?"),
                   json_text_of(result, "instruction_set_used", "?"));
}

/* 2. Right: errors against their tolerances and in units of the last place. */

static void write_tolerance_histogram(FILE *file, const json_value *results)
{
    enum { BINS = 11 };
    histogram_column columns[BINS];
    for (int bin = 0; bin < BINS; bin++)
        columns[bin] = (histogram_column){.count = 0};
    for (int bin = 0; bin < BINS - 1; bin++)
        snprintf(columns[bin].label, sizeof columns[bin].label, "to %d %%", 10 * (bin + 1));
    snprintf(columns[BINS - 1].label, sizeof columns[0].label, "beyond");
    for (const json_value *row = results; row != NULL; row = row->next) {
        const double error = json_number_of(row, "max_error", INFINITY); /* JSON has no infinity */
        const double tolerance = json_number_of(row, "tolerance", 0);
        if (strcmp(json_text_of(row, "outcome", ""), "refused") == 0)
            continue;
        const double part = error > 0 ? error / tolerance : 0;
        columns[part <= 1 ? (int)fmin(part * 10, 9) : BINS - 1].count++;
    }
    page_figure_start(file);
    histogram_write(file, "Largest error of each case, by its tolerance",
                    "largest error of the output as a part of the case's tolerance; cases", columns,
                    BINS);
    page_figure_end(file, "Every case's largest error against double precision, as a part of what "
                          "it may be: twice the error of the unfused computation.");
}

static void write_ulp_histogram(FILE *file, const json_value *result)
{
    enum { MOST_BINS = 16 };
    histogram_column columns[MOST_BINS] = {{.count = 0}};
    int bins = 0;
    const json_value *limit = json_first(result, "ulp_limits");
    for (; limit != NULL && bins < MOST_BINS - 1; limit = limit->next)
        snprintf(columns[bins++].label, sizeof columns[0].label, "to %g ulp", limit->number);
    if (bins == 0)
        return;
    snprintf(columns[bins++].label, sizeof columns[0].label, "beyond");
    for (const json_value *row = json_first(result, "results"); row != NULL; row = row->next) {
        const json_value *count = json_first(row, "ulps");
        for (int bin = 0; bin < bins && count != NULL; bin++, count = count->next)
            columns[bin].count += count->number;
    }
    page_figure_start(file);
    histogram_write(file, "Errors of all elements in units of the last place",
                    "error in units of the output type's last place; elements", columns, bins);
    page_figure_end(file, "All elements of all outputs. Up to 0.5 is the correctly rounded truth; "
                          "an element near 0 beside large ones may be many units off and still "
                          "within its tolerance.");
}

static void write_check(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {{"case", "name"},
                                          {"group", "group"},
                                          {"outcome", "outcome"},
                                          {"kernel", "kernel"},
                                          {"max error", "max_error"},
                                          {"mean error", "mean_error"},
                                          {"relative", "relative_error"},
                                          {"tolerance", "tolerance"},
                                          {"LSE error", "lse_error"},
                                          {"gradient error", "gradient_error"},
                                          {"reason", "reason"}};
    (void)data;
    const json_value *results = json_first(result, "results");
    page_paragraph(file, "On %s: %.0f cases, %.0f passed, %.0f failed, %.0f refused%s.",
                   json_text_of(result, "device", "?"), json_number_of(result, "cases", 0),
                   json_number_of(result, "passed", 0), json_number_of(result, "failed", 0),
                   json_number_of(result, "refused", 0),
                   json_is_true(result, "interrupted") ? "; interrupted" : "");
    if (results != NULL) {
        write_tolerance_histogram(file, results);
        write_ulp_histogram(file, result);
    }
    FOLDED_TABLE(file, "Every case in numbers", results, columns);
}

/* 3. Fast: beside the peers, and under the roof. */

static void add_bar(waterfall_bar *bars, int *count, const waterfall_bar *bar)
{
    if (*count < MOST_BARS)
        bars[(*count)++] = *bar;
}

/* Adds the peers' bars of the same problem; the time of the fastest, or infinity. */
static double add_peers(const report_data *data, const char *problem, waterfall_bar *bars,
                        int *count)
{
    double fastest = INFINITY;
    for (int i = 0; i < data->count; i++) {
        if (strcmp(data->files[i].verb, "peers") != 0)
            continue;
        for (const json_value *row = json_first(data->files[i].json, "rows"); row != NULL;
             row = row->next) {
            if (strcmp(problem_of(row), problem) != 0 || !(time_of(row) > 0))
                continue;
            waterfall_bar bar = {
                .note = "", .microseconds = time_of(row), .shade = WATERFALL_OTHER};
            snprintf(bar.name, sizeof bar.name, "%s", json_text_of(row, "peer", "?"));
            fastest = fmin(fastest, bar.microseconds);
            add_bar(bars, count, &bar);
        }
    }
    return fastest;
}

static void write_latency(FILE *file, const report_data *data, const json_value *rows)
{
    waterfall_bar *bars = cli_allocate(MOST_BARS * sizeof *bars);
    int count = 0;
    for (const json_value *row = rows; row != NULL; row = row->next) {
        if (!(time_of(row) > 0) || count == MOST_BARS)
            continue;
        waterfall_bar *own = &bars[count++];
        *own = (waterfall_bar){.note = problem_of(row), .microseconds = time_of(row)};
        snprintf(own->name, sizeof own->name, "%s: %s", json_text_of(row, "name", "?"),
                 json_text_of(row, "kernel", "?"));
        if (add_peers(data, problem_of(row), bars, &count) < own->microseconds)
            own->shade = WATERFALL_WORSE;
    }
    if (count > 0) {
        page_figure_start(file);
        waterfall_write(file, "Latency of whole calls",
                        "grey: other programs; orange: slower than the fastest of them", bars,
                        count, false);
        page_figure_end(file, "The median of whole calls, never divided by the batch.");
    }
    free(bars);
}

static void write_roofline(FILE *file, const json_value *result)
{
    roofline_point *points = cli_allocate(MOST_BARS * sizeof *points);
    const roofline_roof roof = {.tflops = json_number_of(result, "most_tflops", 0),
                                .gigabytes_per_second =
                                    json_number_of(result, "most_gigabytes_per_second", 0)};
    int count = 0;
    for (const json_value *row = json_first(result, "rows"); row != NULL && count < MOST_BARS;
         row = row->next) {
        const double bytes = json_number_of(row, "bytes", 0);
        const double operations = json_number_of(row, "operations", 0);
        if (!(time_of(row) > 0 && bytes > 0 && operations > 0))
            continue;
        points[count].operations_a_byte = operations / bytes;
        points[count].tflops = operations / time_of(row) * 1e-6;
        snprintf(points[count].name, sizeof points[count].name, "%s",
                 json_text_of(row, "name", "?"));
        count++;
    }
    if (count > 0) {
        page_figure_start(file);
        roofline_write(file, "Roofline", &roof, points, count);
        page_figure_end(file, roof.tflops > 0 && json_is_true(result, "most_measured")
                                  ? "Speed over intensity. The roof is what two kernels reached "
                                    "on this device that do nothing but multiply, or read; what "
                                    "counts as a byte is moved once."
                              : roof.tflops > 0
                                  ? "Speed over intensity. The roof is what the device's clocks "
                                    "allow; what counts as a byte is moved once."
                                  : "Speed over intensity. The results do not say what this device "
                                    "can do at most, so that there is no roof.");
    }
    free(points);
}

static void write_bench(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {{"shape", "name"},
                                          {"problem", "problem.text"},
                                          {"without", "without"},
                                          {"kernel", "kernel"},
                                          {"check", "check"},
                                          {"p10, us", "p10_us"},
                                          {"p50, us", "p50_us"},
                                          {"p90, us", "p90_us"},
                                          {"plain p50, us", "plain_p50_us"},
                                          {"L2 cold p50, us", "cold_p50_us"},
                                          {"spread", "spread"},
                                          {"calls", "calls"},
                                          {"TFLOP/s", "tflops"},
                                          {"GB/s", "gigabytes_per_second"},
                                          {"max error", "max_error"},
                                          {"reason", "reason"}};
    page_paragraph(file, "On %s.", json_text_of(result, "device", "?"));
    write_latency(file, data, json_first(result, "rows"));
    write_roofline(file, result);
    TABLE(file, json_first(result, "rows"), columns);
}

static void write_peers(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {
        {"peer", "peer"}, {"problem", "problem.text"}, {"p50, us", "p50_us"}, {"reason", "reason"}};
    (void)data;
    page_paragraph(file, "On %s, %s.", json_text_of(result, "device", "?"),
                   json_text_of(result, "version", "?"));
    TABLE(file, json_first(result, "rows"), columns);
}

/* 4. Why: the ladder, the counts, the compiler. */

static void write_ladder(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {{"rung", "rung"},
                                          {"macro", "macro"},
                                          {"p50, us", "p50_us"},
                                          {"plain, us", "plain_p50_us"},
                                          {"gain", "speed_up"},
                                          {"registers", "registers"},
                                          {"shared bytes", "shared_bytes"},
                                          {"blocks/SM", "blocks_a_multiprocessor"},
                                          {"TFLOP/s", "tflops"},
                                          {"GB/s", "gigabytes_per_second"},
                                          {"max error", "max_error"}};
    waterfall_bar *bars = cli_allocate(MOST_BARS * sizeof *bars);
    const json_value *rungs = json_first(result, "rungs");
    int count = 0;
    (void)data;
    for (const json_value *row = rungs; row != NULL && count < MOST_BARS; row = row->next) {
        if (!(time_of(row) > 0))
            continue;
        const double gain = json_number_of(row, "speed_up", 0);
        bars[count] =
            (waterfall_bar){.note = json_text_of(row, "summary", ""),
                            .microseconds = time_of(row),
                            .shade = gain > 0 && gain < 1 ? WATERFALL_WORSE : WATERFALL_PLAIN};
        snprintf(bars[count].name, sizeof bars[count].name, "%s %s", json_text_of(row, "rung", "?"),
                 json_text_of(row, "macro", ""));
        count++;
    }
    page_paragraph(file, "On %s, %s.", json_text_of(result, "device", "?"), problem_of(rungs));
    if (count > 0) {
        page_figure_start(file);
        waterfall_write(file, "The ladder", "orange: slower than the rung it builds on", bars,
                        count, false);
        page_figure_end(file, "What each technique buys: one kernel for each idea.");
    }
    free(bars);
    TABLE(file, rungs, columns);
}

static void write_emu(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {{"GPU", "gpu"},
                                          {"tensor cores, us", "tensor_cores_us"},
                                          {"exponentials, us", "exponentials_us"},
                                          {"shared memory, us", "shared_memory_us"},
                                          {"at least, us", "at_least_us"},
                                          {"by", "bound_by"},
                                          {"memory when cold, us", "cold_memory_us"},
                                          {"peaks from", "source"}};
    (void)data;
    page_paragraph(file,
                   "%s, %s: lower bounds from what the kernel does, counted without a GPU, and "
                   "from published peaks. No time here was measured.",
                   json_text_of(result, "kernel", "?"), problem_of(result));
    TABLE(file, json_first(result, "lower_bounds"), columns);
    fputs("<details><summary>Counts</summary><div class=\"wide\"><table><tbody>\n", file);
    for (const json_value *count = json_first(result, "counts"); count; count = count->next)
        fprintf(file, "<tr><td>%s</td><td class=\"number\">%.0f</td></tr>\n", count->name,
                count->number);
    fputs("</tbody></table></div></details>\n", file);
}

static void write_resources(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {
        {"kernel", "kernel"},       {"target", "architecture"},        {"threads", "threads"},
        {"registers", "registers"}, {"shared bytes", "shared_bytes"},  {"stack", "stack_bytes"},
        {"spilled", "spill_bytes"}, {"within budget", "within_budget"}};
    (void)data;
    page_paragraph(file, "%d kernels, %.0f over their budget.",
                   length_of(json_first(result, "kernels")),
                   json_number_of(result, "over_budget", 0));
    FOLDED_TABLE(file, "Every kernel", json_first(result, "kernels"), columns);
}

/* 5. Tuned: the landscape over the two choices that have most values. */

static int place_of(char values[][32], int *count, const char *value)
{
    int place = 0;
    while (place < *count && strcmp(values[place], value) != 0)
        place++;
    if (place == *count && *count < LANDSCAPE_MOST)
        snprintf(values[(*count)++], 32, "%s", value);
    return place;
}

/* The members of "macros" are the choices of every candidate, in the same order. */
static void choose_axes(const json_value *axes, landscape *map)
{
    int first = 1, second = 1;
    for (const json_value *axis = axes; axis != NULL; axis = axis->next) {
        const int values = length_of(json_first(axis, "values"));
        const char *name = json_text_of(axis, "macro", "?");
        if (values > first) {
            second = first;
            snprintf(map->y_name, sizeof map->y_name, "%s", map->x_name);
            first = values;
            snprintf(map->x_name, sizeof map->x_name, "%s", name);
        } else if (values > second) {
            second = values;
            snprintf(map->y_name, sizeof map->y_name, "%s", name);
        }
    }
}

static bool fill_landscape(const json_value *result, landscape *map)
{
    bool any = false;
    choose_axes(json_first(result, "axes"), map);
    for (int y = 0; y < LANDSCAPE_MOST; y++)
        for (int x = 0; x < LANDSCAPE_MOST; x++)
            map->microseconds[y][x] = NAN;
    for (const json_value *row = json_first(result, "candidates"); row; row = row->next) {
        const json_value *macros = json_member(row, "macros");
        const int x =
            place_of(map->x_values, &map->x_count, json_text_of(macros, map->x_name, "-"));
        const int y =
            place_of(map->y_values, &map->y_count, json_text_of(macros, map->y_name, "-"));
        if (x == LANDSCAPE_MOST || y == LANDSCAPE_MOST || !(time_of(row) > 0))
            continue;
        map->microseconds[y][x] = fmin(time_of(row), map->microseconds[y][x]); /* NaN loses */
        any = true;
    }
    return any;
}

static void write_tune(FILE *file, const report_data *data, const json_value *result)
{
    static const page_column columns[] = {
        {"choice", "text"},         {"outcome", "outcome"},           {"p50, us", "p50_us"},
        {"registers", "registers"}, {"shared bytes", "shared_bytes"}, {"spilled", "spill_bytes"},
        {"reason", "reason"}};
    landscape *map = cli_allocate(sizeof *map);
    (void)data;
    page_paragraph(file, "%s on %s, %s: best %s.", json_text_of(result, "kernel", "?"),
                   json_text_of(result, "device", "?"), problem_of(result),
                   json_text_of(result, "best", "none"));
    if (fill_landscape(result, map)) {
        page_figure_start(file);
        landscape_write(file, "Tuning landscape", map);
        page_figure_end(file,
                        "Microseconds over the two choices with most values, the best over all "
                        "others; framed: the fastest.");
    }
    free(map);
    TABLE(file, json_first(result, "candidates"), columns);
}

/* 6. The page. */

static const struct {
    const char *verb, *heading;
    void (*write)(FILE *file, const report_data *data, const json_value *result);
} sections[] = {
    {"repro", "What was run", write_steps},
    {"info", "The machine", write_machine},
    {"check", "Is it right?", write_check},
    {"bench", "How fast is it?", write_bench},
    {"peers", "Other programs", write_peers},
    {"ladder", "The ladder", write_ladder},
    {"tune", "Tuning", write_tune},
    {"emu", "What it must cost at least", write_emu},
    {"resources", "What the compiler used", write_resources},
};
enum { SECTION_COUNT = sizeof sections / sizeof sections[0] };

bool sections_know(const char *verb)
{
    for (int i = 0; i < SECTION_COUNT; i++)
        if (strcmp(sections[i].verb, verb) == 0)
            return true;
    return false;
}

void sections_write(FILE *file, const report_data *data)
{
    for (int i = 0; i < SECTION_COUNT; i++)
        for (int f = 0; f < data->count; f++) {
            const report_file *result = &data->files[f];
            if (strcmp(result->verb, sections[i].verb) != 0)
                continue;
            char *heading = cli_format("%s (%s)", sections[i].heading, result->name);
            page_heading(file, heading);
            free(heading);
            sections[i].write(file, data, result->json);
        }
}
