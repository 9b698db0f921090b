/* test_reference.c: the reference against results that are known without computing attention. */
#include "elements.h"
#include "fixture.h"

#include <math.h>

static void fill(double *array, int64_t count, double value)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = value;
}

static void test_equal_scores_give_the_mean_of_the_values(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 3, 7, 2);
    fill(f.k, 14, 0.5);
    fill(f.q, 6, 1);
    f.problem.scale = 0.25f;
    fixture_forward(&f);
    for (int64_t i = 0; i < 6; i++) {
        double mean = 0;
        for (int64_t key = 0; key < 7; key++)
            mean += f.v[key * 2 + i % 2] / 7;
        expect_near(f.out[i], mean, FIXTURE_TOLERANCE, "out is the mean of the values");
        expect_near_f32((double)f.lse[i / 2], 0.25 + log(7), "lse is the score plus log 7");
    }
}

static void test_one_key_gives_its_value_exactly(void **state)
{
    (void)state;
    fixture f = fixture_make(2, 2, 2, 3, 1, 4);
    fixture_forward(&f);
    for (int64_t i = 0; i < fixture_q_count(&f, 4); i++)
        expect_near(f.out[i], f.v[i / 12 * 4 + i % 4], 0, "the only key's value, out[%lld]",
                    (long long)i);
}

static void test_a_dominant_key_gives_its_value_exactly(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 2, 6, 2);
    fill(f.q, 4, 100);
    fill(f.k, 12, -100);
    fill(f.k + 8, 2, 100);
    fixture_forward(&f);
    for (int64_t i = 0; i < 4; i++)
        expect_near(f.out[i], f.v[8 + i % 2], 0, "the value of key 4, 28284 above the rest");
    expect_near_f32((double)f.lse[0], 2e4 * sqrt(0.5), "lse is the dominant score");
}

/* With one visible key lse is that key's score: the formula, term by term. */
static void test_the_score_has_every_term(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 2, 1, 2, 5, 3);
    f.problem.scale = 0.75f;
    f.problem.softcap = 1.5f;
    f.problem.has_alibi = f.problem.has_bias = f.problem.has_mask = 1;
    f.problem.bias_strides = (fc_broadcast){.head = 10, .row = 5};
    f.alibi[0] = 0.5f;
    f.alibi[1] = 0.125f;
    for (int64_t key = 0; key < 5; key++) {
        for (int64_t j = 0; j < 5; j++)
            f.mask[j] = j == key;
        fixture_forward(&f);
        for (int64_t i = 0; i < 4; i++) {
            int64_t head = i / 2, row = i % 2;
            double dot = 0;
            for (int64_t d = 0; d < 3; d++)
                dot += f.q[i * 3 + d] * f.k[key * 3 + d];
            double score = 1.5 * tanh(0.75 * dot / 1.5);
            score -= (double)f.alibi[head] * fabs((double)(row + 3 - key));
            score += (double)f.bias[i * 5 + key];
            expect_near_f32((double)f.lse[i], score,
                            "head %lld, row %lld, key %lld: cap(scale q.k) + alibi + bias",
                            (long long)head, (long long)row, (long long)key);
        }
    }
}

static void test_default_scale_is_one_over_root_of_head_dim(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 1, 1, 16);
    fill(f.q, 16, 1);
    fill(f.k, 16, 0.5);
    fixture_forward(&f);
    expect_near_f32((double)f.lse[0], 8.0 / 4, "lse of one key with head_dim = 16");
}

static void test_a_constant_bias_shifts_lse_alone(void **state)
{
    (void)state;
    fixture plain = fixture_make(1, 2, 2, 3, 5, 2);
    fixture shifted = plain;
    shifted.problem.has_bias = 1;
    for (int64_t i = 0; i < 5; i++)
        shifted.bias[i] = 3.5f;
    fixture_forward(&plain);
    fixture_forward(&shifted);
    for (int64_t i = 0; i < 6; i++)
        shifted.lse[i] -= 3.5f;
    for (int64_t i = 0; i < 12; i++)
        expect_near(shifted.out[i], plain.out[i], FIXTURE_TOLERANCE, "out with a bias of 3.5");
    for (int64_t i = 0; i < 6; i++)
        expect_near((double)shifted.lse[i], (double)plain.lse[i], 1e-6, "lse - 3.5 with that bias");
}

static void test_the_order_of_keys_does_not_matter(void **state)
{
    (void)state;
    static const int64_t order[] = {3, 0, 4, 2, 1};
    fixture plain = fixture_make(1, 1, 1, 4, 5, 3);
    fixture shuffled = plain;
    for (int64_t i = 0; i < 15; i++) {
        shuffled.k[i] = plain.k[order[i / 3] * 3 + i % 3];
        shuffled.v[i] = plain.v[order[i / 3] * 3 + i % 3];
    }
    fixture_forward(&plain);
    fixture_forward(&shuffled);
    expect_same_result(&shuffled, &plain, "keys and values shuffled alike");
}

static void test_out_is_linear_in_the_values(void **state)
{
    (void)state;
    fixture first = fixture_make(1, 2, 1, 3, 4, 2);
    fixture second = first, sum = first;
    for (int64_t i = 0; i < 8; i++) {
        second.v[i] = element_generate(FC_F64, 99, i);
        sum.v[i] = 2 * first.v[i] - 3 * second.v[i];
    }
    fixture_forward(&first);
    fixture_forward(&second);
    fixture_forward(&sum);
    for (int64_t i = 0; i < 12; i++)
        expect_near(sum.out[i], 2 * first.out[i] - 3 * second.out[i], 10 * FIXTURE_TOLERANCE,
                    "out of 2 v1 - 3 v2");
}

static void test_softcap_bounds_the_score(void **state)
{
    (void)state;
    fixture f = fixture_make(1, 1, 1, 1, 1, 1);
    f.problem.softcap = 2.5f;
    f.q[0] = 1e3;
    f.k[0] = -1e3;
    fixture_forward(&f);
    expect_near_f32((double)f.lse[0], -2.5, "a score of -1e6 under softcap 2.5");

    fixture capped = fixture_make(1, 1, 1, 3, 4, 2);
    fixture plain = capped;
    capped.problem.softcap = 1e8f;
    fixture_forward(&capped);
    fixture_forward(&plain);
    expect_same_result(&capped, &plain, "a softcap far above every score");
}

/* Element i of out is the value with code i, since every sequence has one key. */
static void check_codes(fc_type type, int64_t codes, const void *values, float *out)
{
    fc_attention problem = fc_attention_init();
    problem.batch = codes / 256;
    problem.q_heads = problem.kv_heads = problem.q_length = problem.kv_length = 1;
    problem.head_dim = 1;
    problem.value_dim = 256;
    problem.q_type = problem.out_type = FC_F32;
    problem.kv_type = type;
    static const float q[256];
    fc_buffers buffers = fc_buffers_init();
    problem.q_strides = (fc_strides){.batch = 1, .head = 1, .row = 1};
    problem.k_strides = (fc_strides){.batch = 0, .head = 1, .row = 1};
    buffers.q = q;
    buffers.k = q;
    buffers.v = values;
    buffers.out = out;
    fc_plan *plan = fixture_plan(&problem);
    fixture_run(plan, &buffers, NULL);
    fc_plan_destroy(plan);
    for (int64_t i = 0; i < codes; i++) {
        double want = element_load(type, values, i);
        if (!(isnan(want) && isnan(out[i])) && (double)out[i] != want)
            fail_msg("%s code 0x%llx is %.9g, not %.9g", fc_type_name(type), (unsigned long long)i,
                     want, (double)out[i]);
    }
}

static void test_every_code_of_the_small_types_is_read_right(void **state)
{
    (void)state;
    static uint8_t bytes[256];
    static uint16_t words[65536];
    static float out[65536];
    for (int i = 0; i < 65536; i++) {
        bytes[i & 255] = (uint8_t)i;
        words[i] = (uint16_t)i;
    }
    check_codes(FC_F8_E4M3, 256, bytes, out);
    check_codes(FC_F8_E5M2, 256, bytes, out);
    check_codes(FC_F16, 65536, words, out);
    check_codes(FC_BF16, 65536, words, out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_scores_give_the_mean_of_the_values),
        cmocka_unit_test(test_one_key_gives_its_value_exactly),
        cmocka_unit_test(test_a_dominant_key_gives_its_value_exactly),
        cmocka_unit_test(test_the_score_has_every_term),
        cmocka_unit_test(test_default_scale_is_one_over_root_of_head_dim),
        cmocka_unit_test(test_a_constant_bias_shifts_lse_alone),
        cmocka_unit_test(test_the_order_of_keys_does_not_matter),
        cmocka_unit_test(test_out_is_linear_in_the_values),
        cmocka_unit_test(test_softcap_bounds_the_score),
        cmocka_unit_test(test_every_code_of_the_small_types_is_read_right),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
