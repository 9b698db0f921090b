/* test_validate.c: a problem that makes no sense is refused with a sentence that names the field,
 * its value and what was allowed; one that makes sense is not. */
#include "flashcore.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static fc_context *context;

static int open_context(void **state)
{
    (void)state;
    return (int)fc_context_create(NULL, &context);
}

static int close_context(void **state)
{
    (void)state;
    fc_context_destroy(context);
    return 0;
}

static fc_attention small_problem(void)
{
    fc_attention p = fc_attention_init();
    p.batch = 2;
    p.q_heads = 8;
    p.kv_heads = 2;
    p.q_length = 5;
    p.kv_length = 7;
    p.head_dim = 16;
    p.q_type = FC_F16;
    return p;
}

static fc_status plan_status(const fc_attention *problem)
{
    fc_plan *plan = NULL;
    const fc_status status = fc_plan_create(context, problem, &plan);
    assert_true((status == FC_OK) == (plan != NULL));
    fc_plan_destroy(plan);
    return status;
}

#define REFUSED(sentence, ...)                               \
    do {                                                     \
        fc_attention p = small_problem();                    \
        __VA_ARGS__;                                         \
        assert_int_equal(plan_status(&p), FC_ERROR_INVALID); \
        assert_string_equal(fc_last_error(), sentence);      \
    } while (0)

#define ACCEPTED(...)                                          \
    do {                                                       \
        fc_attention p = small_problem();                      \
        __VA_ARGS__;                                           \
        if (plan_status(&p) != FC_OK)                          \
            fail_msg("%s: %s", #__VA_ARGS__, fc_last_error()); \
    } while (0)

static void test_sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    REFUSED("batch = -1 is out of range; allowed: 0 to 2147483647", p.batch = -1);
    REFUSED("q_heads = 0 is out of range; allowed: 1 to 2147483647", p.q_heads = 0);
    REFUSED("kv_heads = 3 does not divide q_heads = 8", p.kv_heads = 3);
    REFUSED("kv_heads = 16 does not divide q_heads = 8", p.kv_heads = 16);
    REFUSED("q_length = 2147483648 is out of range; allowed: 0 to 2147483647",
            p.q_length = INT64_C(2147483648));
    REFUSED("kv_length = -9223372036854775808 is out of range; allowed: 0 to 2147483647",
            p.kv_length = INT64_MIN);
    REFUSED("head_dim = 577 is out of range; allowed: 1 to 576", p.head_dim = 577);
    REFUSED("head_dim = 0 is out of range; allowed: 1 to 576", p.head_dim = 0);
    REFUSED("value_dim = 1000 is out of range; allowed: 0 to 576", p.value_dim = 1000);
}

static void test_types_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    REFUSED("q_type = 0 is no type; allowed: f32, f16, bf16, e4m3, e5m2 or f64", p.q_type = 0);
    REFUSED("q_type = 7 is no type; allowed: f32, f16, bf16, e4m3, e5m2 or f64", p.q_type = 7);
    REFUSED("kv_type = -1 is no type; allowed: auto, f32, f16, bf16, e4m3, e5m2 or f64",
            p.kv_type = -1);
    REFUSED("out_type = 4 is not allowed; allowed: auto, f32, f16, bf16 or f64",
            p.out_type = FC_F8_E4M3);
    REFUSED("bias_type = 99 is not allowed; allowed: auto, f32, f16, bf16 or f64", p.has_bias = 1;
            p.bias_type = 99);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    REFUSED("scale = nan is not finite", p.scale = fabsf(NAN));
    REFUSED("scale = -inf is not finite", p.scale = -INFINITY);
    REFUSED("softcap = -1 is not allowed; allowed: 0 (off) or a positive number", p.softcap = -1);
    REFUSED("dropout_p = 1 is out of range; allowed: 0 <= p < 1", p.dropout_p = 1);
    REFUSED("dropout_p = nan is out of range; allowed: 0 <= p < 1", p.dropout_p = fabsf(NAN));
    REFUSED("window_left = -2 is out of range; allowed: -1 to 2147483647", p.has_window = 1;
            p.window_left = -2);
    REFUSED("causal = 2 is not 0 or 1", p.causal = 2);
    REFUSED("diagonal = -5 is not 0 or 1", p.diagonal = -5);
    REFUSED("dependent_launch = 2 is not 0 or 1", p.dependent_launch = 2);
}

static void test_contradictions_are_refused(void **state)
{
    (void)state;
    REFUSED("window_right = 3 contradicts causal; allowed: 0 or -1", p.causal = 1; p.has_window = 1;
            p.window_right = 3);
    REFUSED("window_left = 4 is set, but has_window is 0", p.window_left = 4);
    REFUSED("packed_q_rows = 9 is set, but packed_q is 0", p.packed_q_rows = 9);
    REFUSED("page_size = 16 is set, but paged is 0", p.page_size = 16);
    REFUSED("bias_strides.row = 7 is set, but has_bias is 0", p.bias_strides.row = 7);
    REFUSED("bias_type = bf16 is set, but has_bias is 0", p.bias_type = FC_BF16);
    REFUSED("paged and packed_kv are both set; keys are one or the other", p.paged = 1;
            p.packed_kv = 1; p.page_size = 4);
    REFUSED("has_kv_lengths and packed_kv are both set; cu_kv already gives the lengths",
            p.has_kv_lengths = 1;
            p.packed_kv = 1);
    REFUSED("page_size = 0 of paged keys must be at least 1", p.paged = 1);
    REFUSED("page_table_stride = 1 is less than the 2 pages that kv_length = 7 needs with "
            "page_size = 4",
            p.paged = 1;
            p.page_size = 4; p.page_count = 9; p.page_table_stride = 1);
    REFUSED("q_scaling is set, but f16 elements have no scale; only FP8 ones do",
            p.q_scaling.head = 1);
    REFUSED("k_scaling.block = 1 and block_rows = 0: both or neither must be 0",
            p.kv_type = FC_F8_E4M3;
            p.k_scaling.block = 1);
    REFUSED("v_scaling = {-1, 0, 0, 0} is out of range; each: 0 to 2147483647",
            p.kv_type = FC_F8_E5M2;
            p.v_scaling.batch = -1);
}

static void test_outputs_that_overlap_are_refused(void **state)
{
    (void)state;
    REFUSED("out's elements overlap: sizes 2 x 8 x 5 x 16 with strides 640, 80, 15, 1 reuse an "
            "address",
            p.out_strides = ((fc_strides){640, 80, 15, 1}));
    REFUSED("out's elements overlap: sizes 2 x 8 x 5 x 16 with strides 0, 80, 16, 1 reuse an "
            "address",
            p.out_strides = ((fc_strides){0, 80, 16, 1}));
    REFUSED("out_strides.row = -16 is negative; an output's strides must be positive",
            p.out_strides = ((fc_strides){640, 80, -16, 1}));
    REFUSED("lse's elements overlap: sizes 2 x 8 x 5 x 1 with strides 40, 4, 1, 1 reuse an "
            "address",
            p.lse_strides = ((fc_strides){40, 4, 1, 0}));
    REFUSED("dk's elements overlap: sizes 2 x 2 x 7 x 16 with strides 224, 0, 16, 1 reuse an "
            "address",
            p.dk_strides = ((fc_strides){224, 0, 16, 1}));
}

static void test_tensors_too_large_for_memory_are_refused(void **state)
{
    (void)state;
    REFUSED("q is too large: sizes 2147483647 x 8 x 2147483647 x 16 with strides 274877906816, "
            "34359738352, 16, 1 reach over more than 2^56 bytes",
            p.batch = INT32_MAX;
            p.q_length = INT32_MAX);
    REFUSED("k is too large: sizes 2 x 2 x 7 x 16 with strides 1, -9223372036854775808, 16, 1 "
            "reach over more than 2^56 bytes",
            p.k_strides = ((fc_strides){1, INT64_MIN, 16, 1}));
    REFUSED("mask is too large: sizes 2 x 8 x 5 x 7 with strides 0, 0, 4611686018427387904, 1 "
            "reach over more than 2^56 bytes",
            p.has_mask = 1;
            p.mask_strides.row = INT64_C(1) << 62);
}

static void test_sensible_problems_are_accepted(void **state)
{
    (void)state;
    ACCEPTED((void)p);
    ACCEPTED(p.batch = 0);
    ACCEPTED(p.q_length = 0);
    ACCEPTED(p.kv_length = 0);
    ACCEPTED(p.head_dim = 576; p.value_dim = 512);
    ACCEPTED(p.q_strides = ((fc_strides){0, 0, -16, 1}));
    ACCEPTED(p.out_strides = ((fc_strides){640, 16, 128, 1}));
    ACCEPTED(p.out_strides = ((fc_strides){640, 80, 1, 5}));
    ACCEPTED(p.causal = 1; p.has_window = 1; p.window_left = 3; p.window_right = 0);
    ACCEPTED(p.causal = 1; p.has_window = 1; p.window_left = 3; p.window_right = -1);
    ACCEPTED(p.scale = -2);
    ACCEPTED(p.packed_q = 1; p.packed_q_rows = 8; p.packed_kv = 1; p.packed_kv_rows = 0);
    ACCEPTED(p.paged = 1; p.page_size = 4; p.page_count = 3; p.has_kv_lengths = 1);
    ACCEPTED(p.q_type = FC_F8_E4M3; p.k_scaling = ((fc_scaling){2, 1, 4, 64}));
    ACCEPTED(p.kv_type = FC_F8_E5M2; p.out_type = FC_F32);
}

static void test_a_size_of_one_needs_no_stride(void **state)
{
    (void)state;
    ACCEPTED(p.batch = 1; p.out_strides = ((fc_strides){0, 80, 16, 1}));
    ACCEPTED(p.q_length = 1; p.out_strides = ((fc_strides){128, 16, -3, 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_out_of_range_are_refused),
        cmocka_unit_test(test_types_that_do_not_fit_are_refused),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
        cmocka_unit_test(test_contradictions_are_refused),
        cmocka_unit_test(test_outputs_that_overlap_are_refused),
        cmocka_unit_test(test_tensors_too_large_for_memory_are_refused),
        cmocka_unit_test(test_sensible_problems_are_accepted),
        cmocka_unit_test(test_a_size_of_one_needs_no_stride),
    };
    return cmocka_run_group_tests_name("validate", tests, open_context, close_context);
}
