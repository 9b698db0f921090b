/* test_visibility.c: which keys a row of the reference sees, and that nothing else reaches it. */
#include "fixture.h"

#include <math.h>

static void fill(double *array, int64_t count, double value)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = value;
}

/* Every score is 0, so that out is the mean of the visible values. */
static fixture make_uniform(int64_t q_length, int64_t kv_length)
{
    fixture f = fixture_make(1, 1, 1, q_length, kv_length, 2);
    fill(f.k, kv_length * 2, 0);
    return f;
}

/* The mean of the values first … last, and log of their number; nothing visible when last < first.
 */
static void expect_uniform_row(const fixture *f, int64_t row, int64_t first, int64_t last)
{
    int64_t keys = last >= first ? last - first + 1 : 0;
    for (int64_t d = 0; d < 2; d++) {
        double mean = 0;
        for (int64_t key = first; key <= last; key++)
            mean += f->v[key * 2 + d] / (double)keys;
        expect_near(f->out[row * 2 + d], mean, FIXTURE_TOLERANCE,
                    "row %lld sees the keys %lld to %lld, out is their mean", (long long)row,
                    (long long)first, (long long)last);
    }
    double lse = keys > 0 ? log((double)keys) : -(double)INFINITY;
    expect_near_f32((double)f->lse[row], lse, "row %lld sees %lld keys, lse is their log",
                    (long long)row, (long long)keys);
}

static void test_causal_limits(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{5, 5}, {3, 7}, {7, 3}, {1, 4}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int64_t q_length = lengths[i][0], kv_length = lengths[i][1];
        for (fc_diagonal diagonal = FC_BOTTOM_RIGHT; diagonal <= FC_TOP_LEFT; diagonal++) {
            fixture f = make_uniform(q_length, kv_length);
            f.problem.causal = 1;
            f.problem.diagonal = diagonal;
            fixture_forward(&f);
            int64_t shift = diagonal == FC_BOTTOM_RIGHT ? kv_length - q_length : 0;
            for (int64_t row = 0; row < q_length; row++) {
                int64_t last = row + shift < kv_length ? row + shift : kv_length - 1;
                expect_uniform_row(&f, row, 0, last);
            }
        }
    }
}

static void test_window_limits(void **state)
{
    (void)state;
    static const int64_t windows[][2] = {{1, 0}, {0, 2}, {-1, 1}, {2, -1}, {0, 0}};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        fixture f = make_uniform(4, 6);
        f.problem.has_window = 1;
        f.problem.window_left = windows[i][0];
        f.problem.window_right = windows[i][1];
        fixture_forward(&f);
        for (int64_t row = 0; row < 4; row++) {
            int64_t position = row + 2;
            int64_t first = windows[i][0] < 0 ? 0 : position - windows[i][0];
            int64_t last = windows[i][1] < 0 ? 5 : position + windows[i][1];
            expect_uniform_row(&f, row, first > 0 ? first : 0, last < 5 ? last : 5);
        }
    }
}

static void test_a_row_without_keys_is_zero_and_minus_infinity(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 2, 2, 2, 3, 2);
    f.problem.has_mask = 1;
    f.problem.mask_strides = (fc_broadcast){.row = 3};
    memset(f.mask, 0, 3);
    memset(f.mask + 3, 1, 3);
    for (int32_t sinks = 0; sinks <= 1; sinks++) {
        f.problem.has_sinks = sinks;
        fixture_forward(&f);
        for (int64_t head = 0; head < 2; head++) {
            double lse = sinks ? (double)f.sinks[head] : -(double)INFINITY;
            expect_near((double)f.lse[head * 2], lse, 0, "lse of a hidden row, sinks %d", sinks);
            expect_near(f.out[head * 4], 0, 0, "out of a hidden row, sinks %d", sinks);
            expect_near(f.out[head * 4 + 1], 0, 0, "out of a hidden row, sinks %d", sinks);
            assert_true(isfinite(f.lse[head * 2 + 1]));
        }
    }
}

/* Key 2 is NaN and only the rows from 1 on see it. */
static void expect_nan_contained(fixture *f, double *poisoned)
{
    fixture clean = *f;
    fixture_forward(&clean);
    double kept = *poisoned;
    *poisoned = (double)NAN;
    fixture_forward(f);
    *poisoned = kept;
    for (int64_t d = 0; d < 2; d++)
        expect_near(f->out[d], clean.out[d], 0, "row 0 does not see the NaN");
    for (int64_t row = 1; row < 3; row++)
        if (!isnan(f->out[row * 2]))
            fail_msg("row %lld sees a NaN, but out is %g", (long long)row, f->out[row * 2]);
}

static void test_nan_reaches_the_rows_that_see_it_and_no_other(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 3, 4, 2);
    f.problem.causal = 1;
    expect_nan_contained(&f, &f.k[4]);
    expect_nan_contained(&f, &f.v[4]);
}

static void test_hidden_memory_never_leaks(void **state)
{
    (void)state;
    fixture clean = fixture_make(2, 1, 1, 2, 4, 2);
    clean.problem.has_mask = clean.problem.has_bias = clean.problem.has_kv_lengths = 1;
    clean.kv_lengths[0] = 3;
    clean.kv_lengths[1] = 2;
    memset(clean.mask, 1, 4);
    clean.mask[0] = 0;
    clean.bias[1] = -INFINITY;
    fixture poisoned = clean;
    static const int64_t hidden[] = {0, 1, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        fill(poisoned.k + hidden[i] * 2, 2, (double)NAN);
        fill(poisoned.v + hidden[i] * 2, 2, (double)NAN);
    }
    poisoned.bias[0] = poisoned.bias[3] = NAN;
    fixture_forward(&clean);
    fixture_forward(&poisoned);
    expect_same_result(&poisoned, &clean, "NaN in masked keys, behind -inf and past the length");
    assert_true(isfinite(clean.out[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal_limits),
        cmocka_unit_test(test_window_limits),
        cmocka_unit_test(test_a_row_without_keys_is_zero_and_minus_infinity),
        cmocka_unit_test(test_nan_reaches_the_rows_that_see_it_and_no_other),
        cmocka_unit_test(test_hidden_memory_never_leaks),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
