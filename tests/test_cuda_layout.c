/* test_cuda_layout.c: which blocks and which variant a problem gets of the ladder and the sm_80
 * kernels, against the fake driver. No GPU is needed. */
#include "cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The fake GPU has 58 multiprocessors and room for 2 blocks on each; a tile has 64 rows. */
static void test_blocks_stay_within_what_the_gpu_holds_at_once(void **state)
{
    (void)state;
    fc_context *context;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "ladder_persistent"), FC_OK);
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 8 * 8);
    p.batch = 4;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 58 * 2);
    assert_int_equal(fake->last_launch.gridDimY, 1);
    assert_int_equal(fake->last_launch.gridDimZ, 1);
    fc_context_destroy(context);
}

/* A tile of sm80_prefill has 128 rows; of a group, sequences and tiles take x, groups y. */
static void test_long_and_short_blocks_of_several_sequences_stand_together(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, rows;
        int causal;
        unsigned x, y;
    } shapes[] = {
        {32, 512, 1, 4 * 29, 9},  /* 256 sequences, 116 blocks at once; 9 groups, the last of 24 */
        {1, 512, 1, 4 * 8, 1},    /* all there are */
        {32, 8192, 1, 64, 256},   /* no room for those of two */
        {32, 16384, 1, 128, 256}, /* nor for those of one */
        {32, 500, 0, 4, 256},     /* all blocks alike */
        {9000, 1, 0, 2, 36000},   /* a grid has room for 65535 groups */
    };
    fc_context *context;
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "sm80_prefill"), FC_OK);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        fc_attention p = mission();
        p.batch = shapes[i].batch;
        p.q_length = p.kv_length = shapes[i].rows;
        p.causal = shapes[i].causal;
        assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
        assert_int_equal(fake->last_launch.gridDimX, shapes[i].x);
        assert_int_equal(fake->last_launch.gridDimY, shapes[i].y);
        assert_int_equal(fake->last_launch.gridDimZ, 1);
    }
    fc_context_destroy(context);
}

static void test_every_split_of_the_keys_has_its_blocks(void **state)
{
    (void)state;
    fc_context *context;
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.batch = 3;
    b.workspace = b.out;
    b.workspace_bytes = SIZE_MAX;
    assert_int_equal(open_gpu(&context, "ladder_split_keys"), FC_OK);
    fake->launch_result = CUDA_ERROR_LAUNCH_FAILED; /* the first launch is then the last */
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_ERROR_DRIVER);
    assert_int_equal(fake->last_launch.gridDimX, 8);
    assert_int_equal(fake->last_launch.gridDimY, 8);
    assert_int_equal(fake->last_launch.gridDimZ, 3 * 2);
    fc_context_destroy(context);
}

typedef struct variant_row {
    int64_t keys;
    int causal;
    float scale;
    const char *variant;
} variant_row;

static void expect_variant(fc_context *context, const fc_attention *p, const fc_buffers *b,
                           const char *variant)
{
    assert_int_equal(fc_attend(context, p, b, NULL), FC_OK);
    assert_string_equal(fake->last_kernel, variant);
}

static void expect_variants(const char *kernel, const variant_row *rows, size_t count)
{
    fc_context *context;
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, kernel), FC_OK);
    for (size_t i = 0; i < count; i++) {
        fc_attention p = mission();
        p.kv_length = rows[i].keys;
        p.causal = rows[i].causal;
        p.scale = rows[i].scale;
        expect_variant(context, &p, &b, rows[i].variant);
    }
    fc_context_destroy(context);
}

/* Where all keys fit the warps of a block, and nothing has to be looked up. */
static void test_few_keys_take_one_round(void **state)
{
    (void)state;
    static const variant_row rows[] = {
        {512, 0, 0, "sm80_latency_d64_k512_tall_all_f16"},
        {512, 1, 0, "sm80_latency_d64_k512_tall_f16"},
        {385, 0, 0, "sm80_latency_d64_k512_tall_f16"},
        {384, 0, 0, "sm80_latency_d64_k512_f16"},
        {257, 0, 0, "sm80_latency_d64_k512_f16"},
        {256, 0, 0, "sm80_latency_d64_k256_all_f16"},
        {256, 1, 0, "sm80_latency_d64_k256_f16"},
        {129, 0, 0, "sm80_latency_d64_k256_f16"},
        {128, 0, 0, "sm80_latency_d64_k128_all_f16"},
        {128, 1, 0, "sm80_latency_d64_k128_f16"},
        {513, 0, 0, "sm80_latency_d64_f16"},
        {512, 0, -1, "sm80_latency_d64_f16"},
    };
    expect_variants("sm80_latency", rows, sizeof rows / sizeof rows[0]);
}

/* 58 multiprocessors, as an L4 has: 128 blocks of 32 rows are more than two rounds, 112 are not; 56
 * of 80 are one, 63 are not. */
static void test_rows_of_a_block_suit_the_number_of_multiprocessors(void **state)
{
    (void)state;
    static const struct {
        int64_t heads, keys;
        int causal, invariant;
        const char *variant;
    } rows[] = {
        {3, 512, 0, 0, "sm80_latency_d64_k512_all_f16"},
        {3, 512, 1, 0, "sm80_latency_d64_k512_causal_f16"},
        {3, 257, 1, 0, "sm80_latency_d64_k512_causal_f16"},
        {3, 511, 0, 0, "sm80_latency_d64_k512_f16"},
        {7, 512, 0, 0, "sm80_latency_d64_k512_all_f16"},
        {8, 512, 0, 0, "sm80_latency_d64_k512_tall_all_f16"},
        {8, 400, 1, 0, "sm80_latency_d64_k512_tall_f16"},
        {8, 384, 1, 0, "sm80_prefill_d64_causal_f16"},
        {8, 512, 0, 1, "sm80_prefill_d64_all_f16"},
        {9, 512, 0, 0, "sm80_prefill_d64_all_f16"},
    };
    fc_context *context;
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "sm80_latency,sm80_prefill"), FC_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fc_attention p = mission();
        p.q_heads = p.kv_heads = rows[i].heads;
        p.kv_length = rows[i].keys;
        p.causal = rows[i].causal;
        p.batch_invariant = rows[i].invariant;
        expect_variant(context, &p, &b, rows[i].variant);
    }
    fc_context_destroy(context);
}

/* Where rows see all keys, nothing has to be looked up, and no tile of keys is cut. */
static void test_whole_tiles_that_all_rows_see_have_a_variant(void **state)
{
    (void)state;
    static const variant_row rows[] = {
        {512, 0, 0, "sm80_prefill_d64_all_f16"}, {64, 0, 0, "sm80_prefill_d64_all_f16"},
        {500, 0, 0, "sm80_prefill_d64_f16"},     {32, 0, 0, "sm80_prefill_d64_f16"},
        {512, 0, -1, "sm80_prefill_d64_f16"},    {0, 0, 0, "sm80_prefill_d64_f16"},
    };
    expect_variants("sm80_prefill", rows, sizeof rows / sizeof rows[0]);

    fc_context *context;
    const float sinks[8] = {0};
    fc_buffers b = somewhere();
    b.sinks = sinks;
    assert_int_equal(open_gpu(&context, "sm80_prefill"), FC_OK);
    fc_attention with_sinks = mission(), shared_tiles = mission();
    with_sinks.has_sinks = 1;
    expect_variant(context, &with_sinks, &b, "sm80_prefill_d64_f16");
    b.sinks = NULL;
    shared_tiles.q_length = 8;
    shared_tiles.kv_heads = 2;
    expect_variant(context, &shared_tiles, &b, "sm80_prefill_d64_f16");
    fc_context_destroy(context);
}

/* Where rows see the first keys, and nothing else has to be looked up. */
static void test_causal_rows_have_a_variant_of_prefill(void **state)
{
    (void)state;
    static const variant_row rows[] = {
        {512, 1, 0, "sm80_prefill_d64_causal_f16"},
        {500, 1, 0, "sm80_prefill_d64_causal_f16"},
        {512, 1, -1, "sm80_prefill_d64_f16"},
    };
    expect_variants("sm80_prefill", rows, sizeof rows / sizeof rows[0]);

    fc_context *context;
    const float sinks[8] = {0};
    fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "sm80_prefill"), FC_OK);
    fc_attention causal = mission();
    causal.causal = 1;
    fc_attention windowed = causal, with_sinks = causal, wide = causal, widest = causal;
    windowed.has_window = 1;
    windowed.window_left = 100;
    windowed.window_right = -1;
    expect_variant(context, &windowed, &b, "sm80_prefill_d64_f16");
    with_sinks.has_sinks = 1;
    b.sinks = sinks;
    expect_variant(context, &with_sinks, &b, "sm80_prefill_d64_f16");
    b.sinks = NULL;
    wide.head_dim = wide.value_dim = 128;
    expect_variant(context, &wide, &b, "sm80_prefill_d128_causal_f16");
    widest.head_dim = widest.value_dim = 256;
    expect_variant(context, &widest, &b, "sm80_prefill_d256_f16");
    fc_context_destroy(context);
}

int main(void)
{
    if (!open_fake())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_blocks_stay_within_what_the_gpu_holds_at_once),
        TEST(test_long_and_short_blocks_of_several_sequences_stand_together),
        TEST(test_every_split_of_the_keys_has_its_blocks),
        TEST(test_few_keys_take_one_round),
        TEST(test_rows_of_a_block_suit_the_number_of_multiprocessors),
        TEST(test_whole_tiles_that_all_rows_see_have_a_variant),
        TEST(test_causal_rows_have_a_variant_of_prefill),
    };
    return cmocka_run_group_tests_name("cuda_layout", tests, NULL, NULL);
}
