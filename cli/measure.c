/* measure.c: see measure.h. */
#include "measure.h"
#include "core/internal.h"
#include "cuda/services.h"
#include "problem.h"
#include "rows.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* About ten runs of the reference make a check; at its speed this is some ten seconds. */
static const double most_flops_to_check = 2e9;

static bool is_too_large(const fc_attention *problem)
{
    return bench_flops(problem, FC_FORWARD) > most_flops_to_check;
}

/* One sequence and one KV head with its query heads, and of them no more rows and keys than can be
 * checked. Tensors are dense again: other heads and sequences were what the strides led to. */
static fc_attention part_of(const fc_attention *problem)
{
    /* No whole number of tiles; but whole tiles of keys stay whole, for which there are variants.
     */
    enum { MOST_ROWS = 1000, MOST_KEYS = 2000, WHOLE_TILE = 128 };
    fc_attention part = *problem;
    part.batch = 1;
    part.q_heads = problem->q_heads / problem->kv_heads;
    part.kv_heads = 1;
    part.q_strides = part.k_strides = part.v_strides = part.out_strides = (fc_strides){0};
    if (is_too_large(&part) && part.q_length > MOST_ROWS)
        part.q_length = MOST_ROWS;
    if (is_too_large(&part) && part.kv_length > MOST_KEYS)
        part.kv_length =
            part.kv_length % WHOLE_TILE ? MOST_KEYS : MOST_KEYS / WHOLE_TILE * WHOLE_TILE;
    if (part.packed_q)
        part.packed_q_rows = part.q_length;
    if (part.packed_kv)
        part.packed_kv_rows = part.kv_length;
    return part;
}

/* The part is run by the kernels that would run the whole, and by the same binaries. */
static fc_status make_part_context(const fc_context *context, const fc_plan *plan,
                                   fc_context **part_context)
{
    char kernels[200];
    const char *backward = fc_plan_kernel(plan, FC_BACKWARD);
    snprintf(kernels, sizeof kernels, "%s%s%s", fc_plan_kernel(plan, FC_FORWARD),
             backward ? "," : "", backward ? backward : "");
    fc_context_options options = fc_context_options_init();
    options.device_type = context->device_type;
    options.device_index = context->device_index;
    options.threads = context->threads;
    options.kernel = kernels;
    const fc_status status = fc_context_create(&options, part_context);
    return status == FC_OK && context->cuda
               ? fc_cuda_copy_kernels(context->cuda, (*part_context)->cuda)
               : status;
}

static fc_case case_of(const cli_measurement *measurement, const fc_attention *problem)
{
    fc_case c;
    case_from_problem(problem, &c);
    c.backward = measurement->direction == FC_BACKWARD;
    c.without_lse = measurement->without_lse;
    return c;
}

static void check(fc_context *context, const fc_plan *plan, cli_measurement *measurement)
{
    fc_context *part_context = NULL;
    measurement->checked_part = is_too_large(&measurement->problem);
    if (measurement->checked_part && make_part_context(context, plan, &part_context) != FC_OK) {
        snprintf(measurement->reason, sizeof measurement->reason, "%s", fc_last_error());
        measurement->check.outcome = CHECK_FAILED;
        return;
    }
    const fc_attention part =
        measurement->checked_part ? part_of(&measurement->problem) : measurement->problem;
    const fc_case c = case_of(measurement, &part);
    check_case(part_context ? part_context : context, &c, &measurement->check);
    snprintf(measurement->reason, sizeof measurement->reason, "%s", measurement->check.reason);
    fc_context_destroy(part_context);
}

/* The outputs of a direction, and what was read of them. */
typedef struct measured_outputs {
    const lab_tensors *tensors;
    lab_tensor first, end;
    uint8_t *images[LAB_TENSOR_COUNT];
} measured_outputs;

static fc_status poison_outputs(const measured_outputs *outputs)
{
    enum { POISON = 0xFB };
    const lab_memory *memory = &outputs->tensors->memory;
    fc_status status = FC_OK;
    for (lab_tensor tensor = outputs->first; tensor < outputs->end && status == FC_OK; tensor++) {
        const lab_buffer *buffer = &outputs->tensors->buffer[tensor];
        if (!buffer->name)
            continue;
        status = lab_memory_fill(memory, buffer->memory, POISON, lab_buffer_bytes(buffer));
    }
    return status;
}

static fc_status read_outputs(measured_outputs *outputs)
{
    const lab_memory *memory = &outputs->tensors->memory;
    fc_status status = FC_OK;
    for (lab_tensor tensor = outputs->first; tensor < outputs->end && status == FC_OK; tensor++) {
        const lab_buffer *buffer = &outputs->tensors->buffer[tensor];
        if (!buffer->name)
            continue;
        outputs->images[tensor] = lab_zeroed((int64_t)lab_buffer_bytes(buffer), 1);
        status = memory->download(memory->user, outputs->images[tensor], buffer->memory,
                                  lab_buffer_bytes(buffer));
    }
    return status;
}

/* The first output whose memory does not hold what was read of it; NULL: all do. */
static fc_status find_difference(const measured_outputs *read, const char **different)
{
    *different = NULL;
    fc_status status = FC_OK;
    for (lab_tensor tensor = read->first; tensor < read->end && status == FC_OK; tensor++) {
        const lab_buffer *buffer = &read->tensors->buffer[tensor];
        bool same = true;
        if (read->images[tensor])
            status = lab_memory_compare(&read->tensors->memory, buffer->memory,
                                        read->images[tensor], lab_buffer_bytes(buffer), &same);
        if (status == FC_OK && !same && !*different)
            *different = buffer->name;
    }
    return status;
}

static void free_outputs(measured_outputs *outputs)
{
    for (lab_tensor tensor = outputs->first; tensor < outputs->end; tensor++)
        free(outputs->images[tensor]);
}

/* Of a problem that was checked on a part, some rows of the whole: its call may run another
 * variant. */
static fc_status check_rows(const measured_outputs *outputs, cli_measurement *measurement)
{
    char reason[256];
    const lab_tensors *tensors = outputs->tensors;
    measurement->sampled =
        measurement->checked_part && outputs->first == LAB_OUT && lab_can_sample(&tensors->problem);
    if (!measurement->sampled ||
        lab_sample_rows(tensors, outputs->images[LAB_OUT], measurement->check.tolerance, reason))
        return FC_OK;
    measurement->check.outcome = CHECK_FAILED;
    snprintf(measurement->reason, sizeof measurement->reason, "%s", reason);
    return FC_ERROR_INVALID;
}

/* One call that is not timed, then those that are, on poisoned outputs both times: what the last of
 * them left has to be what the first did, to the bit. */
static fc_status time_and_verify(const bench_call *call, const lab_tensors *tensors, double seconds,
                                 cli_measurement *measurement)
{
    measured_outputs untimed = {.tensors = tensors,
                                .first = call->gradients ? LAB_DQ : LAB_OUT,
                                .end = call->gradients ? LAB_TENSOR_COUNT : LAB_DQ};
    const char *different = NULL;
    fc_status status = poison_outputs(&untimed);
    if (status == FC_OK)
        status = call->gradients
                     ? fc_plan_backward(call->plan, call->buffers, call->gradients, NULL)
                     : fc_plan_forward(call->plan, call->buffers, NULL);
    if (status == FC_OK)
        status = read_outputs(&untimed);
    if (status == FC_OK)
        status = check_rows(&untimed, measurement);
    if (status == FC_OK)
        status = poison_outputs(&untimed);
    if (status == FC_OK)
        status = bench_calls(call, seconds, &measurement->times);
    if (status == FC_OK)
        status = find_difference(&untimed, &different);
    if (different)
        snprintf(measurement->reason, sizeof measurement->reason,
                 "the timed calls left other bits in %s than a call that was not timed", different);
    free_outputs(&untimed);
    return different ? FC_ERROR_INVALID : status;
}

/* The backward call reads what the forward one leaves. */
static fc_status time_plan(const fc_plan *plan, const lab_tensors *tensors, fc_buffers *buffers,
                           const fc_gradients *gradients, double seconds,
                           cli_measurement *measurement)
{
    const lab_memory *memory = &tensors->memory;
    const bench_call call = {.plan = plan, .buffers = buffers, .gradients = gradients};
    const size_t forward = fc_plan_workspace_bytes(plan, FC_FORWARD);
    const size_t backward = gradients ? fc_plan_workspace_bytes(plan, FC_BACKWARD) : 0;
    buffers->workspace_bytes = forward > backward ? forward : backward;
    if (buffers->workspace_bytes > 0)
        buffers->workspace = memory->allocate(memory->user, buffers->workspace_bytes);
    fc_status status = gradients ? fc_plan_forward(plan, buffers, NULL) : FC_OK;
    if (status == FC_OK)
        status = time_and_verify(&call, tensors, seconds, measurement);
    if (buffers->workspace != NULL)
        memory->release(memory->user, buffers->workspace);
    return status;
}

/* Sets of buffers, with data of their own, that keep L2 cold: 0 where that takes too many. */
static int sets_beyond_cache(const fc_context *context, const fc_attention *problem)
{
    enum { MOST_SETS = 128 };
    fc_cuda_limits limits;
    if (!context->cuda || fc_cuda_emulator() ||
        fc_cuda_read_limits(context->cuda, &limits) != FC_OK)
        return 0;
    const double sets = bench_cold_sets(bench_bytes(problem, FC_FORWARD), limits.l2_bytes);
    return sets <= MOST_SETS ? (int)sets : 0;
}

/* Nothing is reported where there is no memory for the sets. */
static void time_sets(const fc_context *context, const fc_plan *plan, int wanted, double seconds,
                      cli_measurement *measurement)
{
    const fc_case c = case_of(measurement, &measurement->problem);
    const lab_memory memory = lab_memory_of(context);
    const size_t bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    void *workspace = bytes > 0 ? memory.allocate(memory.user, bytes) : NULL;
    lab_tensors *tensors = lab_zeroed(wanted, sizeof *tensors);
    fc_buffers *sets = lab_zeroed(wanted, sizeof *sets);
    int made = 0;
    for (; made < wanted; made++) {
        fc_case other = c;
        other.seed += (uint64_t)made;
        if (lab_tensors_create(&other, &memory, &tensors[made]) != FC_OK)
            break;
        sets[made] = lab_tensors_buffers(&tensors[made]);
        sets[made].workspace = workspace;
        sets[made].workspace_bytes = workspace ? bytes : 0;
    }
    if (made == wanted && (workspace || bytes == 0) &&
        bench_rotation(plan, sets, made, seconds, &measurement->cold_p50) != FC_OK)
        measurement->cold_p50 = 0;
    while (made > 0)
        lab_tensors_destroy(&tensors[--made]);
    free(tensors);
    free(sets);
    if (workspace)
        memory.release(memory.user, workspace);
}

static bool time_whole(const fc_context *context, const fc_plan *plan, double seconds,
                       cli_measurement *measurement)
{
    const lab_memory memory = lab_memory_of(context);
    const fc_case c = case_of(measurement, &measurement->problem);
    lab_tensors tensors;
    if (lab_tensors_create(&c, &memory, &tensors) != FC_OK)
        return false;
    fc_buffers buffers = lab_tensors_buffers(&tensors);
    const fc_gradients gradients = lab_tensors_gradients(&tensors);
    bool ok = time_plan(plan, &tensors, &buffers, c.backward ? &gradients : NULL, seconds,
                        measurement) == FC_OK;
    lab_tensors_destroy(&tensors);
    return ok;
}

void cli_measure(fc_context *context, double seconds, cli_measurement *measurement)
{
    fc_plan *plan = NULL;
    if (fc_plan_create(context, &measurement->problem, &plan) != FC_OK) {
        measurement->check.outcome = CHECK_REFUSED;
        snprintf(measurement->reason, sizeof measurement->reason, "%s", fc_last_error());
        return;
    }
    check(context, plan, measurement);
    if (measurement->check.outcome == CHECK_PASSED && !cli_measured_kernel(measurement))
        snprintf(measurement->reason, sizeof measurement->reason,
                 "no kernel for this direction accepts it; 'flashcore kernels' says why");
    else if (measurement->check.outcome == CHECK_PASSED)
        measurement->timed = time_whole(context, plan, seconds, measurement);
    if (!measurement->timed && measurement->reason[0] == '\0')
        snprintf(measurement->reason, sizeof measurement->reason, "%s", fc_last_error());
    fc_plan_destroy(plan);
}

void cli_measure_cold(fc_context *context, double seconds, cli_measurement *measurement)
{
    fc_plan *plan = NULL;
    if (!measurement->timed || measurement->direction != FC_FORWARD)
        return;
    const int sets = sets_beyond_cache(context, &measurement->problem);
    if (sets == 1)
        measurement->cold_p50 = measurement->times.p50;
    else if (sets > 1 && fc_plan_create(context, &measurement->problem, &plan) == FC_OK)
        time_sets(context, plan, sets, seconds, measurement);
    fc_plan_destroy(plan);
}

const char *cli_measured_kernel(const cli_measurement *measurement)
{
    return measurement->direction == FC_FORWARD ? measurement->check.kernel
                                                : measurement->check.backward_kernel;
}

double cli_measured_error(const cli_measurement *measurement)
{
    return measurement->direction == FC_FORWARD ? measurement->check.max_error
                                                : measurement->check.gradient_error;
}

double cli_tflops(const cli_measurement *measurement)
{
    return bench_flops(&measurement->problem, measurement->direction) / measurement->times.p50 *
           1e-12;
}

double cli_gigabytes_per_second(const cli_measurement *measurement)
{
    return bench_bytes(&measurement->problem, measurement->direction) / measurement->times.p50 *
           1e-9;
}

const char *cli_outcome_name(check_outcome outcome)
{
    static const char *const names[] = {
        [CHECK_PASSED] = "passed", [CHECK_FAILED] = "failed", [CHECK_REFUSED] = "refused"};
    return names[outcome];
}

void cli_measurement_json(json_writer *json, const cli_measurement *measurement)
{
    cli_problem_json(json, "problem", &measurement->problem);
    json_text(json, "direction", measurement->direction == FC_FORWARD ? "forward" : "backward");
    json_text(json, "without", measurement->without_lse ? "LSE" : "");
    json_text(json, "kernel", cli_measured_kernel(measurement));
    json_text(json, "check",
              measurement->left_out ? "left out" : cli_outcome_name(measurement->check.outcome));
    json_boolean(json, "checked_part", measurement->checked_part);
    json_boolean(json, "sampled", measurement->sampled);
    json_number(json, "max_error", cli_measured_error(measurement));
    json_number(json, "tolerance",
                measurement->direction == FC_FORWARD ? measurement->check.tolerance
                                                     : measurement->check.gradient_tolerance);
    if (measurement->check.lse_tolerance > 0)
        json_number(json, "lse_error", measurement->check.lse_error);
    json_text(json, "reason", measurement->reason);
    if (!measurement->timed)
        return;
    json_integer(json, "calls", (int64_t)measurement->times.calls);
    json_number(json, "p10_us", measurement->times.p10 * 1e6);
    json_number(json, "p50_us", measurement->times.p50 * 1e6);
    json_number(json, "p90_us", measurement->times.p90 * 1e6);
    json_number(json, "spread", measurement->times.spread);
    if (measurement->times.plain_p50 > 0)
        json_number(json, "plain_p50_us", measurement->times.plain_p50 * 1e6);
    if (measurement->cold_p50 > 0)
        json_number(json, "cold_p50_us", measurement->cold_p50 * 1e6);
    json_number(json, "operations", bench_flops(&measurement->problem, measurement->direction));
    json_number(json, "bytes", bench_bytes(&measurement->problem, measurement->direction));
    json_number(json, "tflops", cli_tflops(measurement));
    json_number(json, "gigabytes_per_second", cli_gigabytes_per_second(measurement));
}

const char *cli_duration(double seconds, char text[CLI_DURATION_BYTES])
{
    if (seconds < 1e-3)
        snprintf(text, CLI_DURATION_BYTES, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, CLI_DURATION_BYTES, "%.2f ms", seconds * 1e3);
    else
        snprintf(text, CLI_DURATION_BYTES, "%.2f s", seconds);
    return text;
}
