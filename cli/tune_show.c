/* tune_show.c: why the best is the best, and where it is kept. */
#include "files.h"
#include "output.h"
#include "table.h"
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Those that were measured in the last round; times of earlier ones are shorter measurements. */
const tune_candidate *tune_best(const tune_search *search)
{
    const tune_candidate *best = NULL;
    for (int i = 0; i < search->count; i++) {
        const tune_candidate *candidate = &search->candidates[i];
        if (candidate->outcome != TUNE_TIMED)
            continue;
        if (best == NULL || candidate->rounds > best->rounds ||
            (candidate->rounds == best->rounds && candidate->p50 < best->p50))
            best = candidate;
    }
    return best;
}

bool tune_is_better(const tune_search *search, const tune_candidate *candidate)
{
    const tune_candidate *built = &search->candidates[0];
    return candidate != built && built->outcome == TUNE_TIMED && candidate->p50 < built->p10;
}

/* 1. In words and numbers. */

static int count_outcome(const tune_search *search, tune_outcome outcome)
{
    int count = 0;
    for (int i = 0; i < search->count; i++)
        count += search->candidates[i].outcome == outcome;
    return count;
}

static double best_with(const tune_search *search, int axis, int value)
{
    double best = INFINITY;
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].outcome == TUNE_TIMED &&
            search->candidates[i].choice[axis] == value)
            best = fmin(best, search->candidates[i].p50);
    return best;
}

static void show_axes(const tune_search *search)
{
    printf("\nWhat each choice allows, the best over all others, us:\n\n");
    for (int axis = 0; axis < search->axis_count; axis++) {
        printf("  %-16s", search->axes[axis].name);
        for (int value = 0; value < search->axes[axis].count; value++) {
            const double best = best_with(search, axis, value);
            printf(isfinite(best) ? "  %s: %.4g" : "  %s: none", search->axes[axis].values[value],
                   best);
        }
        printf("\n");
    }
}

static int compare_candidates(const void *left, const void *right)
{
    const tune_candidate *a = left, *b = right;
    if (a->rounds != b->rounds)
        return b->rounds - a->rounds;
    return (a->p50 > b->p50) - (a->p50 < b->p50);
}

static void show_fastest(const tune_search *search)
{
    enum { SHOWN = 8 };
    tune_candidate *sorted = cli_allocate((size_t)search->count * sizeof *sorted);
    int count = 0;
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].outcome == TUNE_TIMED)
            sorted[count++] = search->candidates[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_candidates);
    text_table table = table_start("lrrrrrr", "candidate", "p50, us", "p10", "p90", "rounds",
                                   "registers", "shared");
    for (int i = 0; i < count && i < SHOWN; i++) {
        table_cell(&table, "%s", sorted[i].text[0] != '\0' ? sorted[i].text : "as built");
        table_cell(&table, "%.4g", sorted[i].p50);
        table_cell(&table, "%.4g", sorted[i].p10);
        table_cell(&table, "%.4g", sorted[i].p90);
        table_cell(&table, "%d", sorted[i].rounds);
        table_cell(&table, sorted[i].registers > 0 ? "%d" : "-", sorted[i].registers);
        table_cell(&table, sorted[i].registers > 0 ? "%d" : "-", sorted[i].shared_bytes);
    }
    printf("\n");
    table_print(&table, stdout);
    free(sorted);
}

static void show_fallen(const tune_search *search)
{
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].outcome == TUNE_FAILED)
            printf("\nFAILED %s: %s\n", search->candidates[i].text, search->candidates[i].reason);
}

void tune_show(const tune_search *search)
{
    const tune_candidate *built = &search->candidates[0], *best = tune_best(search);
    printf("%s, %s on %s: %d candidates, %d refused by the compiler, %d pruned by what it said of "
           "them, %d failed, %d %s%s\n",
           search->variant[0] != '\0' ? search->variant : search->kernel, search->problem_text,
           search->device, search->count, count_outcome(search, TUNE_REFUSED),
           count_outcome(search, TUNE_PRUNED), count_outcome(search, TUNE_FAILED),
           count_outcome(search, TUNE_TIMED), search->mode == TUNE_EMU ? "counted" : "timed",
           count_outcome(search, TUNE_WAITING) > 0 ? "; not at its end" : "");
    if (search->mode == TUNE_EMU)
        printf("Times add up how long tensor cores, exponentials and shared memory of an %s are "
               "busy, by counts and\npublished peaks: they rank what a kernel does, not how well "
               "it overlaps and hides latencies.\n",
               search->gpu);
    if (best == NULL)
        return;
    if (tune_is_better(search, best))
        printf("\nbest: %s, %.4g us; as built %.4g us: %.1f %% faster\n", best->text, best->p50,
               built->p50, 100 * (1 - best->p50 / built->p50));
    else
        printf("\nbest: as built, %.4g us: no candidate is faster by more than the spread of its "
               "times\n",
               built->p50);
    show_fastest(search);
    show_axes(search);
    show_fallen(search);
}

/* 2. In the file that plans read. */

static bool is_row_of(const char *line, const char *key)
{
    return strncmp(line, key, strlen(key)) == 0;
}

bool tune_store(const tune_search *search)
{
    const tune_candidate *best = tune_best(search), *built = &search->candidates[0];
    const char *named = getenv("FLASHCORE_TUNED");
    const char *path = named != NULL && *named != '\0' ? named : "flashcore-tuned.txt";
    const bool is_new = access(path, F_OK) != 0;
    const bool better = best != NULL && tune_is_better(search, best);
    if (is_new && !better)
        return true;
    char *before = is_new ? cli_format("# GPU | variant | kind of problem | macros | remarks; "
                                       "read where FLASHCORE_TUNED names this file\n")
                          : cli_read_text(path);
    char *key = cli_format("%s | %s | %s | ", search->device, search->variant, search->bucket);
    cli_output output = {0};
    bool ok = before != NULL && cli_output_open(&output, path);
    if (ok) {
        for (char *line = strtok(before, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if (!is_row_of(line, key))
                fprintf(output.file, "%s\n", line);
        if (better)
            fprintf(output.file, "%s%s | %.4g us, as built %.4g us, best of %d\n", key, best->text,
                    best->p50, built->p50, search->count);
        ok = cli_output_commit(&output);
    }
    if (ok && better)
        printf("\nkept in %s; plans use it where FLASHCORE_TUNED=%s\n", path, path);
    cli_output_discard(&output);
    free(before);
    free(key);
    return ok;
}
