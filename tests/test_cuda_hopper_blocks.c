/* test_cuda_hopper_blocks.c: which sm_90 kernel takes little work, and how many of its blocks share
 * a multiprocessor, against the fake driver. No GPU is needed. */
#include "cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* 58 multiprocessors: 32 tiles of 128 rows leave none over, so that each tile gets a block; 56
 * tiles of 64 rows are more than half of them, so that no two blocks share keys, and 24 are not. */
static void test_hopper_kernels_fill_the_gpu(void **state)
{
    (void)state;
    fc_context *context;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    open_hopper(&context, "sm90_prefill");
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 32);
    assert_int_equal(fake->last_launch.numAttrs, 0);
    fc_context_destroy(context);
    open_hopper(&context, "sm90_latency");
    p.q_length = 448;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 7);
    assert_int_equal(fake->last_launch.gridDimY, 8);
    assert_int_equal(fake->last_launch.numAttrs, 0);
    assert_string_equal(fake->last_kernel, "sm90_latency_d64_k256_all_f16");
    p.kv_length = 384; /* half of the last 256 keys would not be there */
    assert_launches(context, &p, &b, "sm90_latency_d64_k128_two_all_f16");
    p.kv_length = 512;
    p.q_length = 192;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 6);
    assert_int_equal(fake->last_launch.numAttrs, 1);
    assert_string_equal(fake->last_kernel, "sm90_latency_d64_k256_pair_f16");
    p.causal = 1;
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_pair_causal_f16");
    p.kv_length = 256;
    assert_launches(context, &p, &b, "sm90_latency_d64_k128_pair_causal_f16");
    p.causal = 0;
    p.kv_length = 511; /* leave room in a tile of 256 */
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_pair_causal_f16");
    p.kv_length = 257;
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_pair_causal_f16");
    p.kv_length = 256;
    assert_launches(context, &p, &b, "sm90_latency_d64_k128_pair_f16");
    p.kv_length = 65;
    assert_launches(context, &p, &b, "sm90_latency_d64_k64_pair_f16");
    p.has_window = 1; /* no variant of its own */
    p.window_left = p.window_right = 10;
    assert_launches(context, &p, &b, "sm90_latency_d64_k64_f16");
    fc_context_destroy(context);
}

/* 58 multiprocessors: 64 tiles of 128 rows need two rounds, 128 tiles of 64 rows one, four to each
 * multiprocessor. */
static void test_many_short_sequences_share_multiprocessors(void **state)
{
    (void)state;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    p.batch = 12;
    p.q_heads = p.kv_heads = 5; /* no pairs */
    p.q_length = p.kv_length = 128;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_four_whole_f16", &p, b);
    p.batch = 8;
    p.q_heads = p.kv_heads = 8;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_four_whole_f16", &p, b);
    p.batch = 12; /* 192 tiles of 64 rows: four on a multiprocessor */
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_heads_whole_f16", &p, b);
    p.batch = 8;
    p.kv_length = 127;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_four_all_f16", &p, b);
    p.kv_length = 129;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_all_f16", &p, b);
    p.kv_length = 128;
    p.causal = 1;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_causal_f16", &p, b);
    p.has_window = 1;
    p.window_left = 100;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_f16", &p, b);
    p.has_window = p.causal = 0;
    p.window_left = 0;
    p.batch = 2;
    p.q_length = p.kv_length = 500;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_all_f16", &p, b);
    p.kv_length = 512; /* whole tiles of prefill.cu */
    assert_kernel_runs(NULL, "sm90_prefill_d64_wide_f16", &p, b);
    p.kv_length = 384;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_all_f16", &p, b);
    p.q_length = p.kv_length = 128;
    p.batch = 15; /* 240 tiles of 64 rows: two rounds */
    assert_kernel_runs(NULL, "sm90_prefill_d64_f16", &p, b);
    p.batch = 8;
    p.batch_invariant = 1;
    assert_kernel_runs(NULL, "sm90_prefill_d64_f16", &p, b);
}

/* 58 multiprocessors: 112 tiles of 64 rows are one round with two blocks on each, 128 are not. */
static void test_two_blocks_share_a_multiprocessor(void **state)
{
    (void)state;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_all_f16", &p, b); /* 64 tiles */
    p.batch = 7;
    p.q_length = p.kv_length = 128;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_one_whole_f16", &p, b);
    p.kv_length = 127;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_one_f16", &p, b);
    p.causal = 1;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_one_causal_f16", &p, b);
    p.scale = 0.15f; /* 0.125 unless said */
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_causal_f16", &p, b);
    p.scale = 0.0f;
    p.kv_length = 768;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_causal_f16", &p, b);
    p.causal = 0;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_all_f16", &p, b);
    p.kv_length = 769;
    assert_kernel_runs(NULL, "sm90_prefill_d64_once_f16", &p, b);
    p.batch = 4; /* 96 tiles, where prefill has 64: two rounds */
    p.q_length = 192;
    p.kv_length = 256;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_all_f16", &p, b);
    p.kv_length = 192;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_all_f16", &p, b);
    p.batch_invariant = 1;
    assert_kernel_runs(NULL, "sm90_prefill_d64_f16", &p, b);
}

/* 58 multiprocessors: 48 tiles of 64 rows. */
static void test_tiles_of_128_keys_have_a_multiprocessor_each(void **state)
{
    (void)state;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    p.batch = 3;
    p.q_length = p.kv_length = 128;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_one_whole_f16", &p, b);
    p.scale = 0.15f; /* 0.125 unless said */
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_one_f16", &p, b);
    p.scale = 0.0f;
    p.kv_length = 127;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_one_f16", &p, b);
    p.causal = 1;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_one_causal_f16", &p, b);
    p.scale = 0.15f;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_two_causal_f16", &p, b);
    p.scale = 0.0f;
    p.kv_length = 257;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_two_causal_f16", &p, b);
}

/* 58 multiprocessors: 48 tiles of 64 rows, then 112, which are 56 of 128 rows, or of 120. */
static void test_up_to_256_keys_are_one_tile(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, q_length;
        const char *all, *whole, *causal;
    } tiles[] = {{3, 128, "sm90_latency_d64_k256_one_all_f16",
                  "sm90_latency_d64_k256_one_whole_f16", "sm90_latency_d64_k256_one_causal_f16"},
                 {7, 120, "sm90_latency_d64_k256_tall_all_f16",
                  "sm90_latency_d64_k256_tall_whole_f16", "sm90_latency_d64_k256_tall_causal_f16"}};
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    for (size_t i = 0; i < 2; i++) {
        p.batch = tiles[i].batch;
        p.q_length = tiles[i].q_length;
        p.kv_length = 256;
        assert_kernel_runs(NULL, tiles[i].whole, &p, b);
        p.scale = 0.15f; /* 0.125 unless said */
        assert_kernel_runs(NULL, tiles[i].all, &p, b);
        p.causal = 1;
        assert_kernel_runs(NULL, "sm90_latency_d64_k128_two_causal_f16", &p, b);
        p.scale = 0.0f;
        assert_kernel_runs(NULL, tiles[i].causal, &p, b);
        p.kv_length = 129;
        assert_kernel_runs(NULL, tiles[i].causal, &p, b);
        p.causal = 0;
        assert_kernel_runs(NULL, tiles[i].all, &p, b);
    }
}

/* 58 multiprocessors: 32 tiles of 64 rows are more than half, 16 of 128 are not. */
static void test_two_blocks_share_the_keys_of_128_rows(void **state)
{
    (void)state;
    fc_context *context;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    p.batch = 2;
    p.q_length = 128;
    open_hopper(&context, "sm90_latency");
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_string_equal(fake->last_kernel, "sm90_latency_d64_k256_tall_pair_f16");
    assert_int_equal(fake->last_launch.gridDimX, 2);
    assert_int_equal(fake->last_launch.gridDimY, 8);
    assert_int_equal(fake->last_launch.numAttrs, 1);
    p.kv_length = 511;
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_tall_pair_causal_f16");
    p.kv_length = 385;
    p.causal = 1;
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_tall_pair_causal_f16");
    p.kv_length = 384;
    assert_launches(context, &p, &b, "sm90_latency_d64_k128_two_causal_f16");
    p.kv_length = 513;
    assert_launches(context, &p, &b, "sm90_latency_d64_k128_two_causal_f16");
    p.causal = 0;
    p.kv_length = 512;
    p.batch_invariant = 1; /* tiles of 64 rows, however many */
    assert_launches(context, &p, &b, "sm90_latency_d64_k256_pair_f16");
    fc_context_destroy(context);
}

/* 58 multiprocessors: 96 tiles of 128 rows are more than one and a half rounds, 72 are not. */
static void test_more_causal_keys_share_multiprocessors_than_fill_a_round(void **state)
{
    (void)state;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    p.causal = 1;
    p.batch = 4;
    p.q_length = p.kv_length = 300;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_four_causal_f16", &p, b);
    p.batch = 3;
    assert_kernel_runs(NULL, "sm90_prefill_d64_tall_limits_f16", &p, b);
}

/* 58 multiprocessors: 112 rows of 8 heads are 56 blocks of 16 rows, 128 are 64. */
static void test_few_keys_are_left_to_sm80(void **state)
{
    (void)state;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    p.q_length = 112;
    p.kv_length = 128;
    assert_kernel_runs(NULL, "sm80_latency_d64_k128_all_f16", &p, b);
    p.dependent_launch = 1;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_pair_f16", &p, b);
    p.dependent_launch = 0;
    p.kv_length = 129;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_pair_f16", &p, b);
    p.q_length = p.kv_length = 128;
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_pair_f16", &p, b);
}

/* The same blocks; with limits and 64 dims however many. */
static void test_few_keys_of_a_window_or_length_are_left_to_sm80(void **state)
{
    (void)state;
    static const int32_t lengths[1];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.q_length = 128;
    p.kv_length = 256;
    p.has_window = 1;
    p.window_left = p.window_right = 64;
    assert_kernel_runs(NULL, "sm80_latency_d64_k256_f16", &p, b);
    p.head_dim = 72;
    assert_kernel_runs(NULL, "sm90_latency_d128_k128_f16", &p, b);
    p = mission();
    p.has_kv_lengths = 1;
    b.kv_lengths = lengths;
    p.kv_length = 256;
    p.q_length = 128;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_f16", &p, b);
    p.q_length = 112;
    assert_kernel_runs(NULL, "sm80_latency_d64_f16", &p, b);
    p.kv_length = 384;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_f16", &p, b);
}

int main(void)
{
    if (!open_fake())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_hopper_kernels_fill_the_gpu),
        TEST(test_many_short_sequences_share_multiprocessors),
        TEST(test_two_blocks_share_a_multiprocessor),
        TEST(test_tiles_of_128_keys_have_a_multiprocessor_each),
        TEST(test_up_to_256_keys_are_one_tile),
        TEST(test_two_blocks_share_the_keys_of_128_rows),
        TEST(test_more_causal_keys_share_multiprocessors_than_fill_a_round),
        TEST(test_few_keys_are_left_to_sm80),
        TEST(test_few_keys_of_a_window_or_length_are_left_to_sm80),
    };
    return cmocka_run_group_tests_name("cuda_hopper_blocks", tests, NULL, NULL);
}
