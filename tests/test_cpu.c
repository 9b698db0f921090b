/* test_cpu.c: what the CPU kernels promise beside their results, which `flashcore check` looks at:
 * the vector layer of every instruction set, the choice among them, and the bounds of scratch. */
#include "cpu_probe.h"

#include "core/internal.h"
#include "cpu/cpu.h"
#include "cpu/features.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h> /* after what it needs */

typedef struct probed_set {
    const cpu_probe *probe;
    fc_cpu_level level;
} probed_set;

static const probed_set sets[] = {
    {&fc_cpu_plain_probe, FC_CPU_PLAIN},
#if defined(__aarch64__)
    {&fc_cpu_neon_probe, FC_CPU_NEON},
    {&fc_cpu_neonfhm_probe, FC_CPU_NEONFHM},
    {&fc_cpu_neonbf16_probe, FC_CPU_NEONBF16},
#elif defined(__x86_64__)
    {&fc_cpu_avx2_probe, FC_CPU_AVX2},
    {&fc_cpu_avx512_probe, FC_CPU_AVX512},
    {&fc_cpu_avx512bf16_probe, FC_CPU_AVX512BF16},
    {&fc_cpu_amx_probe, FC_CPU_AMX},
#endif
};

typedef void (*probe_check)(const cpu_probe *probe);

static void on_every_set(probe_check check)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (fc_cpu_has(sets[i].level))
            check(sets[i].probe);
        else
            print_message("%s: this processor does not have it\n", sets[i].probe->isa);
    }
}

static void check_exp2(const cpu_probe *probe)
{
    const double error = probe->exp2_error();
    print_message("%s: exp2 is within %.2f ulp\n", probe->isa, error);
    assert_true(error <= probe->exp2_bound);
    assert_true(probe->exp2_of(0) == 1);
    assert_true(probe->exp2_of(-127) == 0);
    assert_true(probe->exp2_of(-1e30f) == 0);
    assert_true(probe->exp2_of(-INFINITY) == 0);
    assert_true(isnan(probe->exp2_of(NAN)));
}

static void test_exp2_keeps_its_error_bound(void **state)
{
    (void)state;
    on_every_set(check_exp2);
}

/* A score has the rounding error of FP32 anyway: 2^-24 of it, or 6e-8. */
static void check_tanh(const cpu_probe *probe)
{
    const double error = probe->tanh_error();
    print_message("%s: tanh is within %.1e of its value\n", probe->isa, error);
    assert_true(error <= 3e-7);
}

static void test_tanh_is_as_good_as_a_float(void **state)
{
    (void)state;
    on_every_set(check_tanh);
}

static void check_elements(const cpu_probe *probe)
{
    static const fc_type types[] = {FC_F16, FC_BF16, FC_F8_E4M3, FC_F8_E5M2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(probe->wrong_loads(types[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(probe->wrong_stores(types[i]), 0);
}

static void test_elements_convert_as_in_the_core(void **state)
{
    (void)state;
    on_every_set(check_elements);
}

static void check_moves(const cpu_probe *probe)
{
    assert_int_equal(probe->wrong_moves(), 0);
}

static void test_lanes_stay_in_their_places(void **state)
{
    (void)state;
    on_every_set(check_moves);
}

/* All products and sums are multiples of 2^-10 below 2^9, which FP32 holds exactly. */
static void check_matmul(const cpu_probe *probe)
{
    assert_true(probe->matmul_error() == 0);
}

static void test_the_matrix_step_is_exact(void **state)
{
    (void)state;
    on_every_set(check_matmul);
}

/* ---- The choice ---- */

static fc_attention small_problem(void)
{
    fc_attention problem = fc_attention_init();
    problem.batch = 1;
    problem.q_heads = problem.kv_heads = 2;
    problem.q_length = problem.kv_length = 64;
    problem.head_dim = 64;
    problem.q_type = FC_F32;
    return problem;
}

static void expect_kernel(const fc_attention *problem, const char *kernel)
{
    fc_context *context;
    fc_plan *plan;
    assert_int_equal(fc_context_create(NULL, &context), FC_OK);
    assert_int_equal(fc_plan_create(context, problem, &plan), FC_OK);
    assert_string_equal(fc_plan_kernel(plan, FC_FORWARD), kernel);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
}

static void test_the_environment_limits_the_choice(void **state)
{
    (void)state;
    const fc_attention problem = small_problem();
    setenv("FLASHCORE_CPU", "plain", 1);
    expect_kernel(&problem, "cpu_plain_prefill");
    unsetenv("FLASHCORE_CPU");
#if defined(__aarch64__)
    expect_kernel(&problem, "cpu_neon_prefill");
#endif
}

static void test_an_unknown_limit_is_refused(void **state)
{
    (void)state;
    fc_context *context = NULL;
    setenv("FLASHCORE_CPU", "avx1024", 1);
    assert_int_equal(fc_context_create(NULL, &context), FC_ERROR_INVALID);
    assert_non_null(strstr(fc_last_error(), "FLASHCORE_CPU=avx1024"));
    assert_non_null(strstr(fc_last_error(), "plain"));
    unsetenv("FLASHCORE_CPU");
}

static void test_few_rows_go_to_decode(void **state)
{
    (void)state;
    fc_attention problem = small_problem();
    setenv("FLASHCORE_CPU", "plain", 1);
    problem.q_length = 1;
    expect_kernel(&problem, "cpu_plain_decode");
    problem.q_length = 16;
    expect_kernel(&problem, "cpu_plain_decode");
    problem.q_length = 17;
    expect_kernel(&problem, "cpu_plain_prefill");
    problem.q_length = 16;
    problem.q_heads = 10; /* 80 rows of a KV head */
    expect_kernel(&problem, "cpu_plain_prefill");
    problem = small_problem();
    problem.q_length = 1;
    problem.packed_q = problem.batch_invariant = 1;
    problem.packed_q_rows = 1;
    expect_kernel(&problem, "cpu_plain_prefill");
    unsetenv("FLASHCORE_CPU");
}

static void test_f16_products_are_for_f16_alone(void **state)
{
    (void)state;
#if defined(__aarch64__)
    fc_attention problem = small_problem();
    problem.q_length = 1;
    expect_kernel(&problem, "cpu_neon_decode");
    problem.q_type = FC_F16;
    expect_kernel(&problem, fc_cpu_has(FC_CPU_NEONFHM) ? "cpu_neonfhm_decode" : "cpu_neon_decode");
    setenv("FLASHCORE_CPU", "neon", 1);
    expect_kernel(&problem, "cpu_neon_decode");
    unsetenv("FLASHCORE_CPU");
#endif
}

static void test_f64_is_left_to_the_reference(void **state)
{
    (void)state;
    fc_attention problem = small_problem();
    problem.q_type = FC_F64;
    expect_kernel(&problem, "reference");
}

/* ---- Scratch ---- */

static size_t workspace_of(const fc_attention *problem, int threads)
{
    fc_context_options options = fc_context_options_init();
    fc_context *context;
    fc_plan *plan;
    options.threads = threads;
    assert_int_equal(fc_context_create(&options, &context), FC_OK);
    assert_int_equal(fc_plan_create(context, problem, &plan), FC_OK);
    const size_t bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
    return bytes;
}

/* A thread's scratch for long sequences is that for short ones: no S x S. */
static void test_scratch_does_not_grow_with_the_length(void **state)
{
    (void)state;
    fc_attention problem = small_problem();
    problem.head_dim = 128;
    problem.q_length = problem.kv_length = 4096;
    const size_t bytes = workspace_of(&problem, 1);
    assert_true(bytes <= (size_t)512 * 1024);
    problem.q_length = problem.kv_length = 1 << 20;
    assert_true(workspace_of(&problem, 1) == bytes);
    problem.head_dim = FC_MAX_DIM;
    assert_true(workspace_of(&problem, 1) <= (size_t)640 * 1024);
}

/* Decode keeps at most 64 partial results a row, however many keys there are. */
static void test_partial_results_are_bounded(void **state)
{
    (void)state;
    fc_attention problem = small_problem();
    problem.q_length = 1;
    problem.kv_length = 1 << 14;
    const size_t bytes = workspace_of(&problem, 1);
    problem.kv_length = 1 << 20;
    assert_true(workspace_of(&problem, 1) == bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp2_keeps_its_error_bound),
        cmocka_unit_test(test_tanh_is_as_good_as_a_float),
        cmocka_unit_test(test_elements_convert_as_in_the_core),
        cmocka_unit_test(test_lanes_stay_in_their_places),
        cmocka_unit_test(test_the_matrix_step_is_exact),
        cmocka_unit_test(test_the_environment_limits_the_choice),
        cmocka_unit_test(test_an_unknown_limit_is_refused),
        cmocka_unit_test(test_few_rows_go_to_decode),
        cmocka_unit_test(test_f16_products_are_for_f16_alone),
        cmocka_unit_test(test_f64_is_left_to_the_reference),
        cmocka_unit_test(test_scratch_does_not_grow_with_the_length),
        cmocka_unit_test(test_partial_results_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
