/* test_equivalence.c: one problem written in two ways has one result. Each test says a feature in
 * terms of plainer ones. */
#include "elements.h"
#include "fixture.h"

#include <math.h>
#include <stdlib.h>

/* The wanted result, without the feature under test; then the result with it. */
static void expect_equivalent(fixture *with_feature, fixture *without, const char *what)
{
    fixture_forward(with_feature);
    fixture_forward(without);
    expect_same_result(with_feature, without, what);
}

static void test_grouped_heads_are_repeated_heads(void **state)
{
    (void)state;
    fixture grouped = fixture_make(2, 6, 2, 3, 4, 2);
    fixture repeated = fixture_make(2, 6, 6, 3, 4, 2);
    for (int64_t i = 0; i < fixture_kv_count(&repeated, 2); i++) {
        int64_t batch = i / 48, head = i / 8 % 6, element = i % 8;
        int64_t from = batch * 16 + head / 3 * 8 + element;
        repeated.k[i] = grouped.k[from];
        repeated.v[i] = grouped.v[from];
    }
    expect_equivalent(&grouped, &repeated, "GQA, three query heads to a KV head");
}

static void test_causal_and_window_are_a_mask(void **state)
{
    (void)state;
    for (fc_diagonal diagonal = FC_BOTTOM_RIGHT; diagonal <= FC_TOP_LEFT; diagonal++) {
        fixture window = fixture_make(1, 2, 2, 5, 7, 2);
        fixture masked = window;
        window.problem.causal = window.problem.has_window = 1;
        window.problem.window_left = 2;
        window.problem.diagonal = diagonal;
        masked.problem.has_mask = 1;
        masked.problem.mask_strides = (fc_broadcast){.row = 7};
        for (int64_t i = 0; i < 35; i++) {
            int64_t position = i / 7 + (diagonal == FC_BOTTOM_RIGHT ? 2 : 0), key = i % 7;
            masked.mask[i] = key <= position && key >= position - 2;
        }
        expect_equivalent(&window, &masked, "causal with two keys to the left");
    }
}

static void test_a_bias_of_minus_infinity_is_a_mask(void **state)
{
    (void)state;
    fixture biased = fixture_make(1, 2, 2, 3, 5, 2);
    fixture masked = biased;
    biased.problem.has_bias = 1;
    biased.problem.bias_strides = (fc_broadcast){.head = 15, .row = 5};
    masked.problem.has_mask = 1;
    masked.problem.mask_strides = biased.problem.bias_strides;
    for (int64_t i = 0; i < 30; i++)
        biased.bias[i] = masked.mask[i] ? 0 : -INFINITY;
    expect_equivalent(&biased, &masked, "a bias of 0 and -inf");
}

static void test_alibi_is_a_bias(void **state)
{
    (void)state;
    for (fc_diagonal diagonal = FC_BOTTOM_RIGHT; diagonal <= FC_TOP_LEFT; diagonal++) {
        fixture sloped = fixture_make(2, 2, 1, 3, 5, 2);
        fixture biased = sloped;
        sloped.problem.has_alibi = 1;
        sloped.problem.diagonal = diagonal;
        sloped.problem.alibi_batch_stride = 2;
        biased.problem.has_bias = 1;
        biased.problem.bias_strides = (fc_broadcast){.batch = 30, .head = 15, .row = 5};
        for (int64_t i = 0; i < 60; i++) {
            int64_t position = i / 5 % 3 + (diagonal == FC_BOTTOM_RIGHT ? 2 : 0);
            biased.bias[i] = -sloped.alibi[i / 15] * (float)llabs(position - i % 5);
        }
        expect_equivalent(&sloped, &biased, "ALiBi adds -slope |p - j|");
    }
}

static void test_a_sink_is_a_key_without_value(void **state)
{
    (void)state;
    fixture sink = fixture_make(1, 2, 2, 3, 4, 2);
    fixture longer = fixture_make(1, 2, 2, 3, 5, 2);
    sink.problem.has_sinks = 1;
    longer.problem.has_bias = 1;
    longer.problem.bias_strides = (fc_broadcast){.head = 5};
    memcpy(longer.q, sink.q, sizeof sink.q);
    for (int64_t i = 0; i < 20; i++) {
        int64_t head = i / 10, element = i % 10;
        longer.k[i] = element < 8 ? sink.k[head * 8 + element] : 0;
        longer.v[i] = element < 8 ? sink.v[head * 8 + element] : 0;
        longer.bias[i / 2] = element < 8 ? 0 : sink.sinks[head];
    }
    expect_equivalent(&sink, &longer, "a sink is one more logit, with the value 0");
}

static void test_kv_lengths_are_a_mask(void **state)
{
    (void)state;
    fixture shorter = fixture_make(3, 1, 1, 2, 5, 2);
    fixture masked = shorter;
    static const int32_t lengths[] = {5, 2, 0};
    memcpy(shorter.kv_lengths, lengths, sizeof lengths);
    shorter.problem.has_kv_lengths = 1;
    masked.problem.has_mask = 1;
    masked.problem.mask_strides = (fc_broadcast){.batch = 5};
    for (int64_t i = 0; i < 15; i++)
        masked.mask[i] = i % 5 < lengths[i / 5];
    expect_equivalent(&shorter, &masked, "kv_lengths 5, 2 and 0");
}

/* Row `row` of `count` elements from one array to another. */
static void copy_row(double *to, int64_t to_row, const double *from, int64_t from_row,
                     int64_t count)
{
    memcpy(to + to_row * count, from + from_row * count, (size_t)count * sizeof *to);
}

static void test_packed_sequences_are_separate_calls(void **state)
{
    (void)state;
    fixture packed = fixture_make(3, 1, 1, 3, 4, 2);
    static const int32_t cu_q[] = {0, 2, 2, 5}, cu_kv[] = {0, 4, 5, 7};
    memcpy(packed.cu_q, cu_q, sizeof cu_q);
    memcpy(packed.cu_kv, cu_kv, sizeof cu_kv);
    packed.problem.packed_q = packed.problem.packed_kv = packed.problem.causal = 1;
    packed.problem.packed_q_rows = 5;
    packed.problem.packed_kv_rows = 7;
    fixture_fill(&packed);
    fixture_forward(&packed);
    for (int b = 0; b < 3; b += 2) {
        int64_t q_first = cu_q[b], kv_first = cu_kv[b];
        fixture alone = fixture_make(1, 1, 1, cu_q[b + 1] - q_first, cu_kv[b + 1] - kv_first, 2);
        alone.problem.causal = 1;
        memcpy(alone.q, packed.q + q_first * 2, 6 * sizeof(double));
        memcpy(alone.k, packed.k + kv_first * 2, 8 * sizeof(double));
        memcpy(alone.v, packed.v + kv_first * 2, 8 * sizeof(double));
        fixture_forward(&alone);
        for (int64_t i = 0; i < alone.problem.q_length * 2; i++)
            expect_near(packed.out[q_first * 2 + i], alone.out[i], 0, "packed sequence %d", b);
    }
}

static void test_paged_keys_are_dense_keys(void **state)
{
    (void)state;
    fixture paged = fixture_make(2, 2, 2, 3, 5, 2);
    fixture dense = paged;
    static const int32_t page_table[] = {4, 0, 6, 2, 1, 5};
    memcpy(paged.page_table, page_table, sizeof page_table);
    paged.problem.paged = paged.problem.causal = dense.problem.causal = 1;
    paged.problem.page_size = 2;
    paged.problem.page_count = 7;
    fixture_fill(&paged);
    for (int64_t i = 0; i < 20; i++) {
        int64_t batch = i / 10, head = i / 5 % 2, key = i % 5;
        int64_t page = page_table[batch * 3 + key / 2], page_row = page * 2 + key % 2;
        copy_row(dense.k, i, paged.k, page_row * 2 + head, 2);
        copy_row(dense.v, i, paged.v, page_row * 2 + head, 2);
    }
    expect_equivalent(&paged, &dense, "pages of two rows in another order");
}

static void test_strides_do_not_change_the_result(void **state)
{
    (void)state;
    fixture dense = fixture_make(2, 2, 2, 3, 3, 2);
    fixture strided = dense;
    fc_strides rows_first = {.batch = 16, .head = 2, .row = 5};
    strided.problem.q_strides = strided.problem.k_strides = strided.problem.v_strides = rows_first;
    for (int64_t i = 0; i < 24; i++) {
        int64_t at = i / 12 * 16 + i / 6 % 2 * 2 + i / 2 % 3 * 5 + i % 2;
        strided.q[at] = dense.q[i];
        strided.k[at] = dense.k[i];
        strided.v[at] = dense.v[i];
    }
    expect_equivalent(&strided, &dense, "heads beside each other, rows padded");
}

static void test_a_row_does_not_depend_on_its_batch(void **state)
{
    (void)state;
    fixture batch = fixture_make(3, 2, 2, 3, 4, 2);
    fixture alone = fixture_make(1, 2, 2, 3, 4, 2);
    memcpy(alone.q, batch.q + 24, 12 * sizeof(double));
    memcpy(alone.k, batch.k + 32, 16 * sizeof(double));
    memcpy(alone.v, batch.v + 32, 16 * sizeof(double));
    fixture_forward(&batch);
    fixture_forward(&alone);
    for (int64_t i = 0; i < 12; i++)
        expect_near(batch.out[24 + i], alone.out[i], 0, "sequence 2 of a batch of 3");
}

/* FP8 codes with a scale per head and block of two rows, against the numbers they stand for. */
static void check_fp8(fc_type type)
{
    fixture plain = fixture_make(1, 2, 2, 3, 4, 2);
    uint8_t q[12], k[16], v[16];
    static const float scales[] = {0.5f, 3.0f, 1.25f, 0.75f};
    for (int64_t i = 0; i < 16; i++) {
        double q_value = element_generate(type, 11, i), k_value = element_generate(type, 12, i);
        double v_value = element_generate(type, 13, i);
        if (i < 12)
            element_store(type, q, i, q_value);
        element_store(type, k, i, k_value);
        element_store(type, v, i, v_value);
        plain.q[i] = i < 12 ? 0.75 * q_value : (double)NAN;
        plain.k[i] = (double)scales[i / 8 * 2 + i / 4 % 2] * k_value;
        plain.v[i] = (double)scales[i / 8] * v_value;
    }
    fixture coded = plain;
    coded.problem.q_type = type;
    coded.problem.out_type = FC_F64;
    coded.problem.k_scaling = (fc_scaling){.head = 2, .block = 1, .block_rows = 2};
    coded.problem.v_scaling = (fc_scaling){.head = 1};
    fc_buffers buffers = fixture_buffers(&coded);
    buffers.q = q;
    buffers.k = k;
    buffers.v = v;
    buffers.q_scale = &scales[3];
    buffers.k_scale = buffers.v_scale = scales;
    fc_plan *plan = fixture_plan(&coded.problem);
    fixture_run(plan, &buffers, NULL);
    fc_plan_destroy(plan);
    fixture_forward(&plain);
    expect_same_result(&coded, &plain, "FP8 codes with their scales");
}

static void test_fp8_is_its_dequantised_numbers(void **state)
{
    (void)state;
    check_fp8(FC_F8_E4M3);
    check_fp8(FC_F8_E5M2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped_heads_are_repeated_heads),
        cmocka_unit_test(test_causal_and_window_are_a_mask),
        cmocka_unit_test(test_a_bias_of_minus_infinity_is_a_mask),
        cmocka_unit_test(test_alibi_is_a_bias),
        cmocka_unit_test(test_a_sink_is_a_key_without_value),
        cmocka_unit_test(test_kv_lengths_are_a_mask),
        cmocka_unit_test(test_packed_sequences_are_separate_calls),
        cmocka_unit_test(test_paged_keys_are_dense_keys),
        cmocka_unit_test(test_strides_do_not_change_the_result),
        cmocka_unit_test(test_a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(test_fp8_is_its_dequantised_numbers),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
