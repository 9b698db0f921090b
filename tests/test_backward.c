/* test_backward.c: what must hold of the reference's gradients without computing any. */
#include "fixture.h"

#include <math.h>

static void expect_zeros(const double *values, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        expect_near(values[i], 0, 0, "%s, element %lld", what, (long long)i);
}

static void poison(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)NAN;
}

/* Row 0 sees nothing and nobody sees key 3; both hold NaN, as do the gradients before the call. */
static void test_hidden_rows_and_keys_get_zero(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 3, 4, 2);
    f.problem.has_mask = f.problem.has_bias = 1;
    f.problem.mask_strides = f.problem.bias_strides = (fc_broadcast){.row = 4};
    for (int i = 0; i < 12; i++)
        f.mask[i] = i >= 4 && i % 4 != 3;
    poison(f.k + 6, 2);
    poison(f.v + 6, 2);
    poison(f.dq, 6);
    poison(f.dk, 8);
    poison(f.dv, 8);
    fixture_backward(&f);
    expect_zeros(f.dq, 2, "dq of a row that sees no key");
    expect_zeros(f.dk + 6, 2, "dk of a key that nobody sees");
    expect_zeros(f.dv + 6, 2, "dv of a key that nobody sees");
    for (int i = 0; i < 12; i++)
        if (!f.mask[i])
            expect_near((double)f.dbias[i], 0, 0, "dbias of hidden element %d", i);
    for (int i = 0; i < 6; i++)
        assert_true(isfinite(f.dq[i]) && isfinite(f.dk[i]) && isfinite(f.dv[i]));
}

static void test_grouped_heads_sum_their_gradients(void **state)
{
    (void)state;
    fixture grouped = fixture_make(1, 3, 1, 2, 4, 2);
    fixture repeated = fixture_make(1, 3, 3, 2, 4, 2);
    for (int64_t i = 0; i < 24; i++) {
        repeated.k[i] = grouped.k[i % 8];
        repeated.v[i] = grouped.v[i % 8];
    }
    fixture_backward(&grouped);
    fixture_backward(&repeated);
    for (int64_t i = 0; i < 8; i++) {
        expect_near(grouped.dk[i], repeated.dk[i] + repeated.dk[i + 8] + repeated.dk[i + 16],
                    FIXTURE_TOLERANCE, "dk[%lld] sums over three query heads", (long long)i);
        expect_near(grouped.dv[i], repeated.dv[i] + repeated.dv[i + 8] + repeated.dv[i + 16],
                    FIXTURE_TOLERANCE, "dv[%lld] sums over three query heads", (long long)i);
    }
}

static void test_shared_pages_sum_their_gradients(void **state)
{
    (void)state;
    fixture shared = fixture_make(2, 1, 1, 2, 3, 2);
    shared.problem.paged = 1;
    shared.problem.page_size = 3;
    shared.problem.page_count = 2;
    shared.page_table[0] = shared.page_table[1] = 1;
    fixture_fill(&shared);
    fixture dense = fixture_make(2, 1, 1, 2, 3, 2);
    for (int64_t i = 0; i < 12; i++) {
        dense.k[i] = shared.k[6 + i % 6];
        dense.v[i] = shared.v[6 + i % 6];
    }
    fixture_backward(&shared);
    fixture_backward(&dense);
    expect_zeros(shared.dk, 6, "dk of a page that no sequence holds");
    for (int64_t i = 0; i < 6; i++) {
        expect_near(shared.dk[6 + i], dense.dk[i] + dense.dk[6 + i], FIXTURE_TOLERANCE,
                    "dk of a page that two sequences hold");
        expect_near(shared.dv[6 + i], dense.dv[i] + dense.dv[6 + i], FIXTURE_TOLERANCE,
                    "dv of a page that two sequences hold");
    }
}

/* Adding the same to every logit, the sink's included, changes no output. */
static void test_logit_gradients_of_a_row_sum_to_zero(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 2, 1, 3, 4, 2);
    f.problem.softcap = 2;
    f.problem.dropout_p = 0.375f;
    f.dropout_seed = 42;
    f.problem.has_sinks = 1;
    f.problem.has_bias = 1;
    f.problem.bias_strides = (fc_broadcast){.head = 12, .row = 4};
    fixture_backward(&f);
    for (int64_t head = 0; head < 2; head++) {
        double sum = (double)f.dsinks[head];
        for (int64_t i = 0; i < 12; i++)
            sum += (double)f.dbias[head * 12 + i];
        expect_near(sum, 0, 13 * 0x1p-24, "dsinks + dbias of head %lld", (long long)head);
    }
}

static void test_dv_of_equal_scores_is_the_mean_of_dout(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 3, 5, 2);
    memset(f.q, 0, 6 * sizeof *f.q);
    fixture_backward(&f);
    for (int64_t i = 0; i < 10; i++)
        expect_near(f.dv[i], (f.dout[i % 2] + f.dout[2 + i % 2] + f.dout[4 + i % 2]) / 5,
                    FIXTURE_TOLERANCE, "dv[%lld] with weights of 1/5", (long long)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_rows_and_keys_get_zero),
        cmocka_unit_test(test_grouped_heads_sum_their_gradients),
        cmocka_unit_test(test_shared_pages_sum_their_gradients),
        cmocka_unit_test(test_logit_gradients_of_a_row_sum_to_zero),
        cmocka_unit_test(test_dv_of_equal_scores_is_the_mean_of_dout),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
