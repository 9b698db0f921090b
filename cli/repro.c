/* repro.c: `flashcore repro`: everything this machine can be asked, in one directory. */
#include "child.h"
#include "cuda/services.h"
#include "cuda/variants.h"
#include "emulator.h"
#include "interrupt.h"
#include "output.h"
#include "table.h"
#include "verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1. What is run, in this order. */

typedef enum step_need {
    NEEDS_NOTHING,
    NEEDS_GPU,
    NEEDS_CUDA_BUILD,
    NEEDS_EMULATOR,
    NEEDS_PEERS
} step_need;

enum { MOST_WORDS = 12 };

typedef struct repro_step {
    const char *name; /* and of its files: NAME.json, NAME.txt */
    step_need need;
    const char *words;       /* of this program; --json is added */
    const char *quick_words; /* with --quick */
} repro_step;

static const char peers_script[] = "bench/peers.py";

static const repro_step steps[] = {
    {"info", NEEDS_NOTHING, "info", "info"},
    {"resources", NEEDS_CUDA_BUILD, "resources", "resources"},
    {"check-cpu", NEEDS_NOTHING, "check", "check --sample 40"},
    {"check-cuda", NEEDS_GPU, "check --backend cuda --isolated",
     "check --backend cuda --isolated --sample 40"},
    {"check-drawn", NEEDS_GPU, "check --backend cuda --isolated --random 1000",
     "check --backend cuda --isolated --random 40"},
    {"bench-cpu", NEEDS_NOTHING, "bench", "bench --shape 1,2,128,64 --seconds 0.1"},
    {"bench-cuda", NEEDS_GPU, "bench --backend cuda", "bench --backend cuda --set mission"},
    {"peers", NEEDS_PEERS, "--device cuda --shape 1,8,512,64 2,8,256,64",
     "--device cuda --shape 1,8,512,64"},
    {"ladder", NEEDS_GPU, "ladder", "ladder --seconds 0.1"},
    {"ladder-long", NEEDS_GPU, "ladder --shape 4,16,2048,128", NULL},
    {"emu", NEEDS_EMULATOR, "emu", "emu --shape 1,1,128,64"},
};
enum { STEP_COUNT = sizeof steps / sizeof steps[0] };

typedef struct step_result {
    const char *outcome; /* "done", "failed", "left out", "not run" */
    double seconds;
    char command[256];
    char reason[512];
} step_result;

typedef struct repro_report {
    const char *directory;
    bool quick;
    step_result results[STEP_COUNT];
} repro_report;

/* Whether this machine has what the step needs, or else why not. */
static bool can_run(const repro_step *step, bool quick, char reason[512])
{
    char path[CLI_EMULATOR_PATH_BYTES];
    reason[0] = '\0';
    if (quick && step->quick_words == NULL)
        snprintf(reason, 512, "--quick leaves it out");
    else if (step->need == NEEDS_CUDA_BUILD && fc_cuda_variant_count == 0)
        snprintf(reason, 512, "this program was built without its CUDA part");
    else if ((step->need == NEEDS_GPU || step->need == NEEDS_PEERS) &&
             fc_device_count(FC_CUDA) == 0)
        snprintf(reason, 512, "there is no CUDA device: %s",
                 *fc_cuda_absence() ? fc_cuda_absence() : "the driver found none");
    else if (step->need == NEEDS_PEERS && access(peers_script, R_OK) != 0)
        snprintf(reason, 512, "%s is not here; run repro from the folder of the sources",
                 peers_script);
    else if (step->need == NEEDS_EMULATOR && !cli_find_emulator(path))
        snprintf(reason, 512, "this build has no emulator");
    return reason[0] == '\0';
}

/* 2. Running one step. */

static int split_words(char *text, const char **words)
{
    int count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < MOST_WORDS;
         word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

static char *path_in(const char *directory, const char *name, const char *ending)
{
    return cli_format("%s/%s%s", directory, name, ending);
}

static void run_step(const repro_report *report, const repro_step *step, step_result *result)
{
    enum { LIMIT_SECONDS = 3600 };
    const char *words[MOST_WORDS + 4];
    int count = 0;
    char *text = cli_format("%s", report->quick ? step->quick_words : step->words);
    char *output = path_in(report->directory, step->name, ".txt");
    char *json = cli_format("--json=%s/%s.json", report->directory, step->name);
    words[count++] = step->need == NEEDS_PEERS ? "python3" : child_own_path();
    if (step->need == NEEDS_PEERS)
        words[count++] = peers_script;
    snprintf(result->command, sizeof result->command, "%s %s",
             step->need == NEEDS_PEERS ? peers_script : "flashcore", text);
    count += split_words(text, words + count);
    words[count++] = json;
    words[count] = NULL;
    const child_run run = {.words = words, .output_path = output, .limit_seconds = LIMIT_SECONDS};
    child_result ended;
    child_wait(&run, &ended);
    result->seconds = ended.seconds;
    result->outcome = ended.reason[0] == '\0'     ? "done"
                      : step->need == NEEDS_PEERS ? "left out" /* no program of ours */
                                                  : "failed";
    snprintf(result->reason, sizeof result->reason, "%s", ended.reason);
    if (ended.reason[0] != '\0') { /* a verb that fails has said why in its last line */
        char last[400] = "";
        child_last_line(output, last, sizeof last);
        const size_t used = strlen(result->reason);
        snprintf(result->reason + used, sizeof result->reason - used, ": %s", last);
    }
    free(text);
    free(output);
    free(json);
}

static void run_steps(repro_report *report)
{
    cli_catch_interrupts();
    for (int i = 0; i < STEP_COUNT; i++) {
        step_result *result = &report->results[i];
        cli_progress("[%d/%d] %s...", i + 1, STEP_COUNT, steps[i].name);
        if (cli_interrupted()) {
            result->outcome = "not run";
            snprintf(result->reason, sizeof result->reason, "interrupted");
        } else if (!can_run(&steps[i], report->quick, result->reason)) {
            result->outcome = "left out";
        } else {
            run_step(report, &steps[i], result);
        }
        cli_progress("%s", "");
        printf("%-12s %-9s %7.1f s  %s\n", steps[i].name, result->outcome, result->seconds,
               result->reason);
        fflush(stdout);
    }
}

/* 3. The machine, in its own words. */

static void describe_machine(const char *directory)
{
    static const char *const commands[][5] = {
        {"uname", "-a"},      {"cat", "/etc/os-release"}, {"lscpu"},
        {"nvidia-smi"},       {"nvidia-smi", "-q"},       {"nvcc", "--version"},
        {"gcc", "--version"},
    };
    char *path = path_in(directory, "machine", ".txt");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const child_run run = {.words = commands[i], .output_path = path, .limit_seconds = 60};
        child_result ended;
        FILE *file = fopen(path, "a");
        if (file == NULL)
            break;
        fprintf(file, "\n$ %s %s\n", commands[i][0], commands[i][1] ? commands[i][1] : "");
        fclose(file);
        child_wait(&run, &ended);
        file = ended.reason[0] != '\0' ? fopen(path, "a") : NULL;
        if (file != NULL) {
            fprintf(file, "(%s)\n", ended.reason);
            fclose(file);
        }
    }
    free(path);
}

/* 4. What came out. */

static void write_json(json_writer *json, const void *data)
{
    const repro_report *report = data;
    cli_json_result(json, "repro");
    json_boolean(json, "quick", report->quick);
    json_array(json, "steps");
    for (int i = 0; i < STEP_COUNT; i++) {
        json_object(json, NULL);
        json_text(json, "step", steps[i].name);
        json_text(json, "outcome", report->results[i].outcome);
        json_number(json, "seconds", report->results[i].seconds);
        json_text(json, "reason", report->results[i].reason);
        json_text(json, "command", report->results[i].command);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static bool write_readme(const repro_report *report)
{
    cli_output output = {0};
    char *path = path_in(report->directory, "README", ".md");
    bool ok = cli_output_open(&output, path);
    free(path);
    if (!ok)
        return false;
    FILE *file = output.file;
    fprintf(file,
            "# What `flashcore repro%s` found\n\nFlashCore %s, %s.\n\n`report.html` shows the "
            "results, `machine.txt` describes the machine; of each step `.json` has the numbers "
            "and `.txt` what it printed. To share them, send the whole directory.\n\n"
            "| step | outcome | seconds | why | command |\n|---|---|---|---|---|\n",
            report->quick ? " --quick" : "", fc_version(), fc_build());
    for (int i = 0; i < STEP_COUNT; i++) {
        const step_result *result = &report->results[i];
        fprintf(file, "| %s | %s | %.1f | %s | %s%s%s |\n", steps[i].name, result->outcome,
                result->seconds, result->reason, result->command[0] ? "`" : "", result->command,
                result->command[0] ? "`" : "");
    }
    ok = cli_output_commit(&output);
    cli_output_discard(&output);
    return ok;
}

static bool write_results(const repro_report *report)
{
    char *path = path_in(report->directory, "repro", ".json");
    const cli_arguments to_file = {.json = 1, .json_path = path};
    bool ok = cli_write_json(&to_file, write_json, report) && write_readme(report);
    const cli_arguments of_directory = {.operand = report->directory};
    ok = ok && cli_report(&of_directory) == CLI_OK;
    free(path);
    return ok;
}

/* 5. The verb. */

static bool make_directory(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno != EEXIST)
        return cli_refuse("cannot make %s: %s", path, strerror(errno));
    DIR *directory = opendir(path);
    if (directory == NULL)
        return cli_refuse("cannot read %s: %s", path, strerror(errno));
    int entries = 0;
    while (readdir(directory) != NULL)
        entries++;
    closedir(directory);
    return entries <= 2 || cli_refuse("%s is not empty; name a directory that is new", path);
}

int cli_repro(const cli_arguments *arguments)
{
    repro_report *report = cli_allocate(sizeof *report);
    report->directory = arguments->operand != NULL ? arguments->operand : "flashcore-repro";
    report->quick = arguments->quick;
    int status = CLI_FAILED;
    if (make_directory(report->directory)) {
        describe_machine(report->directory);
        run_steps(report);
        status = write_results(report) ? CLI_OK : CLI_FAILED;
        for (int i = 0; i < STEP_COUNT; i++)
            if (strcmp(report->results[i].outcome, "failed") == 0)
                status = CLI_FAILED;
        if (cli_interrupted())
            status = CLI_INTERRUPTED;
    }
    free(report);
    return status;
}
