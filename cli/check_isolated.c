/* check_isolated.c: see check_rows.h. The other process says which case it begins and what came of
 * it, one record each; that it ends in between says the rest. */
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
    size_t index, count;
    bool is_result; /* or else a beginning */
    char device[128];
    check_row row;
} case_record;

enum { ENDED = 0, NOT_OPENED = 1, SPOILT = 3 }; /* how the other process ends */

/* 1. The other process. */

static bool send_record(int to, const case_record *record)
{
    return write(to, record, sizeof *record) == (ssize_t)sizeof *record;
}

/* A driver's error stays with the process. */
static bool is_spoilt(const check_result *result)
{
    return result->outcome == CHECK_FAILED && strstr(result->reason, "FC_ERROR_DRIVER") != NULL;
}

static int work(const cli_arguments *arguments, check_report *report, size_t first, int to)
{
    static case_record record;
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!check_open(arguments, report))
        return NOT_OPENED;
    memcpy(record.device, report->device, sizeof record.device);
    record.count = report->wanted;
    for (record.index = first; record.index < report->wanted; record.index++) {
        record.row = report->rows[record.index];
        record.is_result = false;
        if (!send_record(to, &record))
            return SPOILT;
        check_run_case(report, &record.row);
        record.is_result = true;
        if (!send_record(to, &record) || is_spoilt(&record.row.result))
            return SPOILT;
    }
    return ENDED;
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
        _exit(work(arguments, report, first, ends[1]));
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

static void add_broken(check_report *report, const case_record *begun, int status, bool hung,
                       double limit)
{
    check_row row = begun->row;
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

/* Takes in what a process says; how it fell silent. */
static read_outcome listen(walk *w, int from, double limit, case_record *begun, bool *inside)
{
    static case_record record;
    read_outcome outcome;
    while ((outcome = read_record(from, limit, &record)) == READ_RECORD) {
        w->opened = true;
        w->report->wanted = record.count;
        memcpy(w->report->device, record.device, sizeof record.device);
        *inside = !record.is_result;
        w->next = record.index + (record.is_result ? 1 : 0);
        if (record.is_result) {
            add_row(w->report, &record.row);
        } else {
            *begun = record;
            cli_progress("[%zu/%zu] %s", record.index + 1, record.count, record.row.of.name);
        }
    }
    return outcome;
}

/* One process, from the next case on. True: another is needed. */
static bool run_worker(walk *w)
{
    static case_record begun;
    const double limit = w->arguments->limit > 0 ? w->arguments->limit : default_limit;
    int from, status = 0;
    bool inside = false;
    const pid_t worker = start_worker(w->arguments, w->chosen, w->next, &from);
    if (worker < 0)
        return cli_refuse("no process could be started");
    const read_outcome outcome = listen(w, from, limit, &begun, &inside);
    if (outcome == READ_NOTHING)
        kill(-worker, SIGKILL);
    waitpid(worker, &status, 0);
    close(from);
    if (cli_interrupted() || !w->opened || (WIFEXITED(status) && WEXITSTATUS(status) == ENDED))
        return false;
    if (inside) {
        add_broken(w->report, &begun, status, outcome == READ_NOTHING, limit);
        w->next = begun.index + 1;
    }
    return w->next < w->report->wanted;
}

bool check_run_isolated(const cli_arguments *arguments, check_report *report)
{
    check_report chosen = *report;
    walk w = {.arguments = arguments, .chosen = &chosen, .report = report};
    report->rows = cli_allocate((chosen.wanted + 1) * sizeof *report->rows);
    cli_catch_interrupts();
    while (run_worker(&w))
        ;
    cli_progress("%s", "");
    free(chosen.rows);
    report->interrupted = report->done < report->wanted;
    return w.opened;
}
