/* test_rows.c: rows sampled from a large problem are held to the truth, whatever the problem has.
 */
#include "core/convert.h"
#include "rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-4; /* of f32 */

/* Out as the library gives it, behind its guard. */
static uint8_t *attend(fc_context *context, const lab_tensors *t)
{
    fc_plan *plan;
    fc_buffers b = lab_tensors_buffers(t);
    if (fc_plan_create(context, &t->of.problem, &plan) != FC_OK)
        fail_msg("%s: %s", t->of.name, fc_last_error());
    b.workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    b.workspace = lab_host_memory.allocate(NULL, b.workspace_bytes);
    assert_int_equal(fc_plan_forward(plan, &b, NULL), FC_OK);
    lab_host_memory.release(NULL, b.workspace);
    fc_plan_destroy(plan);
    return t->buffer[LAB_OUT].memory;
}

static bool is_sampled(const fc_case *c)
{
    return lab_can_sample(&c->problem) && c->values == CASE_NORMAL && c->problem.q_type == FC_F32 &&
           c->problem.out_type != FC_BF16 && c->problem.batch > 0 && c->problem.q_length > 0;
}

static void test_right_rows_pass(void **state)
{
    fc_context *context = *state;
    int sampled = 0;
    for (size_t i = 0; i < case_count(); i++) {
        fc_case c;
        lab_tensors t;
        char reason[256];
        case_get(i, &c);
        if (!is_sampled(&c))
            continue;
        assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &t), FC_OK);
        if (!lab_sample_rows(&t, attend(context, &t), tolerance, reason))
            fail_msg("%s: %s", c.name, reason);
        lab_tensors_destroy(&t);
        sampled++;
    }
    assert_int_equal(sampled, 112); /* none disappears */
}

static void spoil(const lab_tensors *t, uint8_t *image, int64_t b, int64_t head, int64_t row)
{
    const int64_t element = lab_element(t, LAB_OUT, b, head, row, t->problem.value_dim - 1);
    void *out = image + LAB_GUARD_BYTES;
    fc_store(FC_F32, out, element, fc_load(FC_F32, out, element) + 2 * tolerance);
}

static void test_a_wrong_row_is_named(void **state)
{
    fc_context *context = *state;
    fc_attention p = fc_attention_init();
    fc_case c;
    lab_tensors t;
    char reason[256];
    p.batch = 2;
    p.q_heads = 4;
    p.kv_heads = 2;
    p.q_length = 100;
    p.kv_length = 150;
    p.head_dim = 16;
    p.q_type = FC_F32;
    p.causal = 1;
    case_from_problem(&p, &c);
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &t), FC_OK);
    uint8_t *image = attend(context, &t);
    assert_true(lab_sample_rows(&t, image, tolerance, reason));
    spoil(&t, image, 1, 3, 99);
    assert_false(lab_sample_rows(&t, image, tolerance, reason));
    assert_non_null(strstr(reason, "out[b 1, head 3, row 99, dim 15] of the whole problem is"));
    spoil(&t, image, 0, 0, 0);
    assert_false(lab_sample_rows(&t, image, tolerance, reason));
    assert_non_null(strstr(reason, "out[b 0, head 0, row 0, dim 15]"));
    lab_tensors_destroy(&t);
}

static void test_what_hangs_on_a_rows_place_is_not_sampled(void **state)
{
    (void)state;
    fc_attention p = fc_attention_init();
    assert_true(lab_can_sample(&p));
    p.has_alibi = 1;
    assert_false(lab_can_sample(&p));
    p.has_alibi = 0;
    p.dropout_p = 0.5f;
    assert_false(lab_can_sample(&p));
}

static int make_context(void **state)
{
    fc_context_options options = fc_context_options_init();
    return fc_context_create(&options, (fc_context **)state) == FC_OK ? 0 : -1;
}

static int destroy_context(void **state)
{
    fc_context_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_right_rows_pass, make_context, destroy_context),
        cmocka_unit_test_setup_teardown(test_a_wrong_row_is_named, make_context, destroy_context),
        cmocka_unit_test(test_what_hangs_on_a_rows_place_is_not_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
