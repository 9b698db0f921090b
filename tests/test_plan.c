/* test_plan.c: contexts, plans, buffers and the one-line form keep their promises. */
#include "core/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { HEADS = 2, ROWS = 3, KEYS = 4, DIM = 8 };

typedef struct setup {
    fc_context *context;
    fc_attention problem;
    fc_buffers buffers;
    float q[HEADS * ROWS * DIM], k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM];
    float out[HEADS * ROWS * DIM], lse[HEADS * ROWS];
} setup;

static int open_setup(void **state)
{
    setup *s = calloc(1, sizeof *s);
    s->problem = fc_attention_init();
    s->problem.batch = 1;
    s->problem.q_heads = s->problem.kv_heads = HEADS;
    s->problem.q_length = ROWS;
    s->problem.kv_length = KEYS;
    s->problem.head_dim = DIM;
    s->problem.q_type = FC_F32;
    s->buffers = fc_buffers_init();
    s->buffers.q = s->q;
    s->buffers.k = s->k;
    s->buffers.v = s->v;
    s->buffers.out = s->out;
    for (int i = 0; i < HEADS * KEYS * DIM; i++)
        s->v[i] = (float)(i % 7);
    *state = s;
    return (int)fc_context_create(NULL, &s->context);
}

static int close_setup(void **state)
{
    setup *s = *state;
    fc_context_destroy(s->context);
    free(s);
    return 0;
}

static void assert_refused(fc_status status, fc_status expected, const char *sentence)
{
    assert_int_equal(status, expected);
    assert_non_null(strstr(fc_last_error(), sentence));
}

static void test_every_status_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(fc_status_name(FC_ERROR_WORKSPACE), "FC_ERROR_WORKSPACE");
    assert_string_equal(fc_status_text(FC_OK), "success");
    assert_string_equal(fc_status_name((fc_status)99), "unknown status");
    assert_string_equal(fc_status_text((fc_status)-1), "unknown status");
}

static void test_an_unknown_struct_size_is_refused(void **state)
{
    setup *s = *state;
    s->problem.struct_size = 12345;
    assert_refused(fc_attend(s->context, &s->problem, &s->buffers, NULL), FC_ERROR_INVALID,
                   "fc_attention.struct_size = 12345 is not known");
    s->problem.struct_size = sizeof s->problem;
    s->buffers.struct_size = 0;
    assert_refused(fc_attend(s->context, &s->problem, &s->buffers, NULL), FC_ERROR_INVALID,
                   "fc_buffers.struct_size = 0 is not known");
    fc_context_options options = fc_context_options_init();
    options.struct_size--;
    fc_context *context;
    assert_refused(fc_context_create(&options, &context), FC_ERROR_INVALID,
                   "fc_context_options.struct_size = 47 is not known");
}

/* What a library of a later version does with the struct of a caller of today. */
static void test_an_older_caller_keeps_working(void **state)
{
    (void)state;
    typedef struct later {
        size_t struct_size;
        int64_t old_field, new_field;
    } later;
    const size_t known[] = {16, sizeof(later), 0};
    const later old_caller = {16, 7, -1 /* lies past the caller's struct: must not be read */};
    later ours = {0, 0, 99};
    assert_int_equal(fc_read_struct("later", &old_caller, known, &ours, sizeof ours), FC_OK);
    assert_int_equal(ours.struct_size, sizeof ours);
    assert_int_equal(ours.old_field, 7);
    assert_int_equal(ours.new_field, 0);
}

static void test_context_options_are_checked(void **state)
{
    (void)state;
    fc_context *context;
    fc_context_options options = fc_context_options_init();
    options.device_type = 5;
    assert_refused(fc_context_create(&options, &context), FC_ERROR_INVALID,
                   "device_type = 5 is no device type");
    options.device_type = FC_CPU;
    options.device_index = 1;
    assert_refused(fc_context_create(&options, &context), FC_ERROR_NO_DEVICE,
                   "CPU device 1 is not here; there are 1");
    options.device_index = 0;
    options.threads = -1;
    assert_refused(fc_context_create(&options, &context), FC_ERROR_INVALID,
                   "threads = -1 is negative");
    options.threads = 0;
    options.kernel = "reference,fast_one";
    assert_refused(fc_context_create(&options, &context), FC_ERROR_INVALID,
                   "there is no kernel 'fast_one'; there are: ");
    assert_null(context);
    assert_refused(fc_context_create(NULL, NULL), FC_ERROR_INVALID, "context is NULL");
    fc_context_destroy(NULL);
}

static void test_the_environment_forces_a_kernel(void **state)
{
    setup *s = *state;
    fc_context *context;
    setenv("FLASHCORE_KERNEL", "no_such_kernel", 1);
    const fc_status refused = fc_context_create(NULL, &context);
    setenv("FLASHCORE_KERNEL", "reference", 1);
    const fc_status accepted = fc_context_create(NULL, &context);
    unsetenv("FLASHCORE_KERNEL");
    assert_int_equal(refused, FC_ERROR_INVALID);
    assert_int_equal(accepted, FC_OK);
    for (int i = 0; i < fc_kernel_count(); i++) {
        fc_kernel_info info = fc_kernel_info_init();
        assert_int_equal(fc_kernel_query(context, &s->problem, i, &info), FC_OK);
        if (info.direction != FC_FORWARD)
            continue;
        const int is_reference = strcmp(info.name, "reference") == 0;
        assert_int_equal(info.chosen, is_reference);
        assert_string_equal(info.reason, is_reference ? "" : "another kernel is forced");
    }
    fc_context_destroy(context);
}

static void test_exactly_one_kernel_a_direction_is_chosen(void **state)
{
    setup *s = *state;
    int chosen[2] = {0, 0};
    fc_plan *plan;
    assert_int_equal(fc_plan_create(s->context, &s->problem, &plan), FC_OK);
    for (int i = 0; i < fc_kernel_count(); i++) {
        fc_kernel_info info = fc_kernel_info_init();
        assert_int_equal(fc_kernel_query(s->context, &s->problem, i, &info), FC_OK);
        assert_int_equal(info.accepts, info.reason[0] == 0);
        chosen[info.direction] += info.chosen;
        if (info.chosen)
            assert_string_equal(info.name, fc_plan_kernel(plan, info.direction));
    }
    fc_plan_destroy(plan);
    assert_int_equal(chosen[FC_FORWARD], 1);
    assert_int_equal(chosen[FC_BACKWARD], 1);
    fc_kernel_info info = fc_kernel_info_init();
    assert_refused(fc_kernel_query(s->context, &s->problem, fc_kernel_count(), &info),
                   FC_ERROR_INVALID, "is out of range");
}

static void test_pointers_are_checked(void **state)
{
    setup *s = *state;
    fc_buffers b = s->buffers;
    b.k = NULL;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID, "k is NULL");
    b = s->buffers;
    b.v = (const char *)s->v + 2;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID,
                   "is not aligned to its element of 4 bytes");
    b = s->buffers;
    b.out = s->q;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID,
                   "is also an input");
    b = s->buffers;
    b.mask = (const uint8_t *)s->q;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID,
                   "mask is given, but the problem's has_mask is 0");
    b = s->buffers;
    s->problem.has_sinks = 1;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID, "sinks is NULL");
    s->problem.has_sinks = 0;
    b.q_scale = s->q;
    assert_refused(fc_attend(s->context, &s->problem, &b, NULL), FC_ERROR_INVALID,
                   "q_scale is given, but f32 elements have no scale");
    assert_refused(fc_attend(s->context, &s->problem, NULL, NULL), FC_ERROR_INVALID,
                   "fc_buffers is NULL");
    assert_refused(fc_attend(NULL, &s->problem, &b, NULL), FC_ERROR_INVALID, "context is NULL");
}

static void test_index_arrays_are_checked(void **state)
{
    setup *s = *state;
    fc_attention packed = s->problem;
    packed.packed_q = 1;
    packed.packed_q_rows = ROWS;
    int32_t cu[2] = {0, ROWS + 1};
    s->buffers.cu_q = cu;
    assert_refused(fc_attend(s->context, &packed, &s->buffers, NULL), FC_ERROR_INVALID,
                   "cu_q[1] - cu_q[0] = 4 is out of range; allowed: 0 to q_length = 3");
    packed.q_length = 9;
    assert_refused(fc_attend(s->context, &packed, &s->buffers, NULL), FC_ERROR_INVALID,
                   "cu_q[1] = 4 is past the tensor's 3 rows");
    cu[0] = 1;
    assert_refused(fc_attend(s->context, &packed, &s->buffers, NULL), FC_ERROR_INVALID,
                   "cu_q[0] = 1 must be 0");
    s->buffers.cu_q = NULL;

    fc_attention paged = s->problem;
    paged.paged = paged.has_kv_lengths = 1;
    paged.page_size = 2;
    paged.page_count = 2;
    int32_t length = KEYS + 1, pages[2] = {1, 2};
    s->buffers.kv_lengths = &length;
    s->buffers.page_table = pages;
    assert_refused(fc_attend(s->context, &paged, &s->buffers, NULL), FC_ERROR_INVALID,
                   "kv_lengths[0] = 5 is out of range; allowed: 0 to kv_length = 4");
    length = KEYS;
    assert_refused(fc_attend(s->context, &paged, &s->buffers, NULL), FC_ERROR_INVALID,
                   "page_table[0][1] = 2 is out of range; page_count = 2");
    length = 2; /* the bad entry is then not used */
    assert_int_equal(fc_attend(s->context, &paged, &s->buffers, NULL), FC_OK);
}

static void test_the_workspace_is_checked(void **state)
{
    setup *s = *state;
    fc_plan *plan;
    assert_int_equal(fc_plan_create(s->context, &s->problem, &plan), FC_OK);
    const size_t bytes = fc_plan_workspace_bytes(plan, FC_BACKWARD);
    assert_true(bytes > 0);
    fc_gradients g = fc_gradients_init();
    float dout[HEADS * ROWS * DIM] = {0}, dq[HEADS * ROWS * DIM], dk[HEADS * KEYS * DIM],
                              dv[HEADS * KEYS * DIM];
    g.dout = dout;
    g.dq = dq;
    g.dk = dk;
    g.dv = dv;
    s->buffers.lse = s->lse;
    assert_refused(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_ERROR_WORKSPACE,
                   "the workspace holds 0 bytes, the kernel needs ");
    char *memory = aligned_alloc(FC_WORKSPACE_ALIGNMENT, (bytes + 511) / 256 * 256);
    s->buffers.workspace = memory + 8;
    s->buffers.workspace_bytes = bytes;
    assert_refused(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_ERROR_WORKSPACE,
                   "is not aligned to 256 bytes");
    s->buffers.workspace = memory;
    s->buffers.workspace_bytes = bytes - 1;
    assert_refused(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_ERROR_WORKSPACE,
                   "the workspace holds ");
    s->buffers.workspace_bytes = bytes;
    assert_int_equal(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_OK);
    free(memory);
    fc_plan_destroy(plan);
}

static void test_gradients_that_share_memory_are_refused(void **state)
{
    setup *s = *state;
    float bias[ROWS + KEYS] = {0}, dbias[ROWS + KEYS], many[HEADS * KEYS * DIM] = {0};
    s->problem.has_bias = 1;
    s->problem.bias_strides = (fc_broadcast){0, 0, 1, 1}; /* bias[i + j]: fine as an input */
    s->buffers.bias = bias;
    s->buffers.lse = s->lse;
    assert_int_equal(fc_attend(s->context, &s->problem, &s->buffers, NULL), FC_OK);
    fc_gradients g = fc_gradients_init();
    float dq[HEADS * ROWS * DIM], dk[HEADS * KEYS * DIM], dv[HEADS * KEYS * DIM];
    g.dout = many;
    g.dq = dq;
    g.dk = dk;
    g.dv = dv;
    g.dbias = dbias;
    fc_plan *plan;
    assert_int_equal(fc_plan_create(s->context, &s->problem, &plan), FC_OK);
    assert_refused(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_ERROR_INVALID,
                   "bias's elements overlap");
    g.dbias = NULL;
    g.dsinks = dbias;
    assert_refused(fc_plan_backward(plan, &s->buffers, &g, NULL), FC_ERROR_INVALID,
                   "dsinks is given, but the problem's has_sinks is 0");
    fc_plan_destroy(plan);
}

static void test_more_problems_than_the_cache_holds_all_run(void **state)
{
    setup *s = *state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 200; i++) {
            s->problem.scale = 1 + (float)i;
            s->out[0] = NAN;
            assert_int_equal(fc_attend(s->context, &s->problem, &s->buffers, NULL), FC_OK);
            assert_true(isfinite(s->out[0]));
        }
}

static void count_plans(void *user, fc_log_level level, const char *message)
{
    assert_int_equal(level, FC_LOG_INFO);
    assert_string_equal(message, "plan: forward by reference, backward by reference_backward");
    ++*(int *)user;
}

static void test_the_second_call_reuses_the_plan(void **state)
{
    setup *s = *state;
    int plans = 0;
    fc_context_options options = fc_context_options_init();
    options.kernel = "reference,reference_backward";
    options.log = count_plans;
    options.log_user = &plans;
    fc_context *context;
    assert_int_equal(fc_context_create(&options, &context), FC_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fc_attend(context, &s->problem, &s->buffers, NULL), FC_OK);
    assert_int_equal(plans, 1);
    s->problem.causal = 1;
    assert_int_equal(fc_attend(context, &s->problem, &s->buffers, NULL), FC_OK);
    assert_int_equal(plans, 2);
    fc_context_destroy(context);
}

typedef struct caller {
    setup *shared;
    float out[HEADS * ROWS * DIM];
    int failures;
} caller;

static void *call_many_times(void *argument)
{
    caller *c = argument;
    fc_buffers buffers = c->shared->buffers;
    buffers.out = c->out;
    for (int i = 0; i < 300; i++) {
        fc_attention problem = c->shared->problem;
        problem.scale = (float)(1 + i % 90); /* more than the cache holds: plans come and go */
        c->failures += fc_attend(c->shared->context, &problem, &buffers, NULL) != FC_OK;
        problem.q_heads = 0;
        c->failures += fc_attend(c->shared->context, &problem, &buffers, NULL) == FC_OK;
        c->failures += strncmp(fc_last_error(), "q_heads = 0", 11) != 0;
    }
    return NULL;
}

static void test_one_context_serves_many_threads(void **state)
{
    setup *s = *state;
    pthread_t threads[4];
    static caller callers[4];
    for (int i = 0; i < 4; i++) {
        callers[i] = (caller){.shared = s};
        assert_int_equal(pthread_create(&threads[i], NULL, call_many_times, &callers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(callers[i].failures, 0);
        assert_memory_equal(callers[i].out, callers[0].out, sizeof callers[0].out);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_setup, close_setup)
    const struct CMUnitTest tests[] = {
        TEST(test_every_status_has_a_name_and_a_text),
        TEST(test_an_unknown_struct_size_is_refused),
        TEST(test_an_older_caller_keeps_working),
        TEST(test_context_options_are_checked),
        TEST(test_the_environment_forces_a_kernel),
        TEST(test_exactly_one_kernel_a_direction_is_chosen),
        TEST(test_pointers_are_checked),
        TEST(test_index_arrays_are_checked),
        TEST(test_the_workspace_is_checked),
        TEST(test_gradients_that_share_memory_are_refused),
        TEST(test_more_problems_than_the_cache_holds_all_run),
        TEST(test_the_second_call_reuses_the_plan),
        TEST(test_one_context_serves_many_threads),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
