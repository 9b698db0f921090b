/* test_tensors.c: the data of a case is the same however it is made. */
#include "change.h"
#include "core/convert.h"
#include "results.h"
#include "values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 128 };

/* Large enough for all threads to fill it. */
static fc_attention large_problem(void)
{
    fc_attention p = fc_attention_init();
    p.batch = 3;
    p.q_heads = 4;
    p.kv_heads = 2;
    p.q_length = p.kv_length = 300;
    p.head_dim = DIM;
    p.q_type = FC_BF16;
    return p;
}

static void assert_row(const lab_tensors *t, lab_tensor tensor, lab_place place)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const double scale = lab_scale(t, tensor, place.b, place.head, place.row);
    double values[DIM];
    lab_row_values(t, tensor, place, DIM, values);
    for (int64_t d = 0; d < DIM; d++) {
        const double stored = fc_load(buffer->type, lab_elements(buffer),
                                      lab_element(t, tensor, place.b, place.head, place.row, d));
        if (stored != lab_round(buffer->type, values[d] / scale))
            fail_msg("%s of b %d, head %d, row %d, dim %d is %g, not %g", buffer->name,
                     (int)place.b, (int)place.head, (int)place.row, (int)d, stored,
                     values[d] / scale);
    }
}

static void assert_values(const lab_tensors *t, lab_tensor tensor, int64_t rows)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    assert_true(buffer->elements >= 1 << 17);
    assert_int_equal(buffer->sizes[3], DIM);
    for (int64_t b = 0; b < t->problem.batch; b++)
        for (int64_t h = 0; h < buffer->sizes[1]; h++)
            for (int64_t i = 0; i < rows; i++)
                assert_row(t, tensor, (lab_place){b, h, i, 0});
}

static void assert_every_value(const fc_case *c)
{
    lab_tensors t;
    assert_int_equal(lab_tensors_create(c, &lab_host_memory, &t), FC_OK);
    assert_values(&t, LAB_Q, t.problem.q_length);
    assert_values(&t, LAB_K, t.problem.kv_length);
    assert_values(&t, LAB_V, t.problem.kv_length);
    if (c->backward)
        assert_values(&t, LAB_DOUT, t.problem.q_length);
    lab_tensors_destroy(&t);
}

static void test_a_value_depends_on_seed_and_place_alone(void **state)
{
    (void)state;
    fc_attention dense = large_problem(), packed = dense, paged = dense, scaled = dense;
    packed.packed_q = packed.packed_kv = 1;
    packed.packed_q_rows = packed.packed_kv_rows = dense.batch * dense.q_length;
    paged.paged = paged.has_kv_lengths = 1;
    paged.page_size = 16;
    paged.page_count = dense.batch * 19;
    scaled.q_type = FC_F8_E4M3;
    const fc_attention *problems[] = {&dense, &packed, &paged, &scaled};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        fc_case c;
        case_from_problem(problems[i], &c);
        c.seed = 100 + i;
        c.backward = i == 0;
        assert_every_value(&c);
        c.values = CASE_HEAVY;
        assert_every_value(&c);
    }
}

/* What was measured and noted with them stays comparable. Libraries of mathematics differ in the
 * last place. */
static void test_values_stay_what_they_were(void **state)
{
    (void)state;
    static const struct {
        lab_tensor tensor;
        case_values values;
        lab_place place;
        double expected;
    } known[] = {
        {LAB_Q, CASE_NORMAL, {0, 0, 0, 0}, -2.1328628698886711},
        {LAB_K, CASE_NORMAL, {2, 1, 299, 127}, 1.658879978458216},
        {LAB_V, CASE_NORMAL, {1, 0, 17, 3}, 1.9315524064637428},
        {LAB_DOUT, CASE_NORMAL, {1, 3, 5, 64}, -0.46656360808549191},
        {LAB_K, CASE_HEAVY, {2, 1, 7, 9}, 1.0113613002698283},
    };
    fc_case c;
    lab_tensors t;
    const fc_attention p = large_problem();
    case_from_problem(&p, &c);
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &t), FC_OK);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double values[DIM];
        t.of.values = known[i].values;
        lab_row_values(&t, known[i].tensor, known[i].place, known[i].place.dim + 1, values);
        const double value = values[known[i].place.dim];
        if (fabs(value - known[i].expected) > 1e-12)
            fail_msg("value %zu is %.17g", i, value);
    }
    lab_tensors_destroy(&t);
}

/* By asking every row. */
static bool is_seen(const lab_tensors *t, const lab_sequence *s, int64_t j)
{
    for (int64_t h = 0; h < t->problem.q_heads; h++)
        for (int64_t i = 0; i < s->q_rows; i++)
            if (lab_sees(&t->problem, s, h, i, j))
                return true;
    return false;
}

/* The number of keys that hold NaN. */
static int assert_hidden_keys_hold_nan(const fc_attention *problem)
{
    fc_case c;
    lab_tensors t;
    lab_sequence s;
    int hidden = 0;
    case_from_problem(problem, &c);
    c.mask = CASE_MASK_LEADING; /* a key its nearest row does not see, others do */
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &t), FC_OK);
    lab_sequence_read(&t, 0, &s);
    for (int64_t j = 0; j < s.kv_rows; j++) {
        const bool seen = is_seen(&t, &s, j);
        assert_int_equal(isnan(s.k[j * t.problem.head_dim]) != 0, !seen);
        assert_int_equal(isnan(s.v[j * t.problem.value_dim]) != 0, !seen);
        hidden += !seen;
    }
    lab_sequence_free(&s);
    lab_tensors_destroy(&t);
    return hidden;
}

static int count_hidden_keys(fc_attention problem)
{
    static const int64_t lengths[][2] = {{12, 12}, {5, 12}, {12, 5}, {1, 9}, {0, 4}};
    int hidden = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        problem.q_length = lengths[i][0];
        problem.kv_length = lengths[i][1];
        problem.mask_strides.row = problem.kv_length;
        hidden += assert_hidden_keys_hold_nan(&problem);
    }
    return hidden;
}

static void test_keys_that_no_row_sees_hold_nan(void **state)
{
    (void)state;
    int hidden = 0;
    for (int bits = 0; bits < 8; bits++)
        for (int64_t left = -1; left <= 4; left++)
            for (int64_t right = -1; right <= 4; right++) {
                fc_attention p = fc_attention_init();
                p.batch = 1;
                p.q_heads = 2;
                p.kv_heads = 1;
                p.head_dim = 4;
                p.q_type = FC_F32;
                p.causal = bits & 1;
                p.diagonal = bits & 2 ? FC_TOP_LEFT : FC_BOTTOM_RIGHT;
                p.has_mask = bits >> 2;
                p.has_window = 1;
                p.window_left = left;
                p.window_right = right;
                hidden += count_hidden_keys(p);
            }
    assert_true(hidden > 1000);
}

/* Every sequence's values are `factor` times what they were, its rows in this or the other order.
 */
static void assert_changed(const lab_tensors *t, const lab_sequence *before, double factor,
                           bool reversed)
{
    for (int64_t b = 0; b < t->problem.batch; b++) {
        lab_sequence s;
        lab_sequence_read(t, b, &s);
        for (int64_t i = 0; i < t->problem.kv_heads * s.kv_rows; i++) {
            const int64_t head = i / s.kv_rows, row = i % s.kv_rows;
            const int64_t was = head * s.kv_rows + (reversed ? s.kv_rows - 1 - row : row);
            for (int64_t d = 0; d < DIM; d++)
                assert_true(s.v[i * DIM + d] == factor * before[b].v[was * DIM + d]);
        }
        lab_sequence_free(&s);
    }
}

static void test_changes_reach_every_element_and_are_undone(void **state)
{
    (void)state;
    fc_case c;
    lab_tensors t;
    lab_sequence before[3];
    const fc_attention p = large_problem();
    case_from_problem(&p, &c);
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, &t), FC_OK);
    for (int64_t b = 0; b < 3; b++)
        lab_sequence_read(&t, b, &before[b]);
    assert_int_equal(lab_change_make(&t, LAB_DOUBLE_V), FC_OK);
    assert_changed(&t, before, 2, false);
    assert_int_equal(lab_change_undo(&t, LAB_DOUBLE_V), FC_OK);
    assert_changed(&t, before, 1, false);
    assert_int_equal(lab_change_make(&t, LAB_REVERSE_KEYS), FC_OK);
    assert_changed(&t, before, 1, true);
    assert_int_equal(lab_change_undo(&t, LAB_REVERSE_KEYS), FC_OK);
    assert_changed(&t, before, 1, false);
    for (int64_t b = 0; b < 3; b++)
        lab_sequence_free(&before[b]);
    lab_tensors_destroy(&t);
}

/* More than one piece, and a last one that is not whole. */
static void test_memory_is_filled_and_compared_to_its_last_byte(void **state)
{
    (void)state;
    const size_t bytes = (8 << 20) + 5, places[] = {0, 4 << 20, bytes - 1};
    uint8_t *memory = lab_zeroed((int64_t)bytes + 1, 1), *expected = lab_zeroed((int64_t)bytes, 1);
    bool same = false;
    memset(expected, 0xFB, bytes);
    assert_int_equal(lab_memory_fill(&lab_host_memory, memory, 0xFB, bytes), FC_OK);
    assert_memory_equal(memory, expected, bytes);
    assert_int_equal(memory[bytes], 0);
    lab_memory_compare(&lab_host_memory, memory, expected, bytes, &same);
    assert_true(same);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        memory[places[i]]++;
        lab_memory_compare(&lab_host_memory, memory, expected, bytes, &same);
        assert_false(same);
        memory[places[i]]--;
    }
    free(memory);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_depends_on_seed_and_place_alone),
        cmocka_unit_test(test_values_stay_what_they_were),
        cmocka_unit_test(test_keys_that_no_row_sees_hold_nan),
        cmocka_unit_test(test_changes_reach_every_element_and_are_undone),
        cmocka_unit_test(test_memory_is_filled_and_compared_to_its_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
