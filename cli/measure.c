/* measure.c: see measure.h. */
#include "measure.h"
#include "problem.h"
#include "tensors.h"

#include <stdio.h>

/* About ten runs of the reference make a check; at its speed this is some ten seconds. */
static const double most_flops_to_check = 2e9;

static bool is_too_large(const fc_attention *problem)
{
    return bench_flops(problem) > most_flops_to_check &&
           (problem->batch > 1 || problem->kv_heads > 1);
}

/* One sequence and one KV head with its query heads. Tensors are dense again: other heads and
 * sequences were what the strides led to. */
static fc_attention part_of(const fc_attention *problem)
{
    fc_attention part = *problem;
    part.batch = 1;
    part.q_heads = problem->q_heads / problem->kv_heads;
    part.kv_heads = 1;
    part.q_strides = part.k_strides = part.v_strides = part.out_strides = (fc_strides){0};
    if (part.packed_q)
        part.packed_q_rows = part.q_length;
    if (part.packed_kv)
        part.packed_kv_rows = part.kv_length;
    return part;
}

static void check(fc_context *context, cli_measurement *measurement)
{
    fc_case c;
    measurement->checked_part = is_too_large(&measurement->problem);
    fc_attention part =
        measurement->checked_part ? part_of(&measurement->problem) : measurement->problem;
    case_from_problem(&part, &c);
    check_case(context, &c, &measurement->check);
    snprintf(measurement->reason, sizeof measurement->reason, "%s", measurement->check.reason);
}

static fc_status time_plan(const fc_plan *plan, const lab_memory *memory, fc_buffers *buffers,
                           double seconds, bench_times *times)
{
    buffers->workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    if (buffers->workspace_bytes > 0)
        buffers->workspace = memory->allocate(memory->user, buffers->workspace_bytes);
    fc_status status = bench_forward(plan, buffers, seconds, times);
    if (buffers->workspace != NULL)
        memory->release(memory->user, buffers->workspace);
    return status;
}

/* Of a large problem only a part was checked, which another kernel may have run. */
static bool is_checked_kernel(const fc_plan *plan, cli_measurement *measurement)
{
    const char *checked = measurement->check.kernel, *timed = fc_plan_kernel(plan, FC_FORWARD);
    if (checked != NULL && strcmp(checked, timed) == 0)
        return true;
    snprintf(measurement->reason, sizeof measurement->reason,
             "the check of a part ran %s, but all of it would run %s; force one with --kernel",
             checked, timed);
    return false;
}

static bool time_whole(const fc_context *context, const fc_plan *plan, double seconds,
                       cli_measurement *measurement)
{
    const lab_memory memory = lab_memory_of(context);
    fc_case c;
    lab_tensors tensors;
    case_from_problem(&measurement->problem, &c);
    if (lab_tensors_create(&c, &memory, &tensors) != FC_OK)
        return false;
    fc_buffers buffers = lab_tensors_buffers(&tensors);
    bool ok = time_plan(plan, &memory, &buffers, seconds, &measurement->times) == FC_OK;
    lab_tensors_destroy(&tensors);
    return ok;
}

void cli_measure(fc_context *context, const fc_attention *problem, double seconds,
                 cli_measurement *measurement)
{
    fc_plan *plan = NULL;
    *measurement = (cli_measurement){.problem = *problem};
    check(context, measurement);
    if (measurement->check.outcome != CHECK_PASSED)
        return;
    if (fc_plan_create(context, problem, &plan) == FC_OK && is_checked_kernel(plan, measurement))
        measurement->timed = time_whole(context, plan, seconds, measurement);
    if (!measurement->timed && measurement->reason[0] == '\0')
        snprintf(measurement->reason, sizeof measurement->reason, "%s", fc_last_error());
    fc_plan_destroy(plan);
}

double cli_tflops(const cli_measurement *measurement)
{
    return bench_flops(&measurement->problem) / measurement->times.p50 * 1e-12;
}

double cli_gigabytes_per_second(const cli_measurement *measurement)
{
    return bench_bytes(&measurement->problem) / measurement->times.p50 * 1e-9;
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
    json_text(json, "kernel", measurement->check.kernel);
    json_text(json, "check",
              measurement->left_out ? "left out" : cli_outcome_name(measurement->check.outcome));
    json_boolean(json, "checked_part", measurement->checked_part);
    json_number(json, "max_error", measurement->check.max_error);
    json_number(json, "tolerance", measurement->check.tolerance);
    json_text(json, "reason", measurement->reason);
    if (!measurement->timed)
        return;
    json_integer(json, "calls", (int64_t)measurement->times.calls);
    json_number(json, "p10_us", measurement->times.p10 * 1e6);
    json_number(json, "p50_us", measurement->times.p50 * 1e6);
    json_number(json, "p90_us", measurement->times.p90 * 1e6);
    if (measurement->times.plain_p50 > 0)
        json_number(json, "plain_p50_us", measurement->times.plain_p50 * 1e6);
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
