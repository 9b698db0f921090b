/* check.h: does a kernel keep the promises of flashcore.h on a case?
 *
 * The kernel runs first, on outputs full of poison; then again with one thread and other poison;
 * then on every sequence alone. Only then is the truth computed, and afterwards the kernel runs on
 * inputs that were changed where they lie. What is looked at:
 *   - nothing but the outputs is written: inputs, guards, gaps between rows, workspace guards;
 *   - nothing is written once the call has returned, or of a GPU once its stream has come so far;
 *   - every element of the outputs is written, and within its tolerance of the truth (compare.h);
 *   - the bits do not change from run to run, nor with the number of threads; with batch_invariant
 *     nor when the sequence stands alone;
 *   - changed inputs change the output as they must (change.h): twice the values give twice the
 *     output, to the bit; the same vector added to every key, or keys in another order, the same
 *     output. Not on the emulator, where a run takes seconds. */
#ifndef LAB_CHECK_H
#define LAB_CHECK_H

#include "cases.h"
#include "compare.h"
#include "memory.h"

typedef enum check_outcome {
    CHECK_PASSED,
    CHECK_FAILED,
    CHECK_REFUSED /* no kernel accepts the case, or the forced one does not */
} check_outcome;

typedef struct check_result {
    check_outcome outcome;
    char reason[1024];           /* what is wrong, or why it was refused; "" when passed */
    const char *kernel;          /* NULL when refused */
    const char *backward_kernel; /* NULL when the case asks for none, or none is there */
    double max_error;            /* of out, and so are the next four */
    double mean_error;
    double relative_error;
    int64_t ulps[COMPARE_ULP_BINS];
    double tolerance;
    double lse_error;
    double lse_tolerance;
    double gradient_error; /* of the gradient that came nearest to its tolerance */
    double gradient_tolerance;
    double seconds; /* of the whole check */
} check_result;

/* In the memory of the context's device. */
void check_case(fc_context *context, const fc_case *c, check_result *result);

/* The same in any memory, and with calls that a test may replace to see them caught. */
typedef struct check_target {
    fc_context *context;
    lab_memory memory;
    void *user;
    /* plan is that of problem on context, or on another context with the same kernels. */
    fc_status (*forward)(void *user, fc_context *context, const fc_attention *problem,
                         const fc_plan *plan, const fc_buffers *buffers);
    fc_status (*backward)(void *user, fc_context *context, const fc_attention *problem,
                          const fc_plan *plan, const fc_buffers *buffers,
                          const fc_gradients *gradients);
} check_target;

check_target check_target_of(fc_context *context);
void check_case_on(const check_target *target, const fc_case *c, check_result *result);

#endif
