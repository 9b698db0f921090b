/* test_check_numbers.c: the harness believes no result: kernels that compute something else. */
#include "cheat.h"
#include "core/convert.h"
#include "results.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

CHEAT(constant)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    cheat_fill_out(p, b);
    return status;
}

CHEAT(sign_flipped)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < cheat_out_elements(p); i++)
        fc_store(cheat_out_type(p), b->out, i, -fc_load(cheat_out_type(p), b->out, i));
    return status;
}

CHEAT(rounded_to_less)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    const fc_type less = cheat_out_type(p) == FC_F32 ? FC_F16 : FC_BF16;
    for (int64_t i = 0; i < cheat_out_elements(p); i++)
        fc_store(cheat_out_type(p), b->out, i,
                 lab_round(less, fc_load(cheat_out_type(p), b->out, i)));
    return status;
}

/* By less than the largest error that is allowed. */
CHEAT(next_to_nearest)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    for (int64_t i = 0; i < cheat_out_elements(p); i++) {
        const double out = fc_load(cheat_out_type(p), b->out, i);
        if (fabs(out) >= 0.25 && fabs(out) < 0.5)
            fc_store(cheat_out_type(p), b->out, i, out * (1 - 0x1p-11));
    }
    return status;
}

CHEAT(last_key_skipped)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    other.kv_length--;
    return cheat_run_other(on, &other, b);
}

CHEAT(mask_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    other.has_mask = 0;
    other.mask_strides = (fc_broadcast){0};
    buffers.mask = NULL;
    return cheat_run_other(on, &other, &buffers);
}

CHEAT(lengths_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    other.has_kv_lengths = 0;
    buffers.kv_lengths = NULL;
    return cheat_run_other(on, &other, &buffers);
}

CHEAT(other_diagonal)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    other.diagonal = FC_TOP_LEFT;
    return cheat_run_other(on, &other, b);
}

CHEAT(keys_ignored)
{
    (void)user, (void)plan;
    fc_attention other = *p;
    fc_buffers buffers = *b;
    buffers.k = b->q; /* the benchmark's q and k are alike in size */
    return cheat_run_other(on, &other, &buffers);
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
    for (int64_t i = 0; i < cheat_out_elements(p); i++)
        if (isnan(fc_load(cheat_out_type(p), b->out, i)))
            fc_store(cheat_out_type(p), b->out, i, 0);
    return status;
}

CHEAT(nan_spread)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    fc_store(cheat_out_type(p), b->out, cheat_out_elements(p) - 1, NAN);
    return status;
}

CHEAT(gives_up)
{
    (void)user, (void)on, (void)p, (void)plan, (void)b;
    return FC_ERROR_DRIVER;
}

CAUGHT(test_constant_output, "shapes", "b1-h2-s64-f32-seed1", constant, "expected")
CAUGHT(test_flipped_sign, "shapes", "b1-h2-s64-f16-seed2", sign_flipped, "out[b 0, head")
CAUGHT(test_f16_rounded_to_bf16, "shapes", "b1-h2-s64-f16-seed1", rounded_to_less, "tolerance")
CAUGHT(test_peaked_f16_rounded_to_bf16, "values", "peaked1-kv512-d64-f16", rounded_to_less,
       "tolerance")
CAUGHT(test_f32_rounded_to_f16, "shapes", "b1-h2-s64-f32-seed1", rounded_to_less, "tolerance")
CAUGHT(test_few_keys_not_rounded_to_nearest, "features", "causal_top_left", next_to_nearest,
       "a row of few keys")
CAUGHT(test_last_key_skipped, "features", "swapped", last_key_skipped, "tolerance")
CAUGHT(test_last_key_skipped_f32, "pairs", "swapped-f32", last_key_skipped, "tolerance")
CAUGHT(test_mask_ignored, "features", "mask", mask_ignored, "tolerance")
CAUGHT(test_hidden_keys_read, "masked", "last_keys-q17-kv40", mask_ignored, "is nan, expected")
CAUGHT(test_padding_read, "features", "kv_lengths", lengths_ignored, "is nan, expected")
CAUGHT(test_other_diagonal, "features", "causal", other_diagonal, "tolerance")
CAUGHT(test_keys_ignored, "shapes", "b1-h2-s64-f16-seed1", keys_ignored, "tolerance")
CAUGHT(test_right_for_one_shape, "shapes", "b1-h2-s64-f32-seed1", right_for_one_shape, "expected")
CAUGHT(test_lse_in_base_two, "features", "f32", lse_in_base_two, "lse[b")
CAUGHT(test_lse_of_blind_row, "masked", "all_rows-q17-kv40", lse_of_blind_row_is_finite,
       "expected -inf")
CAUGHT(test_nan_swallowed, "values", "nan_key-f32", nan_swallowed, "expected nan")
CAUGHT(test_nan_spread, "values", "nan_key-causal-f32", nan_spread, "is nan, expected")
CAUGHT(test_failing_call, "features", "f32", gives_up, "the forward call gave FC_ERROR_DRIVER")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_output),
        cmocka_unit_test(test_flipped_sign),
        cmocka_unit_test(test_f16_rounded_to_bf16),
        cmocka_unit_test(test_peaked_f16_rounded_to_bf16),
        cmocka_unit_test(test_f32_rounded_to_f16),
        cmocka_unit_test(test_few_keys_not_rounded_to_nearest),
        cmocka_unit_test(test_last_key_skipped),
        cmocka_unit_test(test_last_key_skipped_f32),
        cmocka_unit_test(test_mask_ignored),
        cmocka_unit_test(test_hidden_keys_read),
        cmocka_unit_test(test_padding_read),
        cmocka_unit_test(test_other_diagonal),
        cmocka_unit_test(test_keys_ignored),
        cmocka_unit_test(test_right_for_one_shape),
        cmocka_unit_test(test_lse_in_base_two),
        cmocka_unit_test(test_lse_of_blind_row),
        cmocka_unit_test(test_nan_swallowed),
        cmocka_unit_test(test_nan_spread),
        cmocka_unit_test(test_failing_call),
    };
    return cmocka_run_group_tests(tests, cheat_make_context, cheat_destroy_context);
}
