/* test_unfused.c: the yardstick of the tolerances is the same however many threads compute it. */
#include "unfused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { Q_HEADS = 8, KV_HEADS = 4, GROUP = Q_HEADS / KV_HEADS, ROWS = 96, DIM = 64 };

/* Enough products for all threads; of one KV head too few. */
static void read_sequence(bool backward, lab_tensors *t, lab_sequence *s)
{
    fc_case c;
    fc_attention p = fc_attention_init();
    p.batch = 1;
    p.q_heads = Q_HEADS;
    p.kv_heads = KV_HEADS;
    p.q_length = p.kv_length = ROWS;
    p.head_dim = DIM;
    p.q_type = FC_BF16;
    p.causal = 1;
    case_from_problem(&p, &c);
    c.backward = backward;
    assert_int_equal(lab_tensors_create(&c, &lab_host_memory, t), FC_OK);
    lab_sequence_read(t, 0, s);
}

/* One KV head with its query heads. */
static lab_sequence head_of(const lab_sequence *s, int64_t kv_head)
{
    lab_sequence one = *s;
    one.q += kv_head * GROUP * ROWS * DIM;
    one.k += kv_head * ROWS * DIM;
    one.v += kv_head * ROWS * DIM;
    if (s->dout)
        one.dout += kv_head * GROUP * ROWS * DIM;
    return one;
}

static void assert_same(const double *all, const double *one, int64_t kv_head, int64_t count)
{
    assert_memory_equal(all + kv_head * count, one, (size_t)count * sizeof *one);
}

static void assert_same_heads(bool backward)
{
    lab_tensors t;
    lab_sequence s;
    lab_sequence_result all, one;
    unfused_sizes largest = {0}, largest_of_heads = {0};
    read_sequence(backward, &t, &s);
    lab_sequence_result_make(&t.problem, &s, &all);
    unfused(&t.problem, &s, unfused_precision_of(&t.problem), &all, &largest);
    fc_attention p = t.problem;
    p.q_heads = GROUP;
    p.kv_heads = 1;
    for (int64_t head = 0; head < KV_HEADS; head++) {
        const lab_sequence part = head_of(&s, head);
        lab_sequence_result_make(&p, &part, &one);
        unfused(&p, &part, unfused_precision_of(&p), &one, &largest_of_heads);
        assert_same(all.out, one.out, head, (int64_t)GROUP * ROWS * DIM);
        assert_same(all.lse, one.lse, head, (int64_t)GROUP * ROWS);
        if (backward) {
            assert_same(all.dq, one.dq, head, (int64_t)GROUP * ROWS * DIM);
            assert_same(all.dk, one.dk, head, (int64_t)ROWS * DIM);
            assert_same(all.dv, one.dv, head, (int64_t)ROWS * DIM);
        }
        lab_sequence_result_free(&one);
    }
    assert_true(largest.product > 0 && largest.score > 0);
    assert_memory_equal(&largest, &largest_of_heads, sizeof largest);
    lab_sequence_result_free(&all);
    lab_sequence_free(&s);
    lab_tensors_destroy(&t);
}

static void test_threads_do_not_change_a_bit_forward(void **state)
{
    (void)state;
    assert_same_heads(false);
}

static void test_threads_do_not_change_a_bit_backward(void **state)
{
    (void)state;
    assert_same_heads(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_do_not_change_a_bit_forward),
        cmocka_unit_test(test_threads_do_not_change_a_bit_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
