/* check.c: see check.h. */
#include "check.h"

#include "bench.h"
#include "change.h"
#include "core/internal.h"
#include "cuda/services.h"
#include "expect.h"
#include "f16_promise.h"
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fc_status plain_forward(void *user, fc_context *context, const fc_attention *problem,
                               const fc_plan *plan, const fc_buffers *buffers)
{
    (void)user, (void)context, (void)problem;
    return fc_plan_forward(plan, buffers, NULL);
}

static fc_status plain_backward(void *user, fc_context *context, const fc_attention *problem,
                                const fc_plan *plan, const fc_buffers *buffers,
                                const fc_gradients *gradients)
{
    (void)user, (void)context, (void)problem;
    return fc_plan_backward(plan, buffers, gradients, NULL);
}

check_target check_target_of(fc_context *context)
{
    return (check_target){.context = context,
                          .memory = lab_memory_of(context),
                          .forward = plain_forward,
                          .backward = plain_backward};
}

typedef struct checking {
    const check_target *target;
    lab_tensors *tensors;
    lab_run first; /* what all else is compared with */
    lab_run alone;
    check_result *result;
} checking;

static bool __attribute__((format(printf, 2, 3))) failed(checking *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    c->result->outcome = CHECK_FAILED;
    vsnprintf(c->result->reason, sizeof c->result->reason, format, arguments);
    va_end(arguments);
    return false;
}

static bool run_first(checking *c)
{
    c->first = (lab_run){.target = c->target,
                         .tensors = c->tensors,
                         .context = c->target->context,
                         .poison = LAB_FIRST_POISON};
    const bool ok = lab_run_guarded(&c->first);
    c->result->kernel = c->first.kernel;
    c->result->backward_kernel = c->first.backward_kernel;
    if (ok)
        return true;
    failed(c, "%s", c->first.reason);
    if (c->first.status == FC_ERROR_UNSUPPORTED && !c->first.kernel)
        c->result->outcome = CHECK_REFUSED;
    return false;
}

/* The same kernels with one thread. Other devices have no such setting: there the context itself.
 */
static fc_status make_serial_context(const checking *c, fc_context **context)
{
    char kernels[160];
    snprintf(kernels, sizeof kernels, "%s%s%s", c->first.kernel,
             c->first.backward_kernel ? "," : "",
             c->first.backward_kernel ? c->first.backward_kernel : "");
    fc_context_options options = fc_context_options_init();
    options.threads = 1;
    options.kernel = kernels;
    return fc_context_create(&options, context);
}

static bool same_as_first(checking *c, fc_context *context, const char *when)
{
    lab_run again = {.target = c->target,
                     .tensors = c->tensors,
                     .context = context,
                     .poison = LAB_SECOND_POISON};
    char element[96];
    bool ok = lab_run_guarded(&again) || failed(c, "%s", again.reason);
    if (ok && !lab_run_same_bits(&c->first, &again, element, sizeof element))
        ok = failed(c, "%s has other bits %s", element, when);
    lab_run_free(&again);
    return ok;
}

/* One more run shows both, at the price of one: with other threads, if there are any, and again. */
static bool run_again(checking *c)
{
    static const char *const again = "when the same call is made again";
    if (!lab_is_host(&c->target->memory))
        return same_as_first(c, c->target->context, again);
    fc_context *serial;
    if (make_serial_context(c, &serial) != FC_OK)
        return failed(c, "%s", fc_last_error());
    const bool ok = same_as_first(c, serial, "with one thread");
    fc_context_destroy(serial);
    if (!ok)
        same_as_first(c, c->target->context, again); /* the better explanation, if it is true */
    return ok;
}

/* Dropout counts by the place in the batch, so that a sequence alone is another problem. */
static bool run_alone(checking *c)
{
    const fc_attention *p = &c->tensors->problem;
    if (p->batch < 2 || p->dropout_p > 0)
        return true;
    c->alone = (lab_run){.target = c->target,
                         .tensors = c->tensors,
                         .context = c->target->context,
                         .poison = LAB_FIRST_POISON,
                         .each_alone = true};
    char element[96];
    if (!lab_run_guarded(&c->alone))
        return failed(c, "%s", c->alone.reason);
    if (p->batch_invariant && !lab_run_same_bits(&c->first, &c->alone, element, sizeof element))
        return failed(c, "%s has other bits when its sequence is alone in the batch", element);
    return true;
}

static void note_errors(check_result *result, lab_tensor tensor, const compare_report *report)
{
    if (tensor == LAB_OUT) {
        result->max_error = report->error;
        result->mean_error = report->mean_error;
        result->relative_error = report->relative_error;
        memcpy(result->ulps, report->ulps, sizeof result->ulps);
        result->tolerance = report->tolerance;
    } else if (tensor == LAB_LSE) {
        result->lse_error = report->error;
        result->lse_tolerance = report->tolerance;
    } else if (report->error * result->gradient_tolerance >=
               result->gradient_error * report->tolerance) {
        result->gradient_error = report->error;
        result->gradient_tolerance = report->tolerance;
    }
}

/* A run that has nothing but to be right. */
static bool compare_run(checking *c, const lab_run *run, lab_tensor tensor,
                        const lab_expectation *e, double tolerance, const char *when)
{
    compare_report report;
    if (!run->image[tensor])
        return true;
    compare_tensor(c->tensors, tensor, run->image[tensor], &e->truth, tolerance, &report);
    return !report.reason[0] || failed(c, "%s: %s", when, report.reason);
}

/* The ladder's kernels round weights as is usual, and are not held to it. */
static bool compare_few_keys(checking *c, const lab_expectation *e)
{
    char reason[256];
    return strncmp(c->first.kernel, "ladder_", strlen("ladder_")) == 0 ||
           f16_few_keys(c->tensors, c->first.image[LAB_OUT], &e->truth, reason) ||
           failed(c, "%s", reason);
}

static bool compare_all(checking *c, const lab_expectation *e)
{
    compare_report report;
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++) {
        if (!c->first.image[tensor])
            continue;
        const double tolerance = lab_tolerance(c->tensors, tensor, e);
        compare_tensor(c->tensors, tensor, c->first.image[tensor], &e->truth, tolerance, &report);
        note_errors(c->result, tensor, &report);
        if (report.reason[0])
            return failed(c, "%s", report.reason);
        if (tensor == LAB_OUT && !compare_few_keys(c, e))
            return false;
        if (!compare_run(c, &c->alone, tensor, e, tolerance, "alone in the batch"))
            return false;
    }
    return true;
}

/* Runs forward on changed inputs and puts them back. */
static bool run_changed(checking *c, lab_change change, lab_run *run)
{
    *run = (lab_run){.target = c->target,
                     .tensors = c->tensors,
                     .context = c->target->context,
                     .poison = LAB_FIRST_POISON,
                     .forward_only = true};
    if (lab_change_make(c->tensors, change) != FC_OK)
        return failed(c, "the inputs could not be changed: %s", fc_last_error());
    const bool ok = lab_run_guarded(run);
    if (lab_change_undo(c->tensors, change) != FC_OK)
        return failed(c, "the inputs could not be put back: %s", fc_last_error());
    return ok || failed(c, "with changed inputs: %s", run->reason);
}

static bool doubles_with_values(checking *c)
{
    lab_run doubled = {0};
    char element[96];
    bool ok = run_changed(c, LAB_DOUBLE_V, &doubled);
    if (ok && !compare_doubled(c->tensors, c->first.image[LAB_OUT], doubled.image[LAB_OUT], element,
                               sizeof element))
        ok = failed(c, "%s is not doubled when every value is", element);
    free(doubled.image[LAB_OUT]);
    doubled.image[LAB_OUT] = NULL;
    if (ok && !lab_run_same_bits(&c->first, &doubled, element, sizeof element))
        ok = failed(c, "%s has other bits when the values alone change", element);
    lab_run_free(&doubled);
    return ok;
}

static bool ignores_order_of_keys(checking *c, const lab_expectation *e)
{
    lab_run reversed = {0};
    bool ok = run_changed(c, LAB_REVERSE_KEYS, &reversed);
    for (lab_tensor tensor = LAB_OUT; ok && tensor <= LAB_LSE; tensor++)
        ok = compare_run(c, &reversed, tensor, e, lab_tolerance(c->tensors, tensor, e),
                         "with the keys in another order");
    lab_run_free(&reversed);
    return ok;
}

static bool ignores_shift_of_keys(checking *c, const lab_expectation *e)
{
    lab_run shifted = {0};
    const bool ok = run_changed(c, LAB_SHIFT_KEYS, &shifted) &&
                    compare_run(c, &shifted, LAB_OUT, e, lab_shifted_tolerance(c->tensors, e),
                                "with the same vector added to every key");
    lab_run_free(&shifted);
    return ok;
}

static bool follows_changes(checking *c, const lab_expectation *e)
{
    const fc_context *context = c->target->context;
    if (context->cuda && fc_cuda_emulator())
        return true;
    if (lab_change_applies(c->tensors, LAB_DOUBLE_V) && !doubles_with_values(c))
        return false;
    if (lab_change_applies(c->tensors, LAB_SHIFT_KEYS) && !ignores_shift_of_keys(c, e))
        return false;
    return !lab_change_applies(c->tensors, LAB_REVERSE_KEYS) || ignores_order_of_keys(c, e);
}

static void compare_with_truth(checking *c)
{
    lab_expectation e;
    char reason[256];
    if (!lab_expect(c->tensors, &e, reason))
        failed(c, "%s", reason);
    else if (compare_all(c, &e))
        follows_changes(c, &e);
    lab_expectation_free(&e);
}

/* Where no kernel has a backward direction, the forward one is all there is to check. */
static bool has_backward(fc_context *context, const fc_attention *problem)
{
    fc_plan *plan = NULL;
    const bool has = fc_plan_create(context, problem, &plan) == FC_OK &&
                     fc_plan_kernel(plan, FC_BACKWARD) != NULL;
    fc_plan_destroy(plan);
    return has;
}

void check_case_on(const check_target *target, const fc_case *of, check_result *result)
{
    const double start = bench_now();
    *result = (check_result){.outcome = CHECK_PASSED};
    lab_tensors tensors;
    checking c = {.target = target, .tensors = &tensors, .result = result};
    fc_case possible = *of;
    possible.backward = of->backward && has_backward(target->context, &of->problem);
    if (lab_tensors_create(&possible, &target->memory, &tensors) != FC_OK) {
        failed(&c, "no memory for the tensors of the case");
    } else {
        if (run_first(&c) && run_again(&c) && run_alone(&c))
            compare_with_truth(&c);
        lab_run_free(&c.first);
        lab_run_free(&c.alone);
        lab_tensors_destroy(&tensors);
    }
    result->seconds = bench_now() - start;
}

void check_case(fc_context *context, const fc_case *c, check_result *result)
{
    const check_target target = check_target_of(context);
    check_case_on(&target, c, result);
}
