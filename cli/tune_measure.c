/* tune_measure.c: work on a device, always in a process of its own: a candidate that hangs or
 * breaks the CUDA context spoils no other. */
#include "bench.h"
#include "child.h"
#include "core/internal.h"
#include "cuda/rebuild.h"
#include "cuda/services.h"
#include "cuda/tuned.h"
#include "device.h"
#include "emu_build.h"
#include "emu_count.h"
#include "emulator.h"
#include "files.h"
#include "gpu_limits.h"
#include "measure.h"
#include "output.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct task {
    const tune_search *search;
    const tune_candidate *candidate;
    double seconds;
    char folder[64]; /* of files that the two processes share */
    char answer[96], output[96], library[96];
} task;

/* 1. Both sides: a folder for the answer and all that is printed. */

static bool start_task(task *t)
{
    snprintf(t->folder, sizeof t->folder, "/tmp/flashcore-tune.XXXXXX");
    if (mkdtemp(t->folder) == NULL)
        return cli_refuse("cannot make a folder under /tmp");
    snprintf(t->answer, sizeof t->answer, "%s/answer.json", t->folder);
    snprintf(t->output, sizeof t->output, "%s/output.txt", t->folder);
    snprintf(t->library, sizeof t->library, "%s/kernel.so", t->folder);
    return true;
}

static void end_task(const task *t)
{
    unlink(t->answer);
    unlink(t->output);
    unlink(t->library);
    rmdir(t->folder);
}

/* NULL with the reason where the process gave no answer. */
static json_value *ask(task *t, int (*function)(void *user), double limit,
                       char reason[TUNE_TEXT_BYTES])
{
    child_result ended;
    const child_run run = {
        .function = function, .user = t, .output_path = t->output, .limit_seconds = limit};
    child_wait(&run, &ended);
    snprintf(reason, TUNE_TEXT_BYTES, "%s", ended.reason);
    if (ended.reason[0] == '\0')
        return cli_read_json(t->answer);
    if (ended.started && !ended.timed_out && ended.exit_status < 128)
        child_last_line(t->output, reason, TUNE_TEXT_BYTES);
    return NULL;
}

static bool give_answer(const task *t, cli_json_function *write, const void *data)
{
    const cli_arguments to_file = {.json = 1, .json_path = t->answer};
    return cli_write_json(&to_file, write, data);
}

/* What the emulator does not have already. */
static bool needs_library(const task *t)
{
    return t->candidate->text[0] != '\0' || t->search->arguments->source_path != NULL;
}

/* 2. The other process: a context with the candidate in it. */

static fc_context *open_context(const task *t)
{
    const tune_search *search = t->search;
    fc_context_options options = search->arguments->context;
    char complaint[CLI_COMPLAINT_BYTES];
    if (search->mode == TUNE_EMU && !cli_use_emulator(complaint)) {
        cli_refuse("%s", complaint);
        return NULL;
    }
    options.device_type = search->mode == TUNE_CPU ? FC_CPU : FC_CUDA;
    if (search->mode == TUNE_CPU && t->candidate != NULL && t->candidate->text[0] != '\0') {
        options.kernel = search->axes[0].values[t->candidate->choice[0]];
        options.threads = atoi(search->axes[1].values[t->candidate->choice[1]]);
    }
    fc_context *context = cli_open_context(search->arguments, &options);
    if (context != NULL && search->mode != TUNE_CPU && t->candidate != NULL &&
        t->candidate->text[0] != '\0' &&
        fc_rebuild_in(context, fc_cuda_find_variant(search->variant), t->candidate->text) !=
            FC_OK) {
        cli_refuse("%s", fc_last_error());
        fc_context_destroy(context);
        return NULL;
    }
    return context;
}

static void write_kernels(json_writer *json, fc_context *context, const fc_attention *problem)
{
    json_array(json, "kernels");
    for (int i = 0; i < fc_kernel_count(); i++) {
        fc_kernel_info info = fc_kernel_info_init();
        if (fc_kernel_query(context, problem, i, &info) == FC_OK && info.accepts &&
            info.direction == FC_FORWARD && strncmp(info.name, "cpu_", 4) == 0)
            json_text(json, NULL, info.name);
    }
    json_end(json);
}

static void write_look(json_writer *json, const void *data)
{
    const fc_plan *plan = data;
    fc_cuda_device *cuda = plan->context->cuda;
    const fc_cuda_variant *variant = cuda ? fc_cuda_first_variant(cuda) : NULL;
    fc_cuda_limits limits = {0};
    char bucket[FC_BUCKET_BYTES];
    fc_tuned_bucket(&plan->problem, bucket);
    if (cuda)
        fc_cuda_read_limits(cuda, &limits);
    json_object(json, NULL);
    json_text(json, "device", fc_context_device(plan->context));
    json_text(json, "kernel", fc_plan_kernel(plan, FC_FORWARD));
    json_text(json, "variant", variant ? variant->name : "");
    json_text(json, "bucket", bucket);
    json_integer(json, "compute_capability", limits.compute_capability);
    json_integer(json, "shared_bytes", limits.shared_bytes_a_block);
    write_kernels(json, plan->context, &plan->request);
    json_end(json);
}

static int look_here(void *user)
{
    const task *t = user;
    fc_plan *plan = NULL;
    unsetenv("FLASHCORE_TUNED"); /* the kernel as it is built */
    fc_context *context = open_context(t);
    bool ok = context != NULL;
    if (ok && fc_plan_create(context, &t->search->problem, &plan) != FC_OK)
        ok = cli_refuse("%s", fc_last_error());
    ok = ok && give_answer(t, write_look, plan);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
    return ok ? 0 : 1;
}

static void write_times(json_writer *json, const void *data)
{
    json_object(json, NULL);
    cli_measurement_json(json, data);
    json_end(json);
}

static int time_here(void *user)
{
    const task *t = user;
    cli_measurement *measurement = cli_allocate(sizeof *measurement);
    unsetenv("FLASHCORE_TUNED");
    fc_context *context = open_context(t);
    bool ok = context != NULL;
    if (ok) {
        *measurement = (cli_measurement){.problem = t->search->problem};
        cli_measure(context, t->seconds, measurement);
        ok = measurement->timed || cli_refuse("%s", measurement->reason);
        ok = ok && give_answer(t, write_times, measurement);
    }
    fc_context_destroy(context);
    free(measurement);
    return ok ? 0 : 1;
}

static void write_count(json_writer *json, const void *data)
{
    const double *microseconds = data;
    json_object(json, NULL);
    json_number(json, "p10_us", *microseconds);
    json_number(json, "p50_us", *microseconds);
    json_number(json, "p90_us", *microseconds);
    json_end(json);
}

static const gpu_limits *find_gpu(const char *name)
{
    for (int i = 0; i < gpu_count; i++)
        if (strstr(gpu_table[i].name, name) != NULL)
            return &gpu_table[i];
    return NULL;
}

static int count_here(void *user)
{
    const task *t = user;
    emu_report *report = cli_allocate(sizeof *report);
    report->problem = t->search->problem;
    unsetenv("FLASHCORE_TUNED");
    if (needs_library(t))
        setenv("FLASHCORE_EMU_KERNELS", t->library, 1);
    fc_context *context = open_context(t);
    bool ok = context != NULL && emu_count(context, report);
    if (ok) {
        const gpu_bound bound = gpu_bound_of(find_gpu(t->search->gpu), &report->totals,
                                             bench_bytes(&report->problem, FC_FORWARD));
        const double microseconds =
            (bound.products + bound.exponentials + bound.shared_memory) * 1e6;
        ok = give_answer(t, write_count, &microseconds);
    }
    fc_context_destroy(context);
    free(report);
    return ok ? 0 : 1;
}

/* 3. This process. */

bool tune_look(tune_search *search)
{
    char reason[TUNE_TEXT_BYTES];
    task t = {.search = search};
    if (search->mode == TUNE_EMU && find_gpu(search->gpu) == NULL)
        return cli_refuse("--gpu: the emulator knows no peaks of '%s'; 'flashcore emu' lists whose",
                          search->gpu);
    if (!start_task(&t))
        return false;
    json_value *seen = ask(&t, look_here, 120, reason);
    if (seen != NULL) {
        snprintf(search->device, sizeof search->device, "%s", json_text_of(seen, "device", ""));
        snprintf(search->kernel, sizeof search->kernel, "%s", json_text_of(seen, "kernel", ""));
        snprintf(search->variant, sizeof search->variant, "%s", json_text_of(seen, "variant", ""));
        snprintf(search->bucket, sizeof search->bucket, "%s", json_text_of(seen, "bucket", ""));
        search->compute_capability = (int)json_number_of(seen, "compute_capability", 0);
        search->most_shared_bytes = (int)json_number_of(seen, "shared_bytes", 0);
        for (const json_value *name = json_first(seen, "kernels");
             name != NULL && search->kernel_count < TUNE_MOST_VALUES; name = name->next)
            snprintf(search->kernels[search->kernel_count++], sizeof search->kernels[0], "%s",
                     name->text);
    } else {
        cli_refuse("%s", reason);
    }
    json_free(seen);
    end_task(&t);
    return seen != NULL;
}

void tune_measure(tune_search *search, tune_candidate *candidate, double seconds)
{
    task t = {.search = search, .candidate = candidate, .seconds = seconds};
    const bool counts = search->mode == TUNE_EMU;
    json_value *seen = NULL;
    candidate->outcome = TUNE_FAILED;
    if (!start_task(&t))
        return;
    if (!counts || !needs_library(&t) ||
        emu_build(fc_cuda_find_variant(search->variant), search->arguments->source_path,
                  candidate->text, t.folder, t.library, candidate->reason))
        seen = ask(&t, counts ? count_here : time_here, 600, candidate->reason);
    if (seen != NULL) {
        candidate->outcome = TUNE_TIMED;
        candidate->rounds++;
        candidate->p10 = json_number_of(seen, "p10_us", 0);
        candidate->p50 = json_number_of(seen, "p50_us", 0);
        candidate->p90 = json_number_of(seen, "p90_us", 0);
    }
    json_free(seen);
    end_task(&t);
}
