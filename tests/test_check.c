/* test_check.c: what the harness says of honest kernels, and of itself. Cheats: test_check_*.c. */
#include "cheat.h"
#include "compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A kernel that refuses is neither right nor wrong. */
static void test_refusal_is_no_pass(void **state)
{
    (void)state;
    const fc_case c = cheat_find_case("features", "f64");
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
    const fc_case c = cheat_find_case("features", "f32");
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
    for (int64_t i = 0; i < cheat_out_elements(p); i++)
        ((float *)b->out)[i] = nextafterf(((float *)b->out)[i], INFINITY);
    return status;
}

/* The reference rounds the truth, so that its errors are half a unit at most. */
static void test_errors_are_counted_in_units_of_the_last_place(void **state)
{
    (void)state;
    check_result honest, moved;
    const fc_case c = cheat_find_case("features", "f32");
    check_target target = check_target_of(cheat_context);
    check_case_on(&target, &c, &honest);
    target.forward = one_unit_away;
    check_case_on(&target, &c, &moved);
    assert_int_equal(honest.ulps[0], cheat_out_elements(&c.problem));
    assert_int_equal(moved.ulps[0], 0);
    assert_int_equal(moved.ulps[1] + moved.ulps[2], cheat_out_elements(&c.problem));
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
    } limits[] = {{"f64", 1e-13, 4e-6, 1e-12},  {"f32", 3e-6, 4e-6, 5e-6},
                  {"scale", 3e-3, 9e-6, 2e-2},  {"causal", 1e-3, 4e-6, 2e-2},
                  {"bf16", 5e-2, 4e-6, 5e-2},   {"e4m3", 5e-2, 4e-6, 5e-2},
                  {"out_f32", 3e-3, 4e-6, 5e-3}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_result result;
        const fc_case c = cheat_find_case("features", limits[i].name);
        check_case(cheat_context, &c, &result);
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
        cmocka_unit_test(test_refusal_is_no_pass),
        cmocka_unit_test(test_wrong_truth_is_noticed),
        cmocka_unit_test(test_errors_are_counted_in_units_of_the_last_place),
        cmocka_unit_test(test_tolerances_stay_small),
    };
    return cmocka_run_group_tests(tests, cheat_make_context, cheat_destroy_context);
}
