/* test_cpu_backward.c: what the CPU's backward kernels promise beside the whole case list: bits
 * that no number of threads changes, NaN that stays where it belongs, a bounded workspace, the
 * choice; and a few cases of the list, for tests/mutate.py to see a broken kernel caught. */
#include "cases.h"
#include "check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* after what it needs */

/* The plain one is everywhere, the other is the best of this processor. */
static const char *const kernels[] = {"cpu_plain_prefill,cpu_plain_backward", NULL};

static fc_context *open_context(const char *kernel, int threads)
{
    fc_context_options options = fc_context_options_init();
    fc_context *context;
    options.kernel = kernel;
    options.threads = threads;
    assert_int_equal(fc_context_create(&options, &context), FC_OK);
    return context;
}

/* ---- Cases of the list ---------------------------------------------------------------------- */

static void check_named_case(fc_context *context, const char *name)
{
    fc_case c;
    size_t i = 0;
    for (; i < case_count(); i++) {
        case_get(i, &c);
        if (strcmp(c.name, name) == 0)
            break;
    }
    if (i == case_count())
        fail_msg("there is no case %s", name);
    check_result result;
    check_case(context, &c, &result);
    if (result.outcome != CHECK_PASSED || !result.backward_kernel)
        fail_msg("%s: %s", name, result.reason);
}

/* One of a kind each. */
static const char case_names[] =
    "f32 causal window softcap alibi scale bias mask sinks random-q20-kv9-sinks dropout gqa3 "
    "odd_dims packed_q packed_kv paged paged_shared kv_lengths padded spread out_bf16 out_f32 "
    "e4m3_per_block q1-kv1-f32 causal-q600-kv530 shared_bias-q150-kv530 ragged-packed-unused_rows";

static void test_features_have_their_gradients(void **state)
{
    (void)state;
    char name[64];
    fc_context *context = open_context(kernels[0], 0);
    for (const char *rest = case_names; sscanf(rest, "%63s", name) == 1;) {
        check_named_case(context, name);
        rest += strspn(rest, " ") + strlen(name);
    }
    fc_context_destroy(context);
}

/* ---- Problems of our own: f32, one sequence ------------------------------------------------- */

enum { MOST_FLOATS = 2 * 700 * 8 };

typedef struct gradients {
    float dq[MOST_FLOATS], dk[MOST_FLOATS], dv[MOST_FLOATS], dbias[700], dsinks[2];
} gradients;

typedef struct inputs {
    float q[MOST_FLOATS], k[MOST_FLOATS], v[MOST_FLOATS], dout[MOST_FLOATS], bias[700], sinks[2];
    float out[MOST_FLOATS], lse[2 * 700];
} inputs;

static void fill(float *values, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
}

static inputs *make_inputs(void)
{
    inputs *in = calloc(1, sizeof *in);
    assert_non_null(in);
    fill(in->q, MOST_FLOATS, 1);
    fill(in->k, MOST_FLOATS, 2);
    fill(in->v, MOST_FLOATS, 3);
    fill(in->dout, MOST_FLOATS, 4);
    fill(in->bias, 700, 5);
    fill(in->sinks, 2, 6);
    return in;
}

static fc_attention make_problem(int64_t q_length, int64_t kv_length)
{
    fc_attention problem = fc_attention_init();
    problem.batch = 1;
    problem.q_heads = 2;
    problem.kv_heads = 1;
    problem.q_length = q_length;
    problem.kv_length = kv_length;
    problem.head_dim = 8;
    problem.q_type = FC_F32;
    return problem;
}

static void run_both(const fc_plan *plan, fc_buffers *buffers, const fc_gradients *g)
{
    const size_t forward = fc_plan_workspace_bytes(plan, FC_FORWARD);
    const size_t backward = fc_plan_workspace_bytes(plan, FC_BACKWARD);
    const size_t units = (forward > backward ? forward : backward) / FC_WORKSPACE_ALIGNMENT + 1;
    buffers->workspace_bytes = units * FC_WORKSPACE_ALIGNMENT;
    buffers->workspace = aligned_alloc(FC_WORKSPACE_ALIGNMENT, buffers->workspace_bytes);
    assert_int_equal(fc_plan_forward(plan, buffers, NULL), FC_OK);
    assert_int_equal(fc_plan_backward(plan, buffers, g, NULL), FC_OK);
    free(buffers->workspace);
}

static gradients *differentiate(const char *kernel, int threads, const fc_attention *problem,
                                inputs *in)
{
    gradients *result = calloc(1, sizeof *result);
    assert_non_null(result);
    fc_context *context = open_context(kernel, threads);
    fc_plan *plan;
    assert_int_equal(fc_plan_create(context, problem, &plan), FC_OK);
    fc_buffers buffers = fc_buffers_init();
    buffers.q = in->q;
    buffers.k = in->k;
    buffers.v = in->v;
    buffers.out = in->out;
    buffers.lse = in->lse;
    buffers.bias = problem->has_bias ? in->bias : NULL;
    buffers.sinks = problem->has_sinks ? in->sinks : NULL;
    fc_gradients g = fc_gradients_init();
    g.dout = in->dout;
    g.dq = result->dq;
    g.dk = result->dk;
    g.dv = result->dv;
    g.dbias = problem->has_bias ? result->dbias : NULL;
    g.dsinks = problem->has_sinks ? result->dsinks : NULL;
    run_both(plan, &buffers, &g);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
    return result;
}

/* Several tiles of rows and of keys; the bias is one for all rows and heads. */
static void test_threads_do_not_change_a_bit(void **state)
{
    (void)state;
    fc_attention problem = make_problem(500, 700);
    problem.causal = problem.has_bias = problem.has_sinks = 1;
    inputs *in = make_inputs();
    for (size_t kernel = 0; kernel < 2; kernel++) {
        gradients *one = differentiate(kernels[kernel], 1, &problem, in);
        for (int threads = 2; threads <= 7; threads += 1 + threads / 3) {
            gradients *more = differentiate(kernels[kernel], threads, &problem, in);
            if (memcmp(one, more, sizeof *one) != 0)
                fail_msg("%d threads give other bits than one", threads);
            free(more);
        }
        free(one);
    }
    free(in);
}

static void expect_like(const float *got, const float *want, int64_t count, const char *poisoned,
                        const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(got[i]) != isnan(want[i]) || fabsf(got[i] - want[i]) > 1e-4f)
            fail_msg("NaN in %s: %s[%d] is %g, the reference has %g", poisoned, what, (int)i,
                     (double)got[i], (double)want[i]);
}

/* One NaN in row 33 of q, k, v or dout: it reaches those rows and keys that have to do with it
 * through the window, and no others. */
static void test_nan_reaches_only_its_neighbours(void **state)
{
    (void)state;
    enum { LENGTH = 90, PLACE = 33 * 8 + 2, COUNT = LENGTH * 8 };
    static const char *const names[] = {"q", "k", "v", "dout"};
    fc_attention problem = make_problem(LENGTH, LENGTH);
    problem.has_window = 1;
    problem.window_left = 4;
    for (size_t tensor = 0; tensor < 4; tensor++)
        for (size_t kernel = 0; kernel < 2; kernel++) {
            inputs *in = make_inputs();
            float *const tensors[] = {in->q, in->k, in->v, in->dout};
            tensors[tensor][PLACE] = NAN;
            gradients *got = differentiate(kernels[kernel], 0, &problem, in);
            gradients *want = differentiate("reference,reference_backward", 0, &problem, in);
            expect_like(got->dq, want->dq, (int64_t)2 * COUNT, names[tensor], "dq");
            expect_like(got->dk, want->dk, COUNT, names[tensor], "dk");
            expect_like(got->dv, want->dv, COUNT, names[tensor], "dv");
            free(got);
            free(want);
            free(in);
        }
}

/* ---- Workspace and choice ------------------------------------------------------------------- */

static size_t backward_workspace(const fc_attention *problem)
{
    fc_context *context = open_context(NULL, 1);
    fc_plan *plan;
    assert_int_equal(fc_plan_create(context, problem, &plan), FC_OK);
    const size_t bytes = fc_plan_workspace_bytes(plan, FC_BACKWARD);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
    return bytes;
}

/* Three sums of 64 floats and a state a row, and at most 400 KB of a thread. */
static void test_workspace_is_linear_in_the_length(void **state)
{
    (void)state;
    for (int64_t length = 1024; length <= 1 << 20; length *= 32) {
        fc_attention problem = make_problem(length, length);
        problem.q_heads = 1;
        problem.head_dim = 64;
        assert_true(backward_workspace(&problem) <=
                    (size_t)length * (3 * 64 + 4) * sizeof(float) + (size_t)400 * 1024);
    }
    fc_attention wide = make_problem(64, 64);
    wide.head_dim = 576;
    assert_true(backward_workspace(&wide) <= (size_t)1536 * 1024);
}

static void expect_backward_kernel(const fc_attention *problem, const char *name)
{
    fc_context *context = open_context(NULL, 0);
    fc_plan *plan;
    assert_int_equal(fc_plan_create(context, problem, &plan), FC_OK);
    assert_string_equal(fc_plan_kernel(plan, FC_BACKWARD), name);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
}

static void test_the_fastest_kernel_comes_first(void **state)
{
    (void)state;
    fc_attention problem = make_problem(64, 64);
#if defined(__aarch64__)
    expect_backward_kernel(&problem, "cpu_neon_backward");
#endif
    setenv("FLASHCORE_CPU", "plain", 1);
    expect_backward_kernel(&problem, "cpu_plain_backward");
    unsetenv("FLASHCORE_CPU");
    problem.q_type = FC_F64;
    expect_backward_kernel(&problem, "reference_backward");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_have_their_gradients),
        cmocka_unit_test(test_threads_do_not_change_a_bit),
        cmocka_unit_test(test_nan_reaches_only_its_neighbours),
        cmocka_unit_test(test_workspace_is_linear_in_the_length),
        cmocka_unit_test(test_the_fastest_kernel_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
