/* profile.c: `flashcore profile`: Nsight Compute on one kernel and one problem, read and put into
 * words. */
#include "child.h"
#include "device.h"
#include "files.h"
#include "output.h"
#include "problem.h"
#include "profile_words.h"
#include "tensors.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1. What ncu watches: this program with --calls, which makes two calls and nothing else. */

enum { CALLS = 2 };

static bool make_calls(fc_context *context, const fc_attention *problem)
{
    const lab_memory memory = lab_memory_of(context);
    fc_plan *plan = NULL;
    fc_case c;
    lab_tensors tensors;
    if (fc_plan_create(context, problem, &plan) != FC_OK)
        return cli_refuse("%s", fc_last_error());
    case_from_problem(problem, &c);
    bool ok = lab_tensors_create(&c, &memory, &tensors) == FC_OK;
    if (ok) {
        fc_buffers buffers = lab_tensors_buffers(&tensors);
        buffers.workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
        if (buffers.workspace_bytes > 0)
            buffers.workspace = memory.allocate(memory.user, buffers.workspace_bytes);
        for (int i = 0; i < CALLS && ok; i++)
            ok = fc_plan_forward(plan, &buffers, NULL) == FC_OK;
        if (buffers.workspace != NULL)
            memory.release(memory.user, buffers.workspace);
        lab_tensors_destroy(&tensors);
    }
    fc_plan_destroy(plan);
    return ok || cli_refuse("%s", fc_last_error());
}

static int only_calls(const cli_arguments *arguments)
{
    fc_context_options options = arguments->context;
    options.device_type = FC_CUDA;
    fc_context *context = cli_open_context(arguments, &options);
    const fc_attention problem = cli_problem(arguments);
    const bool ok = context != NULL && make_calls(context, &problem);
    fc_context_destroy(context);
    return ok ? CLI_OK : CLI_FAILED;
}

/* 2. Running ncu. */

enum { MOST_WORDS = 64 };

typedef struct profile_files {
    char *report; /* ncu's own, for its window */
    char *csv;
    char *output; /* what ncu printed */
} profile_files;

/* FLASHCORE_NCU, the path, or where the toolkit lies. */
static const char *find_ncu(void)
{
    static const char usual[] = "/usr/local/cuda/bin/ncu";
    const char *given = getenv("FLASHCORE_NCU");
    return given != NULL && *given != '\0' ? given : access(usual, X_OK) == 0 ? usual : "ncu";
}

/* The words that this program was called with, from the verb on. */
static char *own_words(const char *words[], int *count)
{
    FILE *file = fopen("/proc/self/cmdline", "rb");
    char *text = NULL;
    size_t capacity = 0;
    int number = 0;
    char *all = cli_allocate(65536);
    size_t used = 0;
    while (file != NULL && getdelim(&text, &capacity, '\0', file) > 0) {
        const size_t length = strlen(text) + 1;
        if (number++ == 0 || used + length > 65536 || *count >= MOST_WORDS - 2)
            continue;
        memcpy(all + used, text, length);
        words[(*count)++] = all + used;
        used += length;
    }
    if (file != NULL)
        fclose(file);
    free(text);
    return all;
}

static void record(const profile_files *files, child_result *result)
{
    const char *words[MOST_WORDS] = {find_ncu(),  "--clock-control", "none",
                                     "--metrics", profile_metrics(), "--force-overwrite",
                                     "--export",  files->report,     child_own_path()};
    int count = 9;
    char *own = own_words(words, &count);
    words[count++] = "--calls";
    words[count] = NULL;
    const child_run run = {.words = words, .output_path = files->output, .limit_seconds = 600};
    child_wait(&run, result);
    free(own);
}

static void export(const profile_files *files, child_result *result)
{
    const char *const words[] = {find_ncu(), "--import", files->report, "--csv",
                                 "--page",   "raw",      NULL};
    const child_run run = {.words = words, .output_path = files->csv, .limit_seconds = 600};
    child_wait(&run, result);
}

/* 3. Where there are no counters: what to do, and the emulator's counts. */

static int stand_in(const cli_arguments *arguments, const char *why)
{
    cli_refuse("%s", why);
    printf("The emulator's counts stand in for it:\n\n");
    fflush(stdout);
    cli_emu(arguments);
    return CLI_FAILED;
}

static int explain(const cli_arguments *arguments, const profile_files *files,
                   const child_result *result)
{
    if (!result->started)
        return stand_in(arguments, "ncu is not here: it is Nsight Compute, of the CUDA toolkit "
                                   "(package nsight-compute or cuda-nsight-compute); FLASHCORE_NCU "
                                   "names it when it is elsewhere");
    char *said = cli_read_text(files->output);
    const bool refused = said != NULL && strstr(said, "ERR_NVGPUCTRPERM") != NULL;
    const char *line = said != NULL ? strstr(said, "flashcore: ") : NULL;
    char *why =
        refused ? cli_format("the driver keeps its counters to administrators: run this as root, "
                             "or let everybody read them with the module option "
                             "NVreg_RestrictProfilingToAdminUsers=0 and a restart")
        : line != NULL
            ? cli_format("%.*s", (int)strcspn(line + 11, "\n"), line + 11)
            : cli_format("ncu ended with %s; %s has what it said",
                         result->reason[0] != '\0' ? result->reason : "no numbers", files->output);
    free(said);
    const int status = stand_in(arguments, why);
    free(why);
    return status;
}

/* 4. The verb. */

typedef struct profile_report {
    const csv_table *table;
    int first;
} profile_report;

static void write_json(json_writer *json, const void *data)
{
    const profile_report *report = data;
    cli_json_result(json, "profile");
    json_array(json, "launches");
    for (int row = report->first; row < report->table->rows; row++)
        profile_json(json, report->table, row);
    json_end(json);
    json_end(json);
}

/* The first call warmed up; the launches of the last one count. Row 0 has names, row 1 units. */
static bool show(const cli_arguments *arguments, const profile_files *files)
{
    csv_table table = {0};
    char *text = cli_read_text(files->csv);
    const bool ok = text != NULL && csv_read(text, "ID", &table);
    free(text);
    if (ok) {
        const int launches = table.rows - 2;
        const profile_report report = {&table, table.rows - (launches + CALLS - 1) / CALLS};
        for (int row = report.first; row < table.rows && cli_wants_text(arguments); row++)
            profile_print(&table, row);
        if (cli_wants_text(arguments))
            printf("ncu's own report: %s\n", files->report);
        cli_write_json(arguments, write_json, &report);
    }
    csv_free(&table);
    return ok;
}

int cli_profile(const cli_arguments *arguments)
{
    if (arguments->calls)
        return only_calls(arguments);
    const char *directory = arguments->operand != NULL ? arguments->operand : "profile";
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return cli_fail(CLI_FAILED, "cannot make %s: %s", directory, strerror(errno));
    const profile_files files = {.report = cli_format("%s/profile.ncu-rep", directory),
                                 .csv = cli_format("%s/profile.csv", directory),
                                 .output = cli_format("%s/ncu.txt", directory)};
    child_result result;
    unlink(files.csv);
    unlink(files.output);
    record(&files, &result);
    if (result.reason[0] == '\0')
        export(&files, &result);
    const int status = result.reason[0] == '\0' && show(arguments, &files)
                           ? CLI_OK
                           : explain(arguments, &files, &result);
    free(files.report);
    free(files.csv);
    free(files.output);
    return status;
}
