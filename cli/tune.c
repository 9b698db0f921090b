/* tune.c: `flashcore tune`: successive halving over a kernel's choices. */
#include "tune.h"
#include "bench.h"
#include "files.h"
#include "interrupt.h"
#include "output.h"
#include "verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each round keeps a part of the round before and gives it more time. */
static const struct {
    int divide_by, at_least;
    double part; /* of --seconds */
} rounds[] = {{1, 0, 0.1}, {4, 4, 0.3}, {4, 3, 1.0}};
enum { ROUND_COUNT = sizeof rounds / sizeof rounds[0] };

/* 1. Progress. */

static void show_progress(const char *what, int done, int count, double started)
{
    enum { WIDTH = 24 };
    const double left = done > 0 ? (bench_now() - started) / done * (count - done) : 0;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i * count < done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    if (done > 0)
        cli_progress("[%s] %d/%d, about %.0f s left: %s", bar, done, count, left, what);
    else
        cli_progress("[%s] %d/%d: %s", bar, done, count, what);
}

/* 2. One round. */

/* The time that a candidate must not exceed to stay: of those with `round` rounds behind them. */
static double limit_of(const tune_search *search, int round)
{
    double *times = cli_allocate((size_t)search->count * sizeof *times);
    int count = 0;
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].outcome == TUNE_TIMED && search->candidates[i].rounds >= round)
            times[count++] = search->candidates[i].p50;
    bench_sort(times, (size_t)count);
    int keep = count / rounds[round].divide_by;
    if (keep < rounds[round].at_least)
        keep = rounds[round].at_least;
    const double limit = keep == 0 || keep >= count ? (double)INFINITY : times[keep - 1];
    free(times);
    return limit;
}

/* The kernel as it is built stays to the end: it is what the others are held to. */
static bool is_due(const tune_search *search, int index, int round, double limit)
{
    const tune_candidate *candidate = &search->candidates[index];
    if (round == 0)
        return candidate->outcome == TUNE_WAITING;
    return candidate->outcome == TUNE_TIMED && candidate->rounds == round &&
           (candidate->p50 <= limit || index == 0);
}

static bool run_round(tune_search *search, int round, double seconds)
{
    const double limit = round > 0 ? limit_of(search, round) : INFINITY;
    const double started = bench_now();
    int *due = cli_allocate((size_t)search->count * sizeof *due);
    int count = 0;
    bool ok = true;
    for (int i = 0; i < search->count; i++)
        if (is_due(search, i, round, limit))
            due[count++] = i;
    for (int i = 0; ok && i < count && !cli_interrupted(); i++) {
        tune_candidate *candidate = &search->candidates[due[i]];
        const tune_candidate before = *candidate;
        show_progress(candidate->text, i, count, started);
        tune_measure(search, candidate, seconds * rounds[round].part);
        if (cli_interrupted())
            *candidate = before; /* the interrupt ended it, not a mistake of its own */
        ok = tune_write(search);
    }
    cli_progress("%s", "");
    free(due);
    return ok;
}

/* 3. The verb. */

static bool run_search(tune_search *search)
{
    const double seconds = search->arguments->seconds > 0 ? search->arguments->seconds : 1;
    const int count = search->mode == TUNE_EMU ? 1 : ROUND_COUNT; /* counts do not vary */
    cli_catch_interrupts();
    bool ok = tune_look(search) && tune_make_candidates(search) && tune_read(search);
    if (ok && search->mode != TUNE_CPU)
        ok = tune_compile(search);
    for (int round = 0; ok && round < count && !cli_interrupted(); round++)
        ok = run_round(search, round, seconds);
    search->interrupted = cli_interrupted();
    ok = ok && tune_write(search);
    if (!ok)
        return false;
    tune_show(search);
    if (search->candidates[0].outcome == TUNE_FAILED)
        return cli_refuse("the kernel as it is built failed: %s", search->candidates[0].reason);
    if (search->interrupted)
        printf("\ninterrupted; the same command goes on from %s\n", search->path);
    else if (search->mode == TUNE_CUDA && search->source == NULL)
        return tune_store(search); /* a file of one's own is no kernel that plans would find */
    return true;
}

static bool list_choices(tune_search *search)
{
    if (!tune_look(search) || !tune_make_candidates(search))
        return false;
    printf("%s: %d candidates beside it as built\n",
           search->variant[0] ? search->variant : search->problem_text, search->count - 1);
    for (int axis = 0; axis < search->axis_count; axis++) {
        printf("  %-16s", search->axes[axis].name);
        for (int value = 0; value < search->axes[axis].count; value++)
            printf(" %s", search->axes[axis].values[value]);
        printf("\n");
    }
    return true;
}

int cli_tune(const cli_arguments *arguments)
{
    tune_search *search = cli_allocate(sizeof *search);
    search->arguments = arguments;
    search->mode = arguments->context.device_type == FC_CPU ? TUNE_CPU
                   : arguments->emulated                    ? TUNE_EMU
                                                            : TUNE_CUDA;
    snprintf(search->gpu, sizeof search->gpu, "%s", arguments->gpu ? arguments->gpu : "L4");
    search->problem = cli_problem(arguments);
    cli_problem_text(&search->problem, search->problem_text);
    snprintf(search->path, sizeof search->path, "%s",
             arguments->operand != NULL ? arguments->operand : "tune.json");
    if (arguments->source_path != NULL)
        search->source = cli_read_text(arguments->source_path);
    bool ok = arguments->source_path == NULL || search->source != NULL;
    if (arguments->show) {
        ok = ok && tune_load(search);
        if (ok)
            tune_show(search);
    } else if (arguments->list) {
        ok = ok && list_choices(search);
    } else {
        ok = ok && run_search(search);
    }
    const bool interrupted = search->interrupted && !arguments->show;
    free(search->candidates);
    free(search->source);
    free(search);
    return interrupted ? CLI_INTERRUPTED : ok ? CLI_OK : CLI_FAILED;
}
