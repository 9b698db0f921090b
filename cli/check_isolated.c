/* check_isolated.c: see check_rows.h. The other process says in one record what came of a case and
 * which it begins next, so that from its first record to its last it is inside a case, and falling
 * silent says what came of that one. */
#include "check_rows.h"
#include "interrupt.h"
#include "output.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double default_limit = 300;

/* Names of groups and kernels are constants of this program: their addresses hold in both. */
typedef struct case_record {
    size_t index, count; /* index: of the case that begins; count: none does */
    bool has_result;
    char device[128];
    check_row ended, begun;
} case_record;

/* 1. The other process. */

static bool send_record(int to, const case_record *record)
{
    return write(to, record, sizeof *record) == (ssize_t)sizeof *record;
}

/* A driver's error stays with the process: it leaves the case that it would begin to another. */
static bool is_spoilt(const case_record *record)
{
    const check_result *result = &record->ended.result;
    return record->has_result && result->outcome == CHECK_FAILED &&
           strstr(result->reason, "FC_ERROR_DRIVER") != NULL;
}

static void work(const cli_arguments *arguments, check_report *report, size_t first, int to)
{
    static case_record record;
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!check_open(arguments, report))
        return;
    memcpy(record.device, report->device, sizeof record.device);
    record.count = report->wanted;
    for (record.index = first;; record.index++) {
        if (record.index < record.count)
            record.begun = report->rows[record.index];
        if (!send_record(to, &record) || record.index == record.count || is_spoilt(&record))
            return;
        record.ended = record.begun;
        record.has_result = true;
        check_run_case(report, &record.ended);
    }
}

static pid_t start_worker(const cli_arguments *arguments, check_report *report, size_t first,
                          int *from)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        return -1;
    const pid_t worker = fork();
    if (worker == 0) {
        close(ends[0]);
        work(arguments, report, first, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    *from = ends[0];
    return worker;
}

/* 2. This process. */

typedef enum read_outcome { READ_RECORD, READ_END, READ_NOTHING } read_outcome;

/* Records may come in pieces. Waits in short turns, so that an interrupt is seen. */
static read_outcome read_record(int from, double limit, case_record *record)
{
    enum { TURN_MILLISECONDS = 100 };
    size_t have = 0;
    for (double waited = 0; waited < limit && !cli_interrupted();) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (poll(&ready, 1, TURN_MILLISECONDS) <= 0) {
            waited += TURN_MILLISECONDS * 1e-3;
            continue;
        }
        const ssize_t got = read(from, (char *)record + have, sizeof *record - have);
        if (got <= 0)
            return READ_END;
        have += (size_t)got;
        if (have == sizeof *record)
            return READ_RECORD;
    }
    return READ_NOTHING;
}

static void add_row(check_report *report, const check_row *row)
{
    report->rows[report->done++] = *row;
}

static void add_broken(check_report *report, const check_row *begun, int status, bool hung,
                       double limit)
{
    check_row row = *begun;
    row.result = (check_result){.outcome = CHECK_FAILED};
    if (hung)
        snprintf(row.result.reason, sizeof row.result.reason,
                 "no answer in %.0f s: its process was stopped", limit);
    else if (WIFSIGNALED(status))
        snprintf(row.result.reason, sizeof row.result.reason,
                 "its process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(row.result.reason, sizeof row.result.reason, "its process ended with status %d",
                 WEXITSTATUS(status));
    add_row(report, &row);
}

/* Where a walk through the cases has come to. */
typedef struct walk {
    const cli_arguments *arguments;
    check_report *chosen; /* what every new process draws its sample from */
    check_report *report;
    size_t next;
    bool opened; /* some process could open the device */
} walk;

/* Takes in what a process says, to its last record; how it fell silent. */
static read_outcome listen(walk *w, int from, double limit, case_record *last)
{
    static case_record record;
    read_outcome outcome;
    while ((outcome = read_record(from, limit, &record)) == READ_RECORD) {
        *last = record;
        w->opened = true;
        w->next = record.index;
        w->report->wanted = record.count;
        memcpy(w->report->device, record.device, sizeof record.device);
        if (record.has_result)
            add_row(w->report, &record.ended);
        if (record.index < record.count)
            cli_progress("[%zu/%zu] %s", record.index + 1, record.count, record.begun.of.name);
    }
    return outcome;
}

/* One process, from the next case on. True: another is needed. */
static bool run_worker(walk *w)
{
    static case_record last;
    const double limit = w->arguments->limit > 0 ? w->arguments->limit : default_limit;
    int from, status = 0;
    const pid_t worker = start_worker(w->arguments, w->chosen, w->next, &from);
    if (worker < 0)
        return cli_refuse("no process could be started");
    last.count = 0;
    const read_outcome outcome = listen(w, from, limit, &last);
    if (outcome == READ_NOTHING)
        kill(-worker, SIGKILL);
    waitpid(worker, &status, 0);
    close(from);
    cli_progress("%s", "");
    const bool said_nothing = last.count == 0;
    if (cli_interrupted() || said_nothing || w->next == last.count)
        return false;
    if (!is_spoilt(&last)) {
        add_broken(w->report, &last.begun, status, outcome == READ_NOTHING, limit);
        w->next++;
    }
    return w->next < last.count;
}

bool check_run_isolated(const cli_arguments *arguments, check_report *report)
{
    check_report chosen = *report;
    walk w = {.arguments = arguments, .chosen = &chosen, .report = report};
    report->rows = cli_allocate((chosen.wanted + 1) * sizeof *report->rows);
    cli_catch_interrupts();
    while (run_worker(&w))
        ;
    free(chosen.rows);
    report->interrupted = cli_interrupted() && report->done < report->wanted;
    return w.opened;
}
