/* test_dropout.c: dropout drops exactly the weights that the header's counter-based generator
 * names, and the kept ones grow by 1 / (1 - p). */
#include "fixture.h"

#include <math.h>

/* Philox4x32-10, written from the paper (Salmon et al., 2011) and not from the library. */
static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
    uint32_t k[2] = {key[0], key[1]};
    memcpy(words, counter, 4 * sizeof *words);
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)words[0] * 0xD2511F53u;
        uint64_t right = (uint64_t)words[2] * 0xCD9E8D57u;
        uint32_t next[4] = {(uint32_t)(right >> 32) ^ words[1] ^ k[0], (uint32_t)right,
                            (uint32_t)(left >> 32) ^ words[3] ^ k[1], (uint32_t)left};
        memcpy(words, next, sizeof next);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

/* The known answers that Random123 publishes. */
static void test_our_philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t words[4];
        philox(known[i].counter, known[i].key, words);
        assert_memory_equal(words, known[i].answer, sizeof words);
    }
}

/* V is the unit matrix, so that out holds the weights themselves. */
static fixture make_weights(int64_t batch, int64_t heads, int64_t q_length, int64_t kv_length)
{
    fixture f = fixture_make(batch, heads, heads, q_length, kv_length, 2);
    f.problem.value_dim = kv_length;
    fixture_fill(&f);
    for (int64_t i = 0; i < fixture_kv_count(&f, kv_length); i++)
        f.v[i] = i % kv_length == i / kv_length % kv_length;
    return f;
}

static bool is_kept(const fixture *f, int64_t batch, int64_t head, int64_t row, int64_t key)
{
    uint32_t counter[4] = {(uint32_t)key / 4, (uint32_t)row,
                           (uint32_t)(batch * f->problem.q_heads + head),
                           (uint32_t)f->dropout_offset};
    uint32_t philox_key[2] = {(uint32_t)f->dropout_seed, (uint32_t)(f->dropout_seed >> 32) ^
                                                             (uint32_t)(f->dropout_offset >> 32)};
    uint32_t words[4];
    philox(counter, philox_key, words);
    return words[key % 4] >= (double)f->problem.dropout_p * 0x1p32;
}

static void test_the_generator_says_which_weights_are_dropped(void **state)
{
    (void)state;
    fixture plain = make_weights(2, 2, 3, 9);
    fixture dropped = plain;
    dropped.problem.dropout_p = 0.375f;
    dropped.dropout_seed = 0x243f6a8885a308d3u;
    dropped.dropout_offset = 0x13198a2e03707344u;
    fixture_forward(&plain);
    fixture_forward(&dropped);
    for (int64_t i = 0; i < fixture_q_count(&dropped, 9); i++) {
        int64_t row = i / 9 % 3, head = i / 27 % 2, batch = i / 54;
        bool kept = is_kept(&dropped, batch, head, row, i % 9);
        expect_near(dropped.out[i], kept ? plain.out[i] / (1 - 0.375) : 0, FIXTURE_TOLERANCE,
                    "batch %lld, head %lld, row %lld, key %lld is %s", (long long)batch,
                    (long long)head, (long long)row, (long long)(i % 9),
                    kept ? "kept and grows by 1 / (1 - p)" : "dropped");
    }
    for (int64_t i = 0; i < fixture_row_count(&dropped); i++)
        expect_near((double)dropped.lse[i], (double)plain.lse[i], 0, "lse is that without dropout");
}

/* The four words of counter 0 under key 0 are 0x6627e8d5 and so on: a weight is kept as long as p
 * is no more than word / 2^32. A float p tells the word's upper 24 bits. */
static void test_the_known_answer_is_the_threshold(void **state)
{
    (void)state;
    static const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    fixture f = make_weights(1, 1, 1, 4);
    for (int key = 0; key < 4; key++) {
        float above = (float)(words[key] * 0x1p-32);
        if (above <= words[key] * 0x1p-32)
            above = nextafterf(above, 1);
        f.problem.dropout_p = nextafterf(above, 0);
        fixture_forward(&f);
        assert_true(f.out[key] > 0);
        f.problem.dropout_p = above;
        fixture_forward(&f);
        expect_near(f.out[key], 0, 0, "key %d at p just above its random word", key);
    }
}

enum { SEEDS = 400 };

/* n independent draws with probability 1 - p are within five standard deviations of their mean but
 * for one seed in two million; these seeds are fixed. */
static void test_as_many_weights_are_kept_as_asked_for(void **state)
{
    (void)state;
    static const float probabilities[] = {0.1f, 0.5f, 0.9f};
    for (size_t i = 0; i < sizeof probabilities / sizeof probabilities[0]; i++) {
        fixture f = make_weights(1, 1, 4, 12);
        double p = (double)probabilities[i];
        f.problem.dropout_p = probabilities[i];
        int64_t kept = 0, draws = 0;
        for (f.dropout_seed = 0; f.dropout_seed < SEEDS; f.dropout_seed++) {
            fixture_forward(&f);
            for (int64_t j = 0; j < 48; j++)
                kept += f.out[j] != 0;
            draws += 48;
        }
        expect_near((double)kept, (double)draws * (1 - p), 5 * sqrt((double)draws * p * (1 - p)),
                    "kept weights out of %lld with p = %g", (long long)draws, p);
    }
}

/* Over seeds, and over offsets, a weight's mean is the weight. One weight varies by w sqrt(p / q).
 */
static void test_dropout_keeps_the_expectation(void **state)
{
    (void)state;
    fixture plain = make_weights(1, 1, 1, 5);
    fixture_forward(&plain);
    for (int by_offset = 0; by_offset <= 1; by_offset++) {
        fixture f = plain;
        f.problem.dropout_p = 0.25f;
        double mean[5] = {0};
        for (uint64_t draw = 0; draw < SEEDS; draw++) {
            f.dropout_seed = by_offset ? 7 : draw;
            f.dropout_offset = by_offset ? draw : 7;
            fixture_forward(&f);
            for (int64_t key = 0; key < 5; key++)
                mean[key] += f.out[key] / SEEDS;
        }
        for (int64_t key = 0; key < 5; key++)
            expect_near(mean[key], plain.out[key], 5 * plain.out[key] * sqrt(1.0 / 3 / SEEDS),
                        "mean weight of key %lld over %d %s", (long long)key, SEEDS,
                        by_offset ? "offsets" : "seeds");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_philox_gives_the_known_answers),
        cmocka_unit_test(test_the_generator_says_which_weights_are_dropped),
        cmocka_unit_test(test_the_known_answer_is_the_threshold),
        cmocka_unit_test(test_as_many_weights_are_kept_as_asked_for),
        cmocka_unit_test(test_dropout_keeps_the_expectation),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
