/* test_check_conduct.c: right numbers are not enough: kernels that write where or when they must
 * not, whose bits depend on what they must not, or that know the answer from elsewhere. */
#include "cheat.h"
#include "core/convert.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* 1. Writing. */

CHEAT(writes_behind)
{
    (void)user, (void)on;
    fc_store(cheat_out_type(p), b->out, cheat_out_elements(p), 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_before)
{
    (void)user, (void)on;
    fc_store(cheat_out_type(p), b->out, -1, 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_into_gap)
{
    (void)user, (void)on;
    fc_store(cheat_out_type(p), b->out, p->head_dim, 0);
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(writes_behind_workspace)
{
    (void)user, (void)on, (void)p;
    ((uint8_t *)b->workspace)[b->workspace_bytes] = 0;
    return fc_plan_forward(plan, b, NULL);
}

CHEAT(leaves_one_out)
{
    (void)user, (void)on;
    const double before = fc_load(cheat_out_type(p), b->out, 77);
    const fc_status status = fc_plan_forward(plan, b, NULL);
    fc_store(cheat_out_type(p), b->out, 77, before);
    return status;
}

/* Returns at once; out is written by another thread, which waits until the harness has looked. */
static struct {
    pthread_t thread;
    sem_t harness_has_looked;
    void *out;
    uint8_t values[1 << 16];
    size_t bytes;
} late;

static void *write_late(void *user)
{
    while (sem_wait(&late.harness_has_looked) != 0) {
    }
    memcpy(late.out, late.values, late.bytes);
    return user;
}

CHEAT(writes_late)
{
    (void)user, (void)on;
    fc_buffers elsewhere = *b;
    elsewhere.out = late.values;
    late.out = b->out;
    late.bytes = (size_t)cheat_out_elements(p) * fc_type_bytes(cheat_out_type(p));
    assert_true(late.bytes <= sizeof late.values);
    const fc_status status = fc_plan_forward(plan, &elsewhere, NULL);
    assert_int_equal(sem_init(&late.harness_has_looked, 0, 0), 0);
    assert_int_equal(pthread_create(&late.thread, NULL, write_late, NULL), 0);
    return status;
}

/* What waiting for the device does with work that is still under way: it ends. */
static fc_status end_late_write(void *user)
{
    (void)user;
    sem_post(&late.harness_has_looked);
    pthread_join(late.thread, NULL);
    sem_destroy(&late.harness_has_looked);
    return FC_OK;
}

CHEAT(changes_input)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    ((uint8_t *)b->k)[5] ^= 1;
    return status;
}

/* 2. Bits that depend on something. */

/* The smallest change there is: the last bit of one element. */
static void disturb(const fc_buffers *b)
{
    ((uint8_t *)b->out)[0] ^= 1;
}

CHEAT(changes_from_call_to_call)
{
    (void)on, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (++*(int *)user == 1)
        disturb(b);
    return status;
}

CHEAT(changes_with_threads)
{
    (void)user, (void)p;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (on != cheat_context)
        disturb(b);
    return status;
}

CHEAT(changes_with_batch)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (p->batch == 1)
        disturb(b);
    return status;
}

CHEAT(wrong_when_alone)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    if (p->batch == 1)
        cheat_fill_out(p, b);
    return status;
}

/* 3. Answers that hold for some inputs. */

/* An answer kept from the first call with these pointers. */
static struct {
    const void *q;
    uint8_t out[1 << 16];
    float lse[1 << 12];
} kept;

CHEAT(answers_by_pointer)
{
    (void)user, (void)on;
    const size_t out_bytes = (size_t)cheat_out_elements(p) * fc_type_bytes(cheat_out_type(p));
    const size_t rows = (size_t)(p->batch * p->q_heads * p->q_length);
    assert_true(out_bytes <= sizeof kept.out && rows * sizeof(float) <= sizeof kept.lse);
    if (kept.q == b->q) {
        memcpy(b->out, kept.out, out_bytes);
        memcpy(b->lse, kept.lse, rows * sizeof(float));
        return FC_OK;
    }
    const fc_status status = fc_plan_forward(plan, b, NULL);
    kept.q = b->q;
    memcpy(kept.out, b->out, out_bytes);
    memcpy(kept.lse, b->lse, rows * sizeof(float));
    return status;
}

/* Right as long as the keys stay where they were. */
CHEAT(wrong_once_keys_move)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_forward(plan, b, NULL);
    static double first_key;
    static const void *seen;
    const double key = fc_load(cheat_out_type(p), b->k, 0);
    if (seen == b->k && key != first_key)
        fc_store(cheat_out_type(p), b->out, 0, 2 + fc_load(cheat_out_type(p), b->out, 0));
    seen = b->k;
    first_key = key;
    return status;
}

/* Attention written out for a dense problem without features, but for scores cut off at ±limit:
 * what unit normal values never reach, and adding one vector to all keys does. */
static double clipped_score(const fc_attention *p, const fc_buffers *b, int64_t q_row, int64_t key)
{
    const double limit = 8;
    double sum = 0;
    for (int64_t d = 0; d < p->head_dim; d++)
        sum += fc_load(p->q_type, b->q, q_row * p->head_dim + d) *
               fc_load(p->q_type, b->k, key * p->head_dim + d);
    return fmin(fmax(sum / sqrt((double)p->head_dim), -limit), limit);
}

CHEAT(scores_clipped)
{
    (void)user, (void)on, (void)plan;
    for (int64_t row = 0; row < p->batch * p->q_heads * p->q_length; row++) {
        const int64_t first_key = row / p->q_length * p->kv_length;
        double total = 0;
        for (int64_t j = 0; j < p->kv_length; j++)
            total += exp(clipped_score(p, b, row, first_key + j));
        for (int64_t d = 0; d < p->head_dim; d++) {
            double sum = 0;
            for (int64_t j = 0; j < p->kv_length; j++)
                sum += exp(clipped_score(p, b, row, first_key + j)) *
                       fc_load(p->q_type, b->v, (first_key + j) * p->head_dim + d);
            fc_store(cheat_out_type(p), b->out, row * p->head_dim + d, sum / total);
        }
        b->lse[row] = (float)log(total);
    }
    return FC_OK;
}

CAUGHT(test_write_past_the_end, "features", "f32", writes_behind, "past the end of out was written")
CAUGHT(test_write_before, "features", "f32", writes_before, "before out was written")
CAUGHT(test_write_into_a_gap, "features", "padded", writes_into_gap, "memory between its elements")
CAUGHT(test_write_past_workspace, "features", "f32", writes_behind_workspace,
       "outside the workspace")
CAUGHT(test_element_left_out, "features", "f32", leaves_one_out,
       "out[b 0, head 0, row 1, dim 13] was not written")
CAUGHT(test_input_changed, "features", "f32", changes_input, "the input k was changed")
CAUGHT(test_run_to_run, "features", "bf16", changes_from_call_to_call,
       "when the same call is made again")
CAUGHT(test_threads, "features", "bf16", changes_with_threads, "with one thread")
CAUGHT(test_batch_changes_bits, "features", "batch_invariant", changes_with_batch,
       "when its sequence is alone in the batch")
CAUGHT(test_wrong_when_alone, "features", "f32", wrong_when_alone, "alone in the batch: out[b")
CAUGHT(test_answer_kept_by_pointer, "shapes", "b1-h2-s64-f32-seed1", answers_by_pointer,
       "is not doubled when every value is")
CAUGHT(test_scores_clipped, "shifted", "coarse_keys-batch_invariant", scores_clipped,
       "with the same vector added to every key: out[b")
CAUGHT(test_order_of_keys, "shapes", "b1-h2-s64-f32-seed1", wrong_once_keys_move,
       "with the keys in another order: out[b 0, head 0, row 0, dim 0]")

static void test_output_written_late(void **state)
{
    (void)state;
    const fc_case c = cheat_find_case("features", "f32");
    check_target target = check_target_of(cheat_context);
    target.forward = writes_late;
    target.memory.settle = end_late_write;
    cheat_expect_failure(&c, &target, "out was written after the forward call had returned");
}

/* Without batch_invariant the last bit may depend on the batch. */
static void test_last_bit_may_depend_on_the_batch(void **state)
{
    (void)state;
    int calls = 0;
    check_result result;
    const fc_case c = cheat_find_case("features", "f32");
    check_target target = check_target_of(cheat_context);
    target.forward = changes_with_batch;
    target.user = &calls;
    check_case_on(&target, &c, &result);
    assert_int_equal(result.outcome, CHECK_PASSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_past_the_end),
        cmocka_unit_test(test_write_before),
        cmocka_unit_test(test_write_into_a_gap),
        cmocka_unit_test(test_write_past_workspace),
        cmocka_unit_test(test_element_left_out),
        cmocka_unit_test(test_output_written_late),
        cmocka_unit_test(test_input_changed),
        cmocka_unit_test(test_run_to_run),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_batch_changes_bits),
        cmocka_unit_test(test_wrong_when_alone),
        cmocka_unit_test(test_last_bit_may_depend_on_the_batch),
        cmocka_unit_test(test_answer_kept_by_pointer),
        cmocka_unit_test(test_scores_clipped),
        cmocka_unit_test(test_order_of_keys),
    };
    return cmocka_run_group_tests(tests, cheat_make_context, cheat_destroy_context);
}
