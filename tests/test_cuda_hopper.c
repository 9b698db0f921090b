/* test_cuda_hopper.c: what the sm_90 kernels take, and which variant of theirs a problem gets,
 * against the fake driver. No GPU is needed. */
#include "cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_hopper_kernels_want_hopper(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    assert_int_equal(open_gpu(&context, "sm90_prefill"), FC_OK);
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("compute capability 8.9; it needs 9.0");
    fc_context_destroy(context);
}

static void test_hopper_kernels_count_their_blocks(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    fc_attention p = mission();
    p.batch = 70000;
    open_hopper(&context, "sm90_latency");
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("batch = 70000; a grid has room for 65535");
    fc_context_destroy(context);
    p.batch = (1 << 30) / 8 / 4;
    open_hopper(&context, "sm90_prefill");
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("it counts up to 2^30 tiles of rows");
    fc_context_destroy(context);
}

static void test_a_tensor_map_that_fails_is_reported(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    open_hopper(&context, "sm90_prefill");
    fake->tensor_map_result = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_ERROR_DRIVER);
    assert_says("making a tensor map: CUDA_ERROR");
    assert_int_equal(fake->launches, 0);
    fc_context_destroy(context);
}

static void test_dependent_launch_is_asked_for(void **state)
{
    (void)state;
    static const char *const kernels[] = {"sm90_latency", "sm90_prefill"};
    const fc_buffers b = somewhere();
    for (size_t i = 0; i < 2; i++) {
        fc_context *context;
        fc_attention p = mission();
        open_hopper(&context, kernels[i]);
        p.dependent_launch = 1;
        assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
        assert_int_equal(fake->last_launch.numAttrs, 1);
        assert_int_equal(fake->last_attributes[0].id,
                         CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        fc_context_destroy(context);
    }
}

static void assert_refuses(const char *kernel, const fc_attention *p, const char *sentence)
{
    fc_context *context;
    fc_plan *plan;
    open_hopper(&context, kernel);
    assert_int_equal(fc_plan_create(context, p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says(sentence);
    fc_context_destroy(context);
}

static void assert_runs(const char *variant, const fc_attention *p, fc_buffers b)
{
    assert_kernel_runs("sm90_prefill", variant, p, b);
}

static void test_hopper_has_a_variant_for_every_feature(void **state)
{
    (void)state;
    const fc_attention plain = mission();
    fc_attention p = plain;
    fc_buffers b = somewhere();
    assert_runs("sm90_prefill_d64_once_f16", &p, b);
    p.softcap = 30;
    assert_runs("sm90_prefill_d64_full_f16", &p, b);
    p = plain;
    p.scale = -1;
    assert_runs("sm90_prefill_d64_full_f16", &p, b);
    p = plain;
    p.out_type = FC_F32;
    p.head_dim = 96;
    assert_runs("sm90_prefill_d128_full_f16", &p, b);
    p.head_dim = 136;
    assert_runs("sm90_prefill_d256_full_f16", &p, b);
    p = plain;
    p.has_alibi = 1;
    b.alibi = (const float *)b.q;
    assert_runs("sm90_prefill_d64_full_f16", &p, b);
}

static void test_hopper_has_every_feature_for_few_rows(void **state)
{
    (void)state;
    static const int32_t numbers[8];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.q_length = 256; /* 32 tiles for 58 multiprocessors */
    p.softcap = 30;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_full_f16", &p, b);
    p.kv_length = 65;
    assert_kernel_runs(NULL, "sm90_latency_d64_k128_full_f16", &p, b);
    p.q_length = 128; /* two blocks a tile */
    assert_kernel_runs(NULL, "sm90_latency_d64_k64_full_f16", &p, b);
    p.head_dim = 72;
    assert_kernel_runs(NULL, "sm90_latency_d128_k128_full_f16", &p, b);
    p = mission();
    p.scale = -1;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_full_f16", &p, b);
    p = mission();
    p.out_type = FC_F32;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_full_f16", &p, b);
    p = mission();
    p.has_kv_lengths = 1;
    b.kv_lengths = numbers;
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_f16", &p, b);
}

static void test_hopper_has_a_variant_for_every_dim(void **state)
{
    (void)state;
    static const struct {
        int64_t head_dim, value_dim, kv_length;
        const char *variant;
    } expected[] = {
        {8, 64, 1024, "sm90_prefill_d64_once_f16"},
        {72, 8, 4095, "sm90_prefill_d96_f16"},
        {96, 104, 500, "sm90_prefill_d128_once_f16"},
        {96, 104, 512, "sm90_prefill_d128_all_once_f16"},
        {192, 128, 512, "sm90_prefill_d192_128_f16"},
        {136, 136, 512, "sm90_prefill_d192_f16"},
        {128, 192, 8192, "sm90_prefill_d192_f16"},
        {200, 128, 64, "sm90_prefill_d256_f16"},
        {128, 256, 1023, "sm90_prefill_d256_f16"},
        {200, 128, 128, "sm90_prefill_d256_all_f16"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        fc_attention p = mission();
        p.head_dim = expected[i].head_dim;
        p.value_dim = expected[i].value_dim;
        p.kv_length = expected[i].kv_length;
        assert_runs(expected[i].variant, &p, somewhere());
    }
}

/* On 58 multiprocessors 32 sequences of 8 heads fill 9 rounds of tall tiles well, 8 not 3. */
static void test_hopper_takes_larger_tiles_where_they_fit(void **state)
{
    (void)state;
    fc_attention p = mission();
    p.batch = 32;
    assert_runs("sm90_prefill_d64_tall_all_f16", &p, somewhere());
    p.causal = 1;
    assert_runs("sm90_prefill_d64_tall_limits_f16", &p, somewhere());
    p.batch = 8;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.causal = 0;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.batch_invariant = 1;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.kv_length = 1024;
    assert_runs("sm90_prefill_d64_tall_all_f16", &p, somewhere());
    p.causal = 1;
    assert_runs("sm90_prefill_d64_tall_limits_f16", &p, somewhere());
    p = mission();
    p.batch = 32;
    p.q_length = p.kv_length = 384;
    assert_runs("sm90_prefill_d64_wide_f16", &p, somewhere());
    p.causal = 1;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.q_length = p.kv_length = 4096;
    assert_runs("sm90_prefill_d64_tall_limits_f16", &p, somewhere());
}

/* 58 multiprocessors: 56 tiles leave none of them a second one, 64 do. */
static void test_hopper_looks_for_no_next_tile_in_one_round(void **state)
{
    (void)state;
    fc_attention p = mission();
    p.q_length = 896;
    assert_runs("sm90_prefill_d64_once_f16", &p, somewhere());
    p.batch_invariant = 1;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.batch_invariant = 0;
    p.q_length = 1792; /* 56 tiles of 256 rows */
    assert_runs("sm90_prefill_d64_tall_all_once_f16", &p, somewhere());
    p.q_length = 3584;
    assert_runs("sm90_prefill_d64_tall_all_f16", &p, somewhere());
    p.head_dim = p.value_dim = 128;
    p.q_length = 896;
    assert_runs("sm90_prefill_d128_all_once_f16", &p, somewhere());
    p.causal = 1;
    assert_runs("sm90_prefill_d128_once_f16", &p, somewhere());
    p.q_length = 1024;
    assert_runs("sm90_prefill_d128_f16", &p, somewhere());
    p.causal = 0;
    assert_runs("sm90_prefill_d128_all_f16", &p, somewhere());
}

/* One round of tall tiles would wait for the last ones; smaller ones come in pairs of a long and a
 * short one. */
static void test_hopper_pairs_tiles_of_few_causal_rows(void **state)
{
    (void)state;
    fc_attention p = mission();
    p.q_length = p.kv_length = 1024;
    p.causal = 1;
    assert_runs("sm90_prefill_d64_f16", &p, somewhere());
    p.kv_length = 4096; /* about as many keys for all */
    assert_runs("sm90_prefill_d64_tall_limits_f16", &p, somewhere());
}

/* What the variants for rows that see all keys do not look for. */
static void test_hopper_looks_for_limits_where_there_are_any(void **state)
{
    (void)state;
    static const float sinks[8];
    static const int32_t lengths[32];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.batch = 32;
    p.kv_length = 500; /* half a tile */
    assert_runs("sm90_prefill_d64_tall_f16", &p, b);
    p.kv_length = 512;
    p.has_sinks = 1;
    b.sinks = sinks;
    assert_runs("sm90_prefill_d64_tall_f16", &p, b);
    p.has_sinks = 0;
    b.sinks = NULL;
    p.has_kv_lengths = 1;
    b.kv_lengths = lengths;
    assert_runs("sm90_prefill_d64_tall_f16", &p, b);
    p.has_kv_lengths = 0;
    b.kv_lengths = NULL;
    p.head_dim = p.value_dim = 128;
    p.q_length = 64; /* four heads share a tile */
    p.kv_heads = 2;
    assert_runs("sm90_prefill_d128_f16", &p, b);
}

static void test_hopper_takes_pages_of_whole_boxes(void **state)
{
    (void)state;
    static const int32_t pages[8];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.paged = 1;
    p.page_size = 128;
    p.page_count = 4;
    b.page_table = pages;
    assert_runs("sm90_prefill_d64_full_f16", &p, b);
    assert_kernel_runs("sm90_latency", "sm90_latency_d64_k128_full_f16", &p, b);
    p.page_size = 96;
    assert_refuses("sm90_prefill", &p, "page_size = 96; it takes multiples of 64");
    assert_refuses("sm90_latency", &p, "page_size = 96; it takes multiples of 64");
}

/* A longer neighbour may not change the variant, and with it the bits of a row. */
static void test_hopper_packs_sequences_without_looking_at_the_longest(void **state)
{
    (void)state;
    static const int32_t rows[2];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.batch = 32;
    p.packed_kv = 1;
    p.packed_kv_rows = p.kv_length = 4096;
    b.cu_kv = rows;
    assert_runs("sm90_prefill_d64_tall_f16", &p, b);
    p.batch_invariant = 1;
    assert_runs("sm90_prefill_d64_f16", &p, b);
    assert_refuses("sm90_latency", &p,
                   "the longest sequence would decide about the bits of others");
}

static void test_hopper_chooses_a_kernel_without_looking_at_the_longest(void **state)
{
    (void)state;
    static const int32_t rows[2];
    fc_context *context;
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.packed_q = p.batch_invariant = 1;
    p.packed_q_rows = 512;
    b.cu_q = rows;
    open_hopper(&context, NULL);
    for (p.q_length = 1; p.q_length <= 512; p.q_length *= 8)
        assert_launches(context, &p, &b, "sm90_prefill_d64_f16");
    fc_context_destroy(context);
}

/* 16 rows of 4 heads make a tile of 64; 3 heads do not divide a box. */
static void test_hopper_packs_heads_of_few_rows(void **state)
{
    (void)state;
    static const int32_t rows[2];
    fc_attention p = mission();
    fc_buffers b = somewhere();
    p.kv_heads = 2;
    p.q_length = 16;
    assert_runs("sm90_prefill_d64_once_f16", &p, b);
    assert_int_equal(fake->last_launch.gridDimX, 2);
    p.q_length = 128;
    assert_runs("sm90_prefill_d64_once_f16", &p, b);
    assert_int_equal(fake->last_launch.gridDimX, 8);
    p.q_length = p.packed_q_rows = 16;
    p.packed_q = p.batch_invariant = 1;
    b.cu_q = rows;
    assert_runs("sm90_prefill_d64_f16", &p, b);
    assert_int_equal(fake->last_launch.gridDimX, 8);
    p = mission();
    p.q_heads = 6;
    p.kv_heads = 2;
    p.q_length = 16;
    assert_runs("sm90_prefill_d64_once_f16", &p, somewhere());
    assert_int_equal(fake->last_launch.gridDimX, 6);
}

static void test_hopper_latency_says_what_it_lacks(void **state)
{
    (void)state;
    fc_attention p = mission();
    p.head_dim = 136;
    assert_refuses("sm90_latency", &p, "head_dim = 136, value_dim = 136; it has up to 128");
}

/* What a tensor map cannot reach goes to the kernel of sm_80, one more module. */
static void test_hopper_leaves_odd_addresses_to_sm80(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    fc_buffers b = somewhere();
    open_hopper(&context, "sm90_prefill");
    fake->tensor_map_result = CUDA_SUCCESS;
    b.q = (const char *)b.q + 2;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimY, 8);
    assert_int_equal(fake->last_launch.blockDimX, 128);
    fc_context_destroy(context);
}

int main(void)
{
    if (!open_fake())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_hopper_kernels_want_hopper),
        TEST(test_hopper_kernels_count_their_blocks),
        TEST(test_a_tensor_map_that_fails_is_reported),
        TEST(test_dependent_launch_is_asked_for),
        TEST(test_hopper_has_a_variant_for_every_feature),
        TEST(test_hopper_has_every_feature_for_few_rows),
        TEST(test_hopper_has_a_variant_for_every_dim),
        TEST(test_hopper_takes_larger_tiles_where_they_fit),
        TEST(test_hopper_looks_for_no_next_tile_in_one_round),
        TEST(test_hopper_pairs_tiles_of_few_causal_rows),
        TEST(test_hopper_looks_for_limits_where_there_are_any),
        TEST(test_hopper_takes_pages_of_whole_boxes),
        TEST(test_hopper_packs_sequences_without_looking_at_the_longest),
        TEST(test_hopper_chooses_a_kernel_without_looking_at_the_longest),
        TEST(test_hopper_packs_heads_of_few_rows),
        TEST(test_hopper_latency_says_what_it_lacks),
        TEST(test_hopper_leaves_odd_addresses_to_sm80),
    };
    return cmocka_run_group_tests_name("cuda_hopper", tests, NULL, NULL);
}
