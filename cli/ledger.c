/* ledger.c: `flashcore ledger`: what was tried, what came of it. */
#include "ledger.h"
#include "files.h"
#include "output.h"
#include "table.h"
#include "verbs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char default_path[] = "docs/ledger.txt";

/* 1. Two results of bench or ladder, before a change and after it. */

enum { MOST_PAIRS = 64 };

typedef enum pair_change { PAIR_SAME, PAIR_FASTER, PAIR_SLOWER } pair_change;

typedef struct result_pair {
    char name[200];
    double before, after; /* us */
    pair_change change;
} result_pair;

typedef struct comparison {
    json_value *before, *after;
    int count;
    result_pair pairs[MOST_PAIRS];
} comparison;

static const json_value *rows_of(const json_value *result)
{
    const json_value *rows = json_first(result, "rows");
    return rows != NULL ? rows : json_first(result, "rungs");
}

static void name_row(const json_value *row, char name[200])
{
    const char *rung = json_text_of(row, "rung", ""), *macro = json_text_of(row, "macro", "");
    const char *without = json_text_of(row, "without", "");
    snprintf(name, 200, "%s%s%s%s%s%s%s", rung, *macro ? " " : "", macro, *rung ? " " : "",
             json_text_of(json_member(row, "problem"), "text", "?"), *without ? " without " : "",
             without);
}

/* A median outside the other's middle four fifths is a change; inside it is luck. */
static pair_change judge(const json_value *before, double after)
{
    if (after < json_number_of(before, "p10_us", 0))
        return PAIR_FASTER;
    return after > json_number_of(before, "p90_us", INFINITY) ? PAIR_SLOWER : PAIR_SAME;
}

static void add_pair(comparison *c, const json_value *before)
{
    result_pair pair;
    char other[200];
    name_row(before, pair.name);
    for (const json_value *after = rows_of(c->after); after != NULL; after = after->next) {
        name_row(after, other);
        pair.before = json_number_of(before, "p50_us", 0);
        pair.after = json_number_of(after, "p50_us", 0);
        if (strcmp(pair.name, other) != 0 || !(pair.before > 0 && pair.after > 0) ||
            c->count == MOST_PAIRS)
            continue;
        pair.change = judge(before, pair.after);
        c->pairs[c->count++] = pair;
        return;
    }
}

static bool compare(const cli_arguments *arguments, comparison *c)
{
    c->before = cli_read_json(arguments->before_path);
    c->after = c->before != NULL ? cli_read_json(arguments->after_path) : NULL;
    if (c->after == NULL)
        return false;
    for (const json_value *row = rows_of(c->before); row != NULL; row = row->next)
        add_pair(c, row);
    return c->count > 0 || cli_refuse("%s and %s have no timed problem in common",
                                      arguments->before_path, arguments->after_path);
}

static void print_comparison(const comparison *c)
{
    static const char *const words[] = {
        [PAIR_SAME] = "same", [PAIR_FASTER] = "faster", [PAIR_SLOWER] = "slower"};
    text_table table = table_start("lrrrl", "", "before, us", "after, us", "times", "");
    for (int i = 0; i < c->count; i++) {
        table_cell(&table, "%s", c->pairs[i].name);
        table_cell(&table, "%.2f", c->pairs[i].before);
        table_cell(&table, "%.2f", c->pairs[i].after);
        table_cell(&table, "%.3f", c->pairs[i].before / c->pairs[i].after);
        table_cell(&table, "%s", words[c->pairs[i].change]);
    }
    table_print(&table, stdout);
    printf("\nsame: the median after lies between the 10th and the 90th percentile before\n");
}

static const char *verdict_of(const comparison *c)
{
    bool faster = false, slower = false;
    for (int i = 0; i < c->count; i++) {
        faster |= c->pairs[i].change == PAIR_FASTER;
        slower |= c->pairs[i].change == PAIR_SLOWER;
    }
    return !faster ? "negative" : slower ? "mixed" : "kept";
}

static char *measured_text(const comparison *c)
{
    char *text = cli_format("%s", "");
    for (int i = 0; i < c->count; i++) {
        char *longer = cli_format("%s%s%s %.2f → %.2f µs", text, i > 0 ? "; " : "",
                                  c->pairs[i].name, c->pairs[i].before, c->pairs[i].after);
        free(text);
        text = longer;
    }
    return text;
}

/* 2. One more experiment. */

static char *today(void)
{
    char text[16];
    const time_t now = time(NULL);
    struct tm broken_down;
    strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &broken_down));
    return cli_format("%s", text);
}

/* "144ba2b", with "-dirty" where the sources have changed since; NULL where there is no git. */
static char *present_commit(void)
{
    char text[64] = "";
    FILE *git = popen("git describe --always --dirty --exclude='*' 2>/dev/null", "r");
    if (git == NULL)
        return NULL;
    const bool found = fgets(text, sizeof text, git) != NULL;
    return pclose(git) == 0 && found ? cli_format("%.*s", (int)strcspn(text, "\n"), text) : NULL;
}

static char *given(const char *text)
{
    return text != NULL ? cli_format("%s", text) : NULL;
}

static void fill_entry(const cli_arguments *arguments, const comparison *c, ledger_entry *entry)
{
    char **fields = entry->fields;
    fields[LEDGER_date] = today();
    fields[LEDGER_change] = given(arguments->change);
    fields[LEDGER_predicted] = given(arguments->predicted);
    fields[LEDGER_measured] = given(arguments->measured);
    fields[LEDGER_verdict] = given(arguments->verdict);
    fields[LEDGER_gpu] = given(arguments->gpu);
    fields[LEDGER_commit] = arguments->commit ? given(arguments->commit) : present_commit();
    fields[LEDGER_how] = given(arguments->how);
    if (c->count == 0)
        return;
    if (fields[LEDGER_measured] == NULL)
        fields[LEDGER_measured] = measured_text(c);
    if (fields[LEDGER_verdict] == NULL)
        fields[LEDGER_verdict] = given(verdict_of(c));
    if (fields[LEDGER_gpu] == NULL)
        fields[LEDGER_gpu] = given(json_text_of(c->after, "device", NULL));
    if (fields[LEDGER_how] == NULL)
        fields[LEDGER_how] =
            cli_format("`flashcore %s`, before and after", json_text_of(c->after, "verb", "?"));
}

static bool append(const char *path, const ledger_entry *entry)
{
    char *text = cli_read_text(path);
    cli_output output = {0};
    bool ok = text != NULL && cli_output_open(&output, path);
    if (ok) {
        const size_t length = strlen(text);
        const bool open_line = length > 0 && text[length - 1] != '\n';
        const bool has_gap = length < 2 || strcmp(text + length - 2, "\n\n") == 0;
        fprintf(output.file, "%s%s%s", text, open_line ? "\n" : "", has_gap ? "" : "\n");
        ledger_write_entry(output.file, entry);
        ok = cli_output_commit(&output);
    }
    cli_output_discard(&output);
    free(text);
    return ok;
}

static bool add(const cli_arguments *arguments, const char *path, const comparison *c)
{
    char complaint[LEDGER_COMPLAINT_BYTES];
    ledger_entry entry = {{0}};
    fill_entry(arguments, c, &entry);
    bool ok = ledger_accepts(&entry, complaint) ||
              cli_refuse("nothing was recorded: %s; --add wants --change and --predicted, and "
                         "--measured, --verdict, --gpu and --how or two results to read them from "
                         "(--before, --after), and --commit outside of git",
                         complaint);
    ok = ok && append(path, &entry);
    if (ok)
        printf("recorded in %s: %s\n", path, entry.fields[LEDGER_verdict]);
    for (int field = 0; field < LEDGER_FIELD_COUNT; field++)
        free(entry.fields[field]);
    return ok;
}

/* 3. All experiments, or those the flags choose. */

static bool matches(const cli_arguments *arguments, const ledger_entry *entry)
{
    if (arguments->verdict && strcmp(arguments->verdict, entry->fields[LEDGER_verdict]) != 0)
        return false;
    if (arguments->gpu && strstr(entry->fields[LEDGER_gpu], arguments->gpu) == NULL)
        return false;
    bool found = arguments->filter == NULL;
    for (int field = 0; field < LEDGER_FIELD_COUNT && !found; field++)
        found = strstr(entry->fields[field], arguments->filter) != NULL;
    return found;
}

static void choose(const cli_arguments *arguments, ledger *experiments)
{
    int kept = 0;
    for (int i = 0; i < experiments->count; i++) {
        ledger_entry entry = experiments->entries[i];
        const bool wanted = matches(arguments, &entry);
        experiments->entries[i] = experiments->entries[kept];
        experiments->entries[kept] = entry;
        kept += wanted;
    }
    for (int i = kept; i < experiments->count; i++)
        for (int field = 0; field < LEDGER_FIELD_COUNT; field++)
            free(experiments->entries[i].fields[field]);
    experiments->count = kept;
}

static void print_line(const char *name, const char *text)
{
    const size_t indent = 13;
    printf("  %-11s", name);
    table_wrap(stdout, text, indent, indent);
}

static void print_text(const ledger *experiments)
{
    for (int i = 0; i < experiments->count; i++) {
        char *const *fields = experiments->entries[i].fields;
        printf("%s  %s on %s, commit %s\n", fields[LEDGER_date], fields[LEDGER_verdict],
               fields[LEDGER_gpu], fields[LEDGER_commit]);
        print_line("change", fields[LEDGER_change]);
        print_line("predicted", fields[LEDGER_predicted]);
        print_line("measured", fields[LEDGER_measured]);
        print_line("how", fields[LEDGER_how]);
        printf("\n");
    }
    printf("%d experiments\n", experiments->count);
}

static void write_json(json_writer *json, const void *data)
{
    const ledger *experiments = data;
    cli_json_result(json, "ledger");
    json_array(json, "experiments");
    for (int i = 0; i < experiments->count; i++) {
        json_object(json, NULL);
        for (int field = 0; field < LEDGER_FIELD_COUNT; field++)
            json_text(json, ledger_field_names[field], experiments->entries[i].fields[field]);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static bool show(const cli_arguments *arguments, const char *path)
{
    char complaint[LEDGER_COMPLAINT_BYTES];
    ledger experiments = {0};
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return cli_refuse("cannot read %s: %s; name the ledger, or run this in the folder of the "
                          "sources",
                          path, strerror(errno));
    bool ok = ledger_read(file, &experiments, complaint) || cli_refuse("%s, %s", path, complaint);
    fclose(file);
    if (ok) {
        choose(arguments, &experiments);
        if (arguments->markdown)
            ledger_write_markdown(stdout, &experiments);
        else if (cli_wants_text(arguments))
            print_text(&experiments);
        ok = cli_write_json(arguments, write_json, &experiments);
    }
    ledger_free(&experiments);
    return ok;
}

/* 4. The verb. */

int cli_ledger(const cli_arguments *arguments)
{
    const char *path = arguments->operand != NULL ? arguments->operand : default_path;
    const bool has_results = arguments->before_path != NULL || arguments->after_path != NULL;
    if (has_results && (arguments->before_path == NULL || arguments->after_path == NULL))
        return cli_fail(CLI_USAGE, "--before and --after go together: two results to compare");
    comparison *c = cli_allocate(sizeof *c);
    bool ok = !has_results || compare(arguments, c);
    if (ok && has_results)
        print_comparison(c);
    if (ok && arguments->add)
        ok = add(arguments, path, c);
    else if (ok && !has_results)
        ok = show(arguments, path);
    json_free(c->before);
    json_free(c->after);
    free(c);
    return ok ? CLI_OK : CLI_FAILED;
}
