/* test_floor_kernels.c: the kernels of src/cuda/floors on the emulator: they do exactly the work
 * that their speed is computed from, and what they leave shows that they did it. */
#include "cuda/device.h"
#include "cuda/floors/floor_args.h"
#include "cuda/floors/floors.h"
#include "cuda/services.h"
#include "emu/emu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BLOCKS = 2, ROUNDS = 3, MOST_THREADS = 512 };

static fc_context *context;

static int open_emulator(void **state)
{
    (void)state;
    fc_context_options options = fc_context_options_init();
    options.device_type = FC_CUDA;
    return fc_context_create(&options, &context) == FC_OK ? 0 : -1;
}

static int close_emulator(void **state)
{
    (void)state;
    fc_context_destroy(context);
    return 0;
}

/* Launches BLOCKS blocks and returns how many threads left a result. */
static int run(const char *variant, floor_args args, uint32_t results[], emu_totals *totals)
{
    fc_cuda_device *device = context->cuda;
    const emu_control *emulator = fc_cuda_emulator();
    const fc_cuda_function *function;
    assert_non_null(emulator);
    assert_int_equal(
        fc_cuda_find_function(device, fc_cuda_find_variant(variant), variant, &function), FC_OK);
    const int threads = BLOCKS * function->shape.threads;
    const size_t bytes = (size_t)threads * sizeof *results;
    assert_true(threads <= BLOCKS * MOST_THREADS);
    assert_int_equal(fc_cuda_allocate(device, bytes, (void **)&args.results), FC_OK);
    const fc_cuda_launch launch = {.function = function, .grid = {BLOCKS, 1, 1}, .args = &args};
    emulator->count(true);
    emulator->reset();
    if (fc_cuda_run(device, &launch, NULL) != FC_OK)
        fail_msg("%s: %s", variant, emulator->report());
    emulator->totals(totals);
    emulator->count(false);
    assert_int_equal(fc_cuda_download(device, results, args.results, bytes), FC_OK);
    fc_cuda_free(device, args.results);
    return threads;
}

/* No operand is 0, so that sums of nothing would show. */
static void expect_sums(const uint32_t results[], int count)
{
    for (int i = 0; i < count; i++) {
        float sum;
        memcpy(&sum, &results[i], sizeof sum);
        if (!isfinite(sum) || sum == 0)
            fail_msg("thread %d has the sum %g", i, (double)sum);
    }
}

static void test_mma_does_the_operations_it_is_timed_for(void **state)
{
    (void)state;
    uint32_t results[BLOCKS * MOST_THREADS];
    emu_totals totals;
    const int threads = run("floor_products_mma", (floor_args){.rounds = ROUNDS}, results, &totals);
    expect_sums(results, threads);
    assert_true((double)totals.mma * 2 * 16 * 8 * 16 == BLOCKS * ROUNDS * FLOOR_MMA_OPERATIONS);
}

static void test_wgmma_does_the_operations_it_is_timed_for(void **state)
{
    (void)state;
    uint32_t results[BLOCKS * MOST_THREADS];
    emu_totals totals;
    const int threads =
        run("floor_products_wgmma", (floor_args){.rounds = ROUNDS}, results, &totals);
    expect_sums(results, threads);
    assert_true((double)totals.wgmma_products * 2 == BLOCKS * ROUNDS * FLOOR_WGMMA_OPERATIONS);
}

/* A number of chunks that neither the threads nor their loads divide. */
static void test_every_chunk_is_read_once(void **state)
{
    (void)state;
    enum { CHUNKS = 12345, WORDS = 4 * CHUNKS, SECTOR_BYTES = 32 };
    uint32_t results[BLOCKS * MOST_THREADS], expected = 0, total = 0;
    uint32_t *words = malloc(WORDS * sizeof *words);
    for (uint32_t i = 0; i < WORDS; i++)
        expected += words[i] = i * 2654435761u;
    void *memory;
    assert_int_equal(fc_cuda_allocate(context->cuda, WORDS * sizeof *words, &memory), FC_OK);
    assert_int_equal(fc_cuda_upload(context->cuda, memory, words, WORDS * sizeof *words), FC_OK);
    emu_totals totals;
    const int threads =
        run("floor_reading", (floor_args){.memory = memory, .chunks = CHUNKS}, results, &totals);
    for (int i = 0; i < threads; i++)
        total += results[i];
    assert_int_equal(total, expected);
    assert_int_equal(totals.global_read_sectors, (CHUNKS * 16 + SECTOR_BYTES - 1) / SECTOR_BYTES);
    fc_cuda_free(context->cuda, memory);
    free(words);
}

/* The emulator has no clock: bench then says what the GPU's clocks allow. */
static void test_nothing_is_measured_without_a_clock(void **state)
{
    (void)state;
    fc_cuda_floors floors;
    assert_int_not_equal(fc_cuda_measure_floors(context->cuda, 0.001, &floors), FC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma_does_the_operations_it_is_timed_for),
        cmocka_unit_test(test_wgmma_does_the_operations_it_is_timed_for),
        cmocka_unit_test(test_every_chunk_is_read_once),
        cmocka_unit_test(test_nothing_is_measured_without_a_clock),
    };
    return cmocka_run_group_tests(tests, open_emulator, close_emulator);
}
