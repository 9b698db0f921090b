/* emu_compare.c: see emu_compare.h. A process has one CUDA driver: a child computes everything on
 * the emulator and leaves it in a file, then this one does the same on the GPU and compares. */
#include "emu_compare.h"

#include "child.h"
#include "core/convert.h"
#include "core/internal.h"
#include "device.h"
#include "emulator.h"
#include "interrupt.h"
#include "output.h"
#include "problem.h"
#include "sample.h"
#include "table.h"
#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SAMPLE = 40 };

/* Steps at the largest value of a case that rounding in another order may take. */
static const double most_steps = 4;

/* Stands before the bytes of each output. */
typedef struct record {
    char kernel[64];
    uint64_t case_index;
    uint64_t bytes; /* 0: the call failed */
} record;

/* 1. One case on one device. */

static uint8_t *run_tensors(const fc_plan *plan, const lab_tensors *tensors, uint64_t *bytes)
{
    const lab_memory *memory = &tensors->memory;
    const lab_buffer *out = &tensors->buffer[LAB_OUT];
    fc_buffers buffers = lab_tensors_buffers(tensors);
    uint8_t *image = cli_allocate(lab_buffer_bytes(out));
    buffers.workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    if (buffers.workspace_bytes > 0)
        buffers.workspace = memory->allocate(memory->user, buffers.workspace_bytes);
    const bool ok =
        fc_plan_forward(plan, &buffers, NULL) == FC_OK &&
        memory->download(memory->user, image, out->memory, lab_buffer_bytes(out)) == FC_OK;
    if (buffers.workspace != NULL)
        memory->release(memory->user, buffers.workspace);
    *bytes = ok ? lab_buffer_bytes(out) : 0;
    return image;
}

/* The output's memory; *bytes is 0 when it failed. Keeps the tensors for the caller to destroy. */
static uint8_t *run_case(fc_context *context, const fc_case *c, lab_tensors *tensors,
                         uint64_t *bytes)
{
    const lab_memory memory = lab_memory_of(context);
    fc_plan *plan = NULL;
    uint8_t *image = NULL;
    *bytes = 0;
    if (lab_tensors_create(c, &memory, tensors) != FC_OK) {
        cli_fail(CLI_FAILED, "no memory for the tensors of a case");
        exit(CLI_FAILED);
    }
    if (fc_plan_create(context, &c->problem, &plan) == FC_OK)
        image = run_tensors(plan, tensors, bytes);
    fc_plan_destroy(plan);
    return image;
}

static fc_context *open_kernel(const char *kernel)
{
    fc_context_options options = fc_context_options_init();
    options.device_type = FC_CUDA;
    options.kernel = kernel;
    return cli_create_context(&options);
}

/* 2. The child: every kernel's sample on the emulator. */

static bool write_case(fc_context *context, const char *kernel, size_t index, FILE *file)
{
    record r = {.case_index = index};
    fc_case c;
    lab_tensors tensors;
    case_get(index, &c);
    c.backward = false;
    snprintf(r.kernel, sizeof r.kernel, "%s", kernel);
    uint8_t *image = run_case(context, &c, &tensors, &r.bytes);
    if (r.bytes == 0)
        cli_refuse("%s on %s: %s", kernel, c.name, fc_last_error());
    const bool ok =
        fwrite(&r, sizeof r, 1, file) == 1 && fwrite(image, 1, r.bytes, file) == r.bytes;
    lab_tensors_destroy(&tensors);
    free(image);
    return ok;
}

static bool write_kernel(const char *kernel, size_t wanted, FILE *file)
{
    fc_context *context = open_kernel(kernel);
    bool *candidate = cli_allocate(case_count() * sizeof *candidate);
    size_t candidates = 0, number = 0;
    bool ok = context != NULL;
    fc_case c;
    for (size_t i = 0; ok && i < case_count(); i++) {
        case_get(i, &c);
        candidates += candidate[i] = cli_is_candidate(context, &c);
    }
    for (size_t i = 0; ok && i < case_count(); i++)
        if (candidate[i] && cli_is_sampled(number++, candidates, wanted))
            ok = write_case(context, kernel, i, file);
    free(candidate);
    fc_context_destroy(context);
    return ok;
}

static bool is_wanted(const fc_kernel_info *kernel, const char *only)
{
    return kernel->direction == FC_FORWARD && strncmp(kernel->name, "cpu_", 4) != 0 &&
           strncmp(kernel->name, "reference", 9) != 0 &&
           (only == NULL || strcmp(only, kernel->name) == 0);
}

/* What the other processes get. */
typedef struct comparing {
    const cli_arguments *arguments;
    FILE *file;
} comparing;

static int run_on_emulator(void *user)
{
    const cli_arguments *arguments = ((comparing *)user)->arguments;
    FILE *file = ((comparing *)user)->file;
    char complaint[CLI_COMPLAINT_BYTES];
    const size_t wanted = arguments->sample > 0 ? (size_t)arguments->sample : DEFAULT_SAMPLE;
    if (!cli_use_emulator(complaint))
        return cli_fail(CLI_FAILED, "%s", complaint);
    fc_context *context = open_kernel(NULL);
    const fc_attention problem = cli_problem(arguments);
    bool ok = context != NULL;
    for (int i = 0; ok && i < fc_kernel_count(); i++) {
        fc_kernel_info kernel = fc_kernel_info_init();
        ok = fc_kernel_query(context, &problem, i, &kernel) == FC_OK;
        if (!ok || !is_wanted(&kernel, arguments->context.kernel))
            continue;
        cli_progress("%s on the emulator...", kernel.name);
        ok = write_kernel(kernel.name, wanted, file);
    }
    cli_progress("%s", "");
    fc_context_destroy(context);
    return ok && fflush(file) == 0 ? CLI_OK : CLI_FAILED;
}

/* 3. The parent: the same on the GPU. */

typedef struct comparison {
    char kernel[64];
    size_t cases, failed, same_bits;
    double largest_difference;
    double most_steps;
    char worst_case[CASE_NAME_BYTES];
} comparison;

static int bits_of(fc_type type)
{
    return type == FC_F16 ? 11 : type == FC_BF16 ? 8 : 24;
}

/* Weights are rounded to the type of the values that they are multiplied with: one that lies
 * between two of its numbers may fall to either, and a wider output shows it. */
static double step_of(const lab_tensors *tensors, double magnitude)
{
    const int out_bits = bits_of(tensors->buffer[LAB_OUT].type);
    const int weight_bits = bits_of(tensors->buffer[LAB_V].type);
    int exponent;
    frexp(magnitude, &exponent);
    return ldexp(1, exponent - (weight_bits < out_bits ? weight_bits : out_bits));
}

static void compare_images(const lab_tensors *tensors, const uint8_t *emulated,
                           const uint8_t *computed, const char *name, comparison *to)
{
    const lab_buffer *out = &tensors->buffer[LAB_OUT];
    uint8_t *written = lab_written_elements(tensors, LAB_OUT);
    double largest = 0, difference = 0;
    bool same = true;
    for (int64_t i = 0; i < out->elements; i++) {
        if (!written[i])
            continue;
        const double a = fc_load(out->type, emulated + LAB_GUARD_BYTES, i);
        const double b = fc_load(out->type, computed + LAB_GUARD_BYTES, i);
        if (isnan(a) && isnan(b))
            continue;
        same = same && a == b;
        largest = fmax(largest, fmax(fabs(a), fabs(b)));
        difference = isnan(a) != isnan(b) ? INFINITY : fmax(difference, fabs(a - b));
    }
    free(written);
    to->same_bits += same;
    const double steps = difference > 0 ? difference / step_of(tensors, largest) : 0;
    to->largest_difference = fmax(to->largest_difference, difference);
    if (steps < to->most_steps)
        return;
    to->most_steps = steps;
    snprintf(to->worst_case, sizeof to->worst_case, "%s", name);
}

static void compare_record(fc_context *context, const record *r, const uint8_t *emulated,
                           comparison *to)
{
    fc_case c;
    lab_tensors tensors;
    uint64_t bytes;
    case_get(r->case_index, &c);
    c.backward = false;
    uint8_t *image = run_case(context, &c, &tensors, &bytes);
    to->cases++;
    if (bytes != r->bytes || bytes == 0)
        to->failed++;
    else
        compare_images(&tensors, emulated, image, c.name, to);
    lab_tensors_destroy(&tensors);
    free(image);
}

static bool compare_file(FILE *file, comparison *rows, size_t *count)
{
    record r;
    fc_context *context = NULL;
    bool ok = true;
    while (ok && !cli_interrupted() && fread(&r, sizeof r, 1, file) == 1) {
        uint8_t *emulated = cli_allocate(r.bytes + 1);
        ok = fread(emulated, 1, r.bytes, file) == r.bytes;
        if (*count == 0 || strcmp(rows[*count - 1].kernel, r.kernel) != 0) {
            fc_context_destroy(context);
            context = open_kernel(r.kernel);
            snprintf(rows[(*count)++].kernel, sizeof rows->kernel, "%s", r.kernel);
            cli_progress("%s on the GPU...", r.kernel);
        }
        ok = ok && context != NULL;
        if (ok)
            compare_record(context, &r, emulated, &rows[*count - 1]);
        free(emulated);
    }
    if (context != NULL)
        printf("emulator and %s\n\n", fc_context_device(context));
    fc_context_destroy(context);
    cli_progress("%s", "");
    return ok;
}

static int print_rows(const comparison *rows, size_t count)
{
    text_table table = table_start("lrrrrrl", "kernel", "cases", "failed", "same bits",
                                   "difference", "steps", "case");
    bool ok = count > 0;
    for (size_t i = 0; i < count; i++) {
        const comparison *row = &rows[i];
        ok = ok && row->failed == 0 && row->most_steps <= most_steps;
        table_cell(&table, "%s", row->kernel);
        table_cell(&table, "%zu", row->cases);
        table_cell(&table, "%zu", row->failed);
        table_cell(&table, "%zu", row->same_bits);
        table_cell(&table, "%.3g", row->largest_difference);
        table_cell(&table, "%.2f", row->most_steps);
        table_cell(&table, "%s", row->worst_case);
    }
    table_print(&table, stdout);
    printf("\nA step is that of the output's type, or of the values' where that is coarser, at the "
           "largest value\nof a case; up to %.0f are rounding.\n",
           most_steps);
    return ok ? CLI_OK : CLI_FAILED;
}

/* A driver that was opened is of no use to a process forked later: the first look is another's. */
static int look_for_gpu(void *user)
{
    fc_context *context = open_kernel(((comparing *)user)->arguments->context.kernel);
    const int status = context != NULL ? CLI_OK : CLI_FAILED;
    fc_context_destroy(context);
    return status;
}

/* A process that fails has said why. */
static bool run_apart(int (*function)(void *user), comparing *c)
{
    const child_run run = {.function = function, .user = c, .limit_seconds = INFINITY};
    child_result ended;
    child_wait(&run, &ended);
    if (ended.reason[0] != '\0' && ended.exit_status != CLI_FAILED && !cli_interrupted())
        cli_refuse("%s", ended.reason);
    return ended.reason[0] == '\0';
}

int cli_emu_compare(const cli_arguments *arguments)
{
    comparing c = {.arguments = arguments, .file = tmpfile()};
    if (c.file == NULL)
        return cli_fail(CLI_FAILED, "no temporary file");
    comparison *rows = cli_allocate((size_t)fc_kernel_count() * sizeof *rows);
    size_t count = 0;
    int status = CLI_FAILED;
    cli_catch_interrupts();
    if (run_apart(look_for_gpu, &c) && run_apart(run_on_emulator, &c)) {
        rewind(c.file);
        const bool ok = compare_file(c.file, rows, &count);
        if (ok && count == 0)
            cli_refuse("%s is no CUDA kernel", arguments->context.kernel);
        else if (ok)
            status = print_rows(rows, count);
    }
    fclose(c.file);
    free(rows);
    return cli_interrupted() ? CLI_INTERRUPTED : status;
}
