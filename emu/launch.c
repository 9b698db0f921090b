/* launch.c: see launch.h. Clusters are handed out in the order of the grid, so that when one fails
 * all before it have run or will: which failure is reported does not depend on the timing. */
#include "launch.h"

#include "source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORKERS = 64, REPORT_BYTES = 16384 };

typedef struct grid {
    const emu_launch *launch;
    uint64_t clusters;
    atomic_uint_fast64_t next;
    atomic_bool stop;
} grid;

typedef struct worker {
    grid *grid;
    emu_machine *machine;
    uint64_t failed_cluster;
    bool no_memory;
} worker;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static emu_machine *machines[MOST_WORKERS]; /* kept from launch to launch */
static emu_counts counts;
static char report[REPORT_BYTES];

static void *work(void *argument)
{
    worker *w = argument;
    grid *g = w->grid;
    const emu_launch *launch = g->launch;
    const unsigned columns = launch->grid[0] / launch->cluster;
    if (!emu_machine_prepare(w->machine, launch)) {
        w->no_memory = true;
        return NULL;
    }
    while (!g->stop) {
        const uint64_t cluster = g->next++;
        if (cluster >= g->clusters)
            break;
        const uint64_t row = cluster / columns;
        emu_machine_run(w->machine, (unsigned)(cluster % columns) * launch->cluster,
                        (unsigned)(row % launch->grid[1]), (unsigned)(row / launch->grid[1]));
        if (w->machine->failure.failed) {
            w->failed_cluster = cluster;
            g->stop = true;
        }
    }
    return NULL;
}

static unsigned worker_count(uint64_t clusters)
{
    const char *given = getenv("FLASHCORE_EMU_THREADS");
    long wanted = given && atoi(given) > 0 ? atoi(given) : sysconf(_SC_NPROCESSORS_ONLN);
    if ((uint64_t)wanted > clusters)
        wanted = (long)clusters;
    return wanted < 1 ? 1 : wanted > MOST_WORKERS ? MOST_WORKERS : (unsigned)wanted;
}

static bool run_workers(grid *g, worker *workers, unsigned count)
{
    pthread_t threads[MOST_WORKERS];
    unsigned started = 1;
    for (unsigned i = 0; i < count; i++) {
        if (!machines[i] && !(machines[i] = emu_machine_create()))
            return false;
        workers[i] = (worker){.grid = g, .machine = machines[i]};
    }
    while (started < count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    return true;
}

static const worker *first_failure(const worker *workers, unsigned count)
{
    const worker *first = NULL;
    for (unsigned i = 0; i < count; i++)
        if (workers[i].machine->failure.failed &&
            (!first || workers[i].failed_cluster < first->failed_cluster))
            first = &workers[i];
    return first;
}

/* Of the launch before: the first block that its follower may meet while it still runs; 0 where
 * none may. Block 0 is nobody. */
static uint32_t running;
static uint32_t next_block = 1;

static void number_blocks(emu_launch *launch)
{
    launch->first_block = next_block;
    launch->first_running = launch->starts_early && running ? running : next_block;
    next_block += launch->grid[0] * launch->grid[1] * launch->grid[2];
}

static void note_running(const emu_launch *launch, const worker *workers, unsigned count)
{
    bool starts = false, hurries = false;
    for (unsigned i = 0; i < count; i++) {
        starts |= workers[i].machine->lets_next_start;
        hurries |= workers[i].machine->lets_next_hurry;
    }
    running = hurries ? launch->first_running : starts ? launch->first_block : 0;
}

static bool run_grid(const emu_launch *launch)
{
    worker workers[MOST_WORKERS];
    grid g = {.launch = launch,
              .clusters =
                  (uint64_t)launch->grid[0] / launch->cluster * launch->grid[1] * launch->grid[2]};
    const unsigned count = worker_count(g.clusters);
    bool ok = run_workers(&g, workers, count);
    for (unsigned i = 0; ok && i < count; i++)
        ok = !workers[i].no_memory;
    if (!ok) {
        snprintf(report, sizeof report, "no memory for the threads of a block");
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        emu_counts_add(&counts, &workers[i].machine->counts);
    counts.totals.launches++;
    note_running(launch, workers, count);
    const worker *failed = first_failure(workers, count);
    if (failed)
        emu_source_expand(&failed->machine->failure, report, sizeof report);
    return !failed;
}

bool emu_launch_run(const emu_launch *launch)
{
    emu_launch numbered = *launch;
    pthread_mutex_lock(&one_at_a_time);
    number_blocks(&numbered);
    const bool ok = run_grid(&numbered);
    pthread_mutex_unlock(&one_at_a_time);
    return ok;
}

void emu_launch_wait(void)
{
    pthread_mutex_lock(&one_at_a_time);
    running = 0;
    pthread_mutex_unlock(&one_at_a_time);
}

const char *emu_launch_report(void)
{
    return report;
}

void emu_launch_reset(void)
{
    emu_counts_start(&counts);
}

const emu_counts *emu_launch_counts(void)
{
    return &counts;
}
