/* test_floors.c: what a GPU can do at most, against a driver by whose clock every launch takes one
 * millisecond: the speeds are then known. No GPU is needed. */
#include "cuda/device.h"
#include "cuda/floors/floor_args.h"
#include "cuda/floors/floors.h"
#include "cuda/services.h"
#include "cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const double launch_seconds = 1e-3; /* by the fake's clock */

static fc_context *open_any_gpu(void)
{
    fc_context *context;
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    return context;
}

/* Blocks of a launch: the fake holds two a multiprocessor. */
static double blocks(const fc_context *context)
{
    return 2.0 * context->cuda->multiprocessors;
}

static void expect_near(double value, double expected)
{
    if (!(value > 0.999 * expected && value < 1.001 * expected))
        fail_msg("%g, expected %g", value, expected);
}

static void test_products_are_counted_by_mma(void **state)
{
    (void)state;
    fc_cuda_floors floors;
    fc_context *context = open_any_gpu();
    assert_int_equal(fc_cuda_measure_floors(context->cuda, 0.01, &floors), FC_OK);
    expect_near(floors.operations_a_second,
                4096 * blocks(context) * FLOOR_MMA_OPERATIONS / launch_seconds);
    fc_context_destroy(context);
}

static void test_products_are_counted_by_wgmma_on_hopper(void **state)
{
    (void)state;
    fc_cuda_floors floors;
    fake->compute_major = 9;
    fake->compute_minor = 0;
    fc_context *context = open_any_gpu();
    assert_int_equal(fc_cuda_measure_floors(context->cuda, 0.01, &floors), FC_OK);
    expect_near(floors.operations_a_second,
                512 * blocks(context) * FLOOR_WGMMA_OPERATIONS / launch_seconds);
    fc_context_destroy(context);
}

static void test_more_is_read_than_a_cache_holds(void **state)
{
    (void)state;
    fc_cuda_floors floors;
    fc_cuda_limits limits;
    fc_context *context = open_any_gpu();
    assert_int_equal(fc_cuda_read_limits(context->cuda, &limits), FC_OK);
    assert_int_equal(fc_cuda_measure_floors(context->cuda, 0.01, &floors), FC_OK);
    expect_near(floors.bytes_a_second, 16.0 * limits.l2_bytes / launch_seconds);
    fc_context_destroy(context);
}

static void test_without_memory_nothing_is_measured(void **state)
{
    (void)state;
    fc_cuda_floors floors;
    fc_context *context = open_any_gpu();
    fake->allocate_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(fc_cuda_measure_floors(context->cuda, 0.01, &floors), FC_ERROR_MEMORY);
    fc_context_destroy(context);
}

int main(void)
{
    if (!open_fake())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_products_are_counted_by_mma),
        TEST(test_products_are_counted_by_wgmma_on_hopper),
        TEST(test_more_is_read_than_a_cache_holds),
        TEST(test_without_memory_nothing_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
