/* test_check.c: the harness believes nobody. Each test stands in a kernel that is wrong in one way
 * and asks for the sentence that says so; the honest kernel passes the same case first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "compare.h"
#include "core/convert.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

static fc_context *context;

static int make_context(void **state)
{
    (void)state;
    fc_context_options options = fc_context_options_init();
    options.kernel = "reference,reference_backward";
    return fc_context_create(&options, &context) == FC_OK ? 0 : -1;
}

static int destroy_context(void **state)
{
    (void)state;
    fc_context_destroy(context);
    return 0;
}

static fc_case find_case(const char *group, const char *name)
{
    fc_case c;
    for (size_t i = 0; i < case_count(); i++) {
        case_get(i, &c);
        if (strcmp(c.group, group) == 0 && strcmp(c.name, name) == 0)
            return c;
    }
    fail_msg("there is no case %s/%s", group, name);
    return c;
}

typedef fc_status forward_call(void *, fc_context *, const fc_attention *, const fc_plan *,
                               const fc_buffers *);
typedef fc_status backward_call(void *, fc_context *, const fc_attention *, const fc_plan *,
                                const fc_buffers *, const fc_gradients *);

static void expect_failure(const fc_case *c, const check_target *target, const char *sentence)
{
    check_result result;
    check_case(context, c, &result);
    if (result.outcome != CHECK_PASSED)
        fail_msg("%s: the honest kernel does not pass: %s", c->name, result.reason);
    check_case_on(target, c, &result);
    if (result.outcome != CHECK_FAILED || !strstr(result.reason, sentence))
        fail_msg("%s: expected a failure with '%s', got outcome %d, '%s'", c->name, sentence,
                 (int)result.outcome, result.reason);
}

static void forward_is_caught(const char *group, const char *name, forward_call *forward,
                              const char *sentence)
{
    int calls = 0;
    const fc_case c = find_case(group, name);
    check_target target = check_target_of(context);
    target.forward = forward;
    target.user = &calls;
    expect_failure(&c, &target, sentence);
}

static void backward_is_caught(const char *group, const char *name, backward_call *backward,
                               const char *sentence)
{
    const fc_case c = find_case(group, name);
    check_target target = check_target_of(context);
    target.backward = backward;
    expect_failure(&c, &target, sentence);
}

/* Runs another problem on the same buffers. */
static fc_status run_other(fc_context *on, const fc_attention *problem, const fc_buffers *buffers)
{
    fc_plan *plan;
    fc_status status = fc_plan_create(on, problem, &plan);
    if (status != FC_OK)
        return status;
    fc_buffers own = *buffers;
    own.workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    own.workspace = lab_host_memory.allocate(NULL, own.workspace_bytes);
    status = fc_plan_forward(plan, &own, NULL);
    lab_host_memory.release(NULL, own.workspace);
    fc_plan_destroy(plan);
    return status;
}

static int64_t out_elements(const fc_attention *p)
{
    const int64_t dim = p->value_dim ? p->value_dim : p->head_dim;
    return p->batch * p->q_heads * p->q_length * dim;
}

/* The type of out, for the problems used here. */
static fc_type out_type(const fc_attention *p)
{
    return p->out_type ? p->out_type : p->q_type;
}

/* One wrong step after (or in place of) the honest call. */
#define CHEAT(name)                                                                               \
    static fc_status name(void *user, fc_context *on, const fc_attention *p, const fc_plan *plan, \
                          const fc_buffers *b)

CHEAT(constant)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < out_elements(p); i++)
        fc_store(out_type(p), b->out, i, 0.125);
    return status;
}

CHEAT(sign_flipped)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < out_elements(p); i++)
        fc_store(out_type(p), b->out, i, -fc_load(out_type(p), b->out, i));
    return status;
}

CHEAT(rounded_to_less)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    const fc_type less = out_type(p) == FC_F32 ? FC_F16 : FC_BF16;
    for (int64_t i = 0; i < out_elements(p); i++)
        fc_store(out_type(p), b->out, i, lab_round(less, fc_load(out_type(p), b->out, i)));
    return status;
}

CHEAT(last_key_skipped)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    other.kv_length--;
    return run_other(on, &other, b);
}

CHEAT(mask_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    other.has_mask = 0;
    other.mask_strides = (fc_broadcast){0};
    buffers.mask = NULL;
    return run_other(on, &other, &buffers);
}

CHEAT(lengths_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    other.has_kv_lengths = 0;
    buffers.kv_lengths = NULL;
    return run_other(on, &other, &buffers);
}

CHEAT(other_diagonal)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    other.diagonal = FC_TOP_LEFT;
    return run_other(on, &other, b);
}

CHEAT(writes_behind)
{
    (void)user, (void)on;
    fc_store(out_type(p), b->out, out_elements(p), 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_before)
{
    (void)user, (void)on;
    fc_store(out_type(p), b->out, -1, 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_into_gap)
{
    (void)user, (void)on;
    fc_store(out_type(p), b->out, p->head_dim, 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_behind_workspace)
{
    (void)user, (void)on, (void)p;
    ((uint8_t *)b->workspace)[b->workspace_bytes] = 0;
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(leaves_one_out)
{
    (void)user, (void)on;
    const double before = fc_load(out_type(p), b->out, 77);
    const fc_status status = fc_plan_forward(plan, b, NULL);
    fc_store(out_type(p), b->out, 77, before);
    return status;
}

/* Returns at once; out is written by another thread, which waits until the harness has looked. */
static struct {
    pthread_t thread;
    sem_t harness_has_looked;
    void *out;
    uint8_t values[1 << 16];
    size_t bytes;
} late;

static void *write_late(void *user)
{
    while (sem_wait(&late.harness_has_looked) != 0) {
    }
    memcpy(late.out, late.values, late.bytes);
    return user;
}

CHEAT(writes_late)
{
    (void)user, (void)on;
    fc_buffers elsewhere = *b;
    elsewhere.out = late.values;
    late.out = b->out;
    late.bytes = (size_t)out_elements(p) * fc_type_bytes(out_type(p));
    assert_true(late.bytes <= sizeof late.values);
    const fc_status status = fc_plan_forward(plan, &elsewhere, NULL);
    assert_int_equal(sem_init(&late.harness_has_looked, 0, 0), 0);
    assert_int_equal(pthread_create(&late.thread, NULL, write_late, NULL), 0);
    return status;
}

/* What waiting for the device does with work that is still under way: it ends. */
static fc_status end_late_write(void *user)
{
    (void)user;
    sem_post(&late.harness_has_looked);
    pthread_join(late.thread, NULL);
    sem_destroy(&late.harness_has_looked);
    return FC_OK;
}

CHEAT(changes_input)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    ((uint8_t *)b->k)[5] ^= 1;
    return status;
}

/* The smallest change there is: the last bit of one element. */
static void disturb(const fc_buffers *b)
{
    ((uint8_t *)b->out)[0] ^= 1;
}

CHEAT(changes_from_call_to_call)
{
    (void)on, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (++*(int *)user == 1)
        disturb(b);
    return status;
}

CHEAT(changes_with_threads)
{
    (void)user, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (on != context)
        disturb(b);
    return status;
}

CHEAT(changes_with_batch)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (p->batch == 1)
        disturb(b);
    return status;
}

CHEAT(wrong_when_alone)
{
    (void)on;
    return p->batch == 1 ? constant(user, on, p, plan, b) : fc_plan_forward(plan, b, NULL);
}

/* An answer kept from the first call with these pointers. */
static struct {
    const void *q;
    uint8_t out[1 << 16];
    float lse[1 << 12];
} kept;

CHEAT(answers_by_pointer)
{
    (void)user, (void)on;
    const size_t out_bytes = (size_t)out_elements(p) * fc_type_bytes(out_type(p));
    const size_t rows = (size_t)(p->batch * p->q_heads * p->q_length);
    assert_true(out_bytes <= sizeof kept.out && rows * sizeof(float) <= sizeof kept.lse);
    if (kept.q == b->q) {
        memcpy(b->out, kept.out, out_bytes);
        memcpy(b->lse, kept.lse, rows * sizeof(float));
        return FC_OK;
    }
    const fc_status status = fc_plan_forward(plan, b, NULL);
    kept.q = b->q;
    memcpy(kept.out, b->out, out_bytes);
    memcpy(kept.lse, b->lse, rows * sizeof(float));
    return status;
}

/* Right as long as the keys stay where they were. */
CHEAT(wrong_once_keys_move)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    static double first_key;
    static const void *seen;
    const double key = fc_load(out_type(p), b->k, 0);
    if (seen == b->k && key != first_key)
        fc_store(out_type(p), b->out, 0, 2 + fc_load(out_type(p), b->out, 0));
    seen = b->k;
    first_key = key;
    return status;
}

/* Attention written out for a dense problem without features, but for scores cut off at ±limit:
 * what unit normal values never reach, and adding one vector to all keys does. */
static double clipped_score(const fc_attention *p, const fc_buffers *b, int64_t q_row, int64_t key)
{
    const double limit = 8;
    double sum = 0;
    for (int64_t d = 0; d < p->head_dim; d++)
        sum += fc_load(p->q_type, b->q, q_row * p->head_dim + d) *
               fc_load(p->q_type, b->k, key * p->head_dim + d);
    return fmin(fmax(sum / sqrt((double)p->head_dim), -limit), limit);
}

CHEAT(scores_clipped)
{
    (void)user, (void)on, (void)plan;
    for (int64_t row = 0; row < p->batch * p->q_heads * p->q_length; row++) {
        const int64_t first_key = row / p->q_length * p->kv_length;
        double total = 0;
        for (int64_t j = 0; j < p->kv_length; j++)
            total += exp(clipped_score(p, b, row, first_key + j));
        for (int64_t d = 0; d < p->head_dim; d++) {
            double sum = 0;
            for (int64_t j = 0; j < p->kv_length; j++)
                sum += exp(clipped_score(p, b, row, first_key + j)) *
                       fc_load(p->q_type, b->v, (first_key + j) * p->head_dim + d);
            fc_store(out_type(p), b->out, row * p->head_dim + d, sum / total);
        }
        b->lse[row] = (float)log(total);
    }
    return FC_OK;
}

CHEAT(keys_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    buffers.k = b->q; /* the benchmark's q and k are alike in size */
    return run_other(on, &other, &buffers);
}

CHEAT(right_for_one_shape)
{
    return p->q_length == 512 ? fc_plan_forward(plan, b, NULL) : constant(user, on, p, plan, b);
}

CHEAT(lse_in_base_two)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < p->batch * p->q_heads * p->q_length; i++)
        b->lse[i] *= 1.44269504f;
    return status;
}

CHEAT(lse_of_blind_row_is_finite)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < p->batch * p->q_heads * p->q_length; i++)
        if (isinf(b->lse[i]))
            b->lse[i] = -1e30f;
    return status;
}

CHEAT(nan_swallowed)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < out_elements(p); i++)
        if (isnan(fc_load(out_type(p), b->out, i)))
            fc_store(out_type(p), b->out, i, 0);
    return status;
}

CHEAT(nan_spread)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    fc_store(out_type(p), b->out, out_elements(p) - 1, NAN);
    return status;
}

CHEAT(gives_up)
{
    (void)user, (void)on, (void)p, (void)plan, (void)b;
    return FC_ERROR_DRIVER;
}

#define CAUGHT(promise, group, name, cheat, sentence)    \
    static void promise(void **state)                    \
    {                                                    \
        (void)state;                                     \
        forward_is_caught(group, name, cheat, sentence); \
    }

CAUGHT(test_constant_output, "shapes", "b1-h2-s64-f32-seed1", constant, "expected")
CAUGHT(test_flipped_sign, "shapes", "b1-h2-s64-f16-seed2", sign_flipped, "out[b 0, head")
CAUGHT(test_f16_rounded_to_bf16, "shapes", "b1-h2-s64-f16-seed1", rounded_to_less, "tolerance")
CAUGHT(test_f32_rounded_to_f16, "shapes", "b1-h2-s64-f32-seed1", rounded_to_less, "tolerance")
CAUGHT(test_last_key_skipped, "features", "swapped", last_key_skipped, "tolerance")
CAUGHT(test_last_key_skipped_f32, "pairs", "swapped-f32", last_key_skipped, "tolerance")
CAUGHT(test_mask_ignored, "features", "mask", mask_ignored, "tolerance")
CAUGHT(test_hidden_keys_read, "masked", "last_keys-q17-kv40", mask_ignored, "is nan, expected")
CAUGHT(test_padding_read, "features", "kv_lengths", lengths_ignored, "is nan, expected")
CAUGHT(test_other_diagonal, "features", "causal", other_diagonal, "tolerance")
CAUGHT(test_write_past_the_end, "features", "f32", writes_behind, "past the end of out was written")
CAUGHT(test_write_before, "features", "f32", writes_before, "before out was written")
CAUGHT(test_write_into_a_gap, "features", "padded", writes_into_gap, "memory between its elements")
CAUGHT(test_write_past_workspace, "features", "f32", writes_behind_workspace,
       "outside the workspace")
CAUGHT(test_element_left_out, "features", "f32", leaves_one_out,
       "out[b 0, head 0, row 1, dim 13] was not written")
CAUGHT(test_input_changed, "features", "f32", changes_input, "the input k was changed")
CAUGHT(test_run_to_run, "features", "bf16", changes_from_call_to_call,
       "when the same call is made again")
CAUGHT(test_threads, "features", "bf16", changes_with_threads, "with one thread")
CAUGHT(test_batch_changes_bits, "features", "batch_invariant", changes_with_batch,
       "when its sequence is alone in the batch")
CAUGHT(test_wrong_when_alone, "features", "f32", wrong_when_alone, "alone in the batch: out[b")
CAUGHT(test_answer_kept_by_pointer, "shapes", "b1-h2-s64-f32-seed1", answers_by_pointer,
       "is not doubled when every value is")
CAUGHT(test_scores_clipped, "shifted", "coarse_keys-batch_invariant", scores_clipped,
       "with the same vector added to every key: out[b")
CAUGHT(test_order_of_keys, "shapes", "b1-h2-s64-f32-seed1", wrong_once_keys_move,
       "with the keys in another order: out[b 0, head 0, row 0, dim 0]")
CAUGHT(test_keys_ignored, "shapes", "b1-h2-s64-f16-seed1", keys_ignored, "tolerance")
CAUGHT(test_right_for_one_shape, "shapes", "b1-h2-s64-f32-seed1", right_for_one_shape, "expected")
CAUGHT(test_lse_in_base_two, "features", "f32", lse_in_base_two, "lse[b")
CAUGHT(test_lse_of_blind_row, "masked", "all_rows-q17-kv40", lse_of_blind_row_is_finite,
       "expected -inf")
CAUGHT(test_nan_swallowed, "values", "nan_key-f32", nan_swallowed, "expected nan")
CAUGHT(test_nan_spread, "values", "nan_key-causal-f32", nan_spread, "is nan, expected")
CAUGHT(test_failing_call, "features", "f32", gives_up, "the forward call gave FC_ERROR_DRIVER")

static void test_output_written_late(void **state)
{
    (void)state;
    const fc_case c = find_case("features", "f32");
    check_target target = check_target_of(context);
    target.forward = writes_late;
    target.memory.settle = end_late_write;
    expect_failure(&c, &target, "out was written after the forward call had returned");
}

/* Without batch_invariant the last bit may depend on the batch. */
static void test_last_bit_may_depend_on_the_batch(void **state)
{
    (void)state;
    int calls = 0;
    check_result result;
    const fc_case c = find_case("features", "f32");
    check_target target = check_target_of(context);
    target.forward = changes_with_batch;
    target.user = &calls;
    check_case_on(&target, &c, &result);
    assert_int_equal(result.outcome, CHECK_PASSED);
}

#define GRADIENT_CHEAT(name)                                                                      \
    static fc_status name(void *user, fc_context *on, const fc_attention *p, const fc_plan *plan, \
                          const fc_buffers *b, const fc_gradients *g)

GRADIENT_CHEAT(dq_halved)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    for (int64_t i = 0; i < p->batch * p->q_heads * p->q_length * p->head_dim; i++)
        fc_store(out_type(p), g->dq, i, fc_load(out_type(p), g->dq, i) / 2);
    return status;
}

GRADIENT_CHEAT(sinks_forgotten)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    g->dsinks[0] = 0;
    return status;
}

GRADIENT_CHEAT(bias_added_to)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    g->dbias[3] += 1e-3f;
    return status;
}

GRADIENT_CHEAT(unseen_key_left_out)
{
    (void)user, (void)on;
    const int64_t last = p->batch * p->kv_heads * p->kv_length * p->head_dim - 1;
    const double before = fc_load(out_type(p), g->dv, last);
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    fc_store(out_type(p), g->dv, last, before);
    return status;
}

GRADIENT_CHEAT(lse_overwritten)
{
    (void)user, (void)on, (void)p;
    b->lse[0] += 1;
    return fc_plan_backward(plan, b, g, NULL);
}

#define GRADIENT_CAUGHT(promise, group, name, cheat, sentence) \
    static void promise(void **state)                          \
    {                                                          \
        (void)state;                                           \
        backward_is_caught(group, name, cheat, sentence);      \
    }

GRADIENT_CAUGHT(test_wrong_dq, "features", "f32", dq_halved, "dq[b")
GRADIENT_CAUGHT(test_forgotten_dsinks, "features", "sinks", sinks_forgotten, "dsinks[b")
GRADIENT_CAUGHT(test_wrong_dbias, "pairs", "bias-f32", bias_added_to, "dbias[b")
GRADIENT_CAUGHT(test_gradient_of_unseen_key_left_out, "masked", "last_keys-q17-kv40",
                unseen_key_left_out, "was not written")
GRADIENT_CAUGHT(test_lse_overwritten, "features", "f32", lse_overwritten,
                "the backward call changed lse")

/* A kernel that refuses is neither right nor wrong. */
static void test_refusal_is_no_pass(void **state)
{
    (void)state;
    const fc_case c = find_case("features", "f64");
    fc_context_options options = fc_context_options_init();
    fc_context *any, *forced;
    assert_int_equal(fc_context_create(&options, &any), FC_OK);
    for (int i = 0; i < fc_kernel_count() && !options.kernel; i++) {
        fc_kernel_info info = fc_kernel_info_init();
        assert_int_equal(fc_kernel_query(any, &c.problem, i, &info), FC_OK);
        options.kernel = info.accepts ? NULL : info.name;
    }
    fc_context_destroy(any);
    if (!options.kernel)
        skip(); /* every kernel of this build accepts every problem */
    check_result result;
    assert_int_equal(fc_context_create(&options, &forced), FC_OK);
    check_case(forced, &c, &result);
    fc_context_destroy(forced);
    assert_int_equal(result.outcome, CHECK_REFUSED);
    assert_non_null(strstr(result.reason, options.kernel));
}

/* The unfused computation in double watches over the reference. */
static void test_wrong_truth_is_noticed(void **state)
{
    (void)state;
    const fc_case c = find_case("features", "f32");
    lab_tensors tensors;
    lab_results truth, witness;
    char reason[256] = "";
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &tensors), FC_OK);
    lab_results_make(&tensors, &truth);
    lab_results_make(&tensors, &witness);
    assert_true(compare_witness(&tensors, &truth, &witness, 1, reason));
    truth.values[LAB_DK][5] = 1e-6;
    assert_false(compare_witness(&tensors, &truth, &witness, 1, reason));
    assert_non_null(strstr(reason, "in doubt: dk[b 0, head 0, row 0, dim 5]"));
    lab_results_free(&truth);
    lab_results_free(&witness);
    lab_tensors_destroy(&tensors);
}

CHEAT(one_unit_away)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < out_elements(p); i++)
        ((float *)b->out)[i] = nextafterf(((float *)b->out)[i], INFINITY);
    return status;
}

/* The reference rounds the truth, so that its errors are half a unit at most. */
static void test_errors_are_counted_in_units_of_the_last_place(void **state)
{
    (void)state;
    check_result honest, moved;
    const fc_case c = find_case("features", "f32");
    check_target target = check_target_of(context);
    check_case_on(&target, &c, &honest);
    target.forward = one_unit_away;
    check_case_on(&target, &c, &moved);
    assert_int_equal(honest.ulps[0], out_elements(&c.problem));
    assert_int_equal(moved.ulps[0], 0);
    assert_int_equal(moved.ulps[1] + moved.ulps[2], out_elements(&c.problem));
    assert_true(honest.mean_error > 0 && honest.mean_error <= honest.max_error);
    assert_true(moved.mean_error > honest.mean_error);
    assert_true(honest.relative_error > 0 && honest.relative_error < 0x1p-24);
    assert_true(moved.relative_error > 0x1p-25 && moved.relative_error < 0x1p-22);
}

/* If the unfused computation went wrong, it would excuse everything else. */
static void test_tolerances_stay_small(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double out, lse, gradient;
    } limits[] = {{"f64", 1e-13, 4e-6, 1e-12}, {"f32", 3e-6, 4e-6, 5e-6},
                  {"scale", 1e-3, 8e-6, 2e-2}, {"bf16", 5e-2, 4e-6, 5e-2},
                  {"e4m3", 5e-2, 4e-6, 5e-2},  {"out_f32", 3e-3, 4e-6, 5e-3}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_result result;
        const fc_case c = find_case("features", limits[i].name);
        check_case(context, &c, &result);
        assert_int_equal(result.outcome, CHECK_PASSED);
        if (result.tolerance > limits[i].out || result.lse_tolerance > limits[i].lse ||
            result.gradient_tolerance > limits[i].gradient)
            fail_msg("%s: tolerances %g, %g, %g are too large", c.name, result.tolerance,
                     result.lse_tolerance, result.gradient_tolerance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_output),
        cmocka_unit_test(test_flipped_sign),
        cmocka_unit_test(test_f16_rounded_to_bf16),
        cmocka_unit_test(test_f32_rounded_to_f16),
        cmocka_unit_test(test_last_key_skipped),
        cmocka_unit_test(test_last_key_skipped_f32),
        cmocka_unit_test(test_mask_ignored),
        cmocka_unit_test(test_hidden_keys_read),
        cmocka_unit_test(test_padding_read),
        cmocka_unit_test(test_other_diagonal),
        cmocka_unit_test(test_write_past_the_end),
        cmocka_unit_test(test_write_before),
        cmocka_unit_test(test_write_into_a_gap),
        cmocka_unit_test(test_write_past_workspace),
        cmocka_unit_test(test_element_left_out),
        cmocka_unit_test(test_output_written_late),
        cmocka_unit_test(test_input_changed),
        cmocka_unit_test(test_run_to_run),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_batch_changes_bits),
        cmocka_unit_test(test_wrong_when_alone),
        cmocka_unit_test(test_last_bit_may_depend_on_the_batch),
        cmocka_unit_test(test_answer_kept_by_pointer),
        cmocka_unit_test(test_scores_clipped),
        cmocka_unit_test(test_order_of_keys),
        cmocka_unit_test(test_keys_ignored),
        cmocka_unit_test(test_right_for_one_shape),
        cmocka_unit_test(test_lse_in_base_two),
        cmocka_unit_test(test_lse_of_blind_row),
        cmocka_unit_test(test_nan_swallowed),
        cmocka_unit_test(test_nan_spread),
        cmocka_unit_test(test_failing_call),
        cmocka_unit_test(test_wrong_dq),
        cmocka_unit_test(test_forgotten_dsinks),
        cmocka_unit_test(test_wrong_dbias),
        cmocka_unit_test(test_gradient_of_unseen_key_left_out),
        cmocka_unit_test(test_lse_overwritten),
        cmocka_unit_test(test_refusal_is_no_pass),
        cmocka_unit_test(test_wrong_truth_is_noticed),
        cmocka_unit_test(test_errors_are_counted_in_units_of_the_last_place),
        cmocka_unit_test(test_tolerances_stay_small),
    };
    return cmocka_run_group_tests(tests, make_context, destroy_context);
}
