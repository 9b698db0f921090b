/* test_cuda.c: the CUDA backend against a driver that is told how to fail: every failure becomes a
 * status and a sentence, and nothing stays held. No GPU is needed. */
#include "cuda/device.h"
#include "cuda/ladder/ladder.h"
#include "cuda/services.h"
#include "cuda/tuned.h"
#include "cuda_fixture.h"
#include "jit/nvrtc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The driver is opened once a process, so that what happens at its start is tried in children. */
static int in_a_child(void (*test)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        test();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHILD_REQUIRES(condition)                                                        \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s failed; last error: %s\n", #condition, fc_last_error()); \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

static void child_without_a_driver(void)
{
    fc_context *context;
    setenv("FLASHCORE_CUDA_DRIVER", "/no/such/libcuda.so.1", 1);
    CHILD_REQUIRES(fc_device_count(FC_CUDA) == 0);
    CHILD_REQUIRES(open_gpu(&context, NULL) == FC_ERROR_NO_DEVICE);
    CHILD_REQUIRES(strstr(fc_last_error(), "the CUDA driver cannot be opened: /no/such/"));
}

static void child_with_another_library(void)
{
    fc_context *context;
    setenv("FLASHCORE_CUDA_DRIVER", "libm.so.6", 1);
    CHILD_REQUIRES(open_gpu(&context, NULL) == FC_ERROR_NO_DEVICE);
    CHILD_REQUIRES(strstr(fc_last_error(), "is too old: it lacks cuInit"));
}

static void child_with_a_driver_that_does_not_start(void)
{
    fc_context *context;
    fake->init_result = CUDA_ERROR_UNKNOWN;
    CHILD_REQUIRES(open_gpu(&context, NULL) == FC_ERROR_NO_DEVICE);
    CHILD_REQUIRES(strstr(fc_last_error(), "the CUDA driver does not start: CUDA_ERROR_UNKNOWN"));
}

static void child_without_a_device(void)
{
    fc_context *context;
    fake->device_count = 0;
    CHILD_REQUIRES(open_gpu(&context, NULL) == FC_ERROR_NO_DEVICE);
    CHILD_REQUIRES(strstr(fc_last_error(), "CUDA device 0 is not here; there are 0"));
}

static void test_a_machine_without_cuda_says_why(void **state)
{
    (void)state;
    assert_int_equal(in_a_child(child_without_a_driver), 0);
    assert_int_equal(in_a_child(child_with_another_library), 0);
    assert_int_equal(in_a_child(child_with_a_driver_that_does_not_start), 0);
    assert_int_equal(in_a_child(child_without_a_device), 0);
}

static void test_a_context_that_cannot_be_had_is_refused(void **state)
{
    (void)state;
    fc_context *context;
    fake->retain_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(open_gpu(&context, NULL), FC_ERROR_MEMORY);
    assert_says("taking the primary context: CUDA_ERROR_OUT_OF_MEMORY (2): the fake driver");
    assert_null(context);
}

static void test_a_kernel_of_another_architecture_is_refused(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    fake->load_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_DRIVER);
    assert_says("loading the binary of ladder_fused_d64: CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
    fake->load_result = CUDA_SUCCESS; /* and it works once the driver does */
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_OK);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
}

static void test_an_older_gpu_is_refused(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    fake->compute_major = 7;
    fake->compute_minor = 5;
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("kernel 'ladder_fused' is forced, but refuses: compute capability 7.5");
    fc_context_destroy(context);
}

static void test_a_kernel_too_large_for_the_gpu_is_refused(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    fake->shared_bytes_a_block = 1024;
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("bytes of shared memory a block, Fake GPU 0 has 1024");
    fc_context_destroy(context);
}

static void test_a_failing_launch_is_reported(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    fake->launch_result = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_ERROR_DRIVER);
    assert_says("launching a kernel: CUDA_ERROR_LAUNCH_FAILED (719): the fake driver");
    fc_context_destroy(context);
}

static void test_a_run_launches_into_the_callers_stream_and_does_nothing_else(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fc_attend(context, &p, &b, (fc_stream)&p), FC_OK);
    assert_int_equal(fake->launches, 3);
    assert_int_equal(fake->modules_held, 1);
    assert_int_equal(fake->allocations_held, 0);
    assert_int_equal(fake->synchronisations, 0);
    assert_ptr_equal(fake->last_launch.hStream, &p);
    assert_int_equal(fake->last_launch.gridDimY, 8);
    assert_int_equal(fake->last_launch.gridDimZ, 1);
    assert_int_equal(fake->last_launch.numAttrs, 0);
    fc_context_destroy(context);
}

static void test_strides_of_lse_that_no_int_holds_are_refused(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    fc_attention p = mission();
    p.lse_strides = (fc_strides){.batch = (int64_t)1 << 31, .head = 512, .row = 1};
    assert_int_equal(open_gpu(&context, "sm80_latency"), FC_OK);
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_ERROR_UNSUPPORTED);
    assert_says("a stride of lse is more than 2147483647 elements");
    fc_context_destroy(context);
}

static void test_the_callers_context_is_used_and_left_current(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    fake->current = (CUcontext)&p;
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    assert_int_equal(fake->contexts_held, 0);
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_ptr_equal(fake->current, &p);
    fc_context_destroy(context);
}

static fc_context *open_second_gpu(void)
{
    fc_context_options options = fc_context_options_init();
    fc_context *context;
    options.device_type = FC_CUDA;
    options.device_index = 1;
    options.kernel = "ladder_fused";
    assert_int_equal(fc_context_create(&options, &context), FC_OK);
    return context;
}

static CUcontext launched_in(fc_context *context)
{
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_OK);
    assert_null(fake->current);
    return fake->last_context;
}

static void test_two_gpus_in_one_process_stay_apart(void **state)
{
    (void)state;
    fc_context *first;
    fake->device_count = 2;
    assert_int_equal(open_gpu(&first, "ladder_fused"), FC_OK);
    fc_context *second = open_second_gpu();
    CUcontext of_first = launched_in(first), of_second = launched_in(second);
    assert_ptr_not_equal(of_first, of_second);
    assert_ptr_equal(launched_in(first), of_first);
    assert_int_equal(fake->modules_held, 2);
    fc_context_destroy(first);
    assert_ptr_equal(launched_in(second), of_second);
    fc_context_destroy(second);
}

static void test_a_workspace_is_never_made_behind_the_callers_back(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "ladder_unfused"), FC_OK);
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_ERROR_WORKSPACE);
    assert_says("the workspace holds 0 bytes, the kernel needs 8388608");
    assert_int_equal(fake->launches, 0);
    fc_context_destroy(context);
}

static void test_a_pointer_the_kernel_cannot_load_from_is_refused(void **state)
{
    (void)state;
    fc_context *context;
    const fc_attention p = mission();
    fc_buffers b = somewhere();
    b.k = (const char *)b.k + 2;
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    assert_int_equal(fc_attend(context, &p, &b, NULL), FC_ERROR_INVALID);
    assert_says("is not aligned to the 16 bytes");
    fc_context_destroy(context);
}

static void test_backward_on_a_gpu_says_that_there_is_none(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    const fc_buffers b = somewhere();
    const fc_gradients g = fc_gradients_init();
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_OK);
    assert_null(fc_plan_kernel(plan, FC_BACKWARD));
    assert_int_equal(fc_plan_backward(plan, &b, &g, NULL), FC_ERROR_UNSUPPORTED);
    assert_says("no backward kernel accepts this problem");
    fc_plan_destroy(plan);
    fc_context_destroy(context);
}

static void test_the_launch_helper_passes_clusters_and_dependent_launch_on(void **state)
{
    (void)state;
    fc_context *context;
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    const fc_cuda_function *function;
    assert_int_equal(fc_cuda_find_function(context->cuda, fc_cuda_find_variant("ladder_fused_d64"),
                                           "ladder_fused_d64", &function),
                     FC_OK);
    const fc_cuda_launch launch = {
        .function = function, .grid = {4, 1, 1}, .cluster = 2, .dependent = true, .args = &launch};
    assert_int_equal(fc_cuda_run(context->cuda, &launch, NULL), FC_OK);
    assert_int_equal(fake->last_launch.numAttrs, 2);
    assert_int_equal(fake->last_attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    assert_int_equal(fake->last_attributes[0].value.clusterDim.x, 2);
    assert_int_equal(fake->last_attributes[1].id,
                     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    fc_context_destroy(context);
}

static fc_status count_call(void *user, fc_stream stream)
{
    (void)stream;
    return ++*(int *)user == 7 ? fc_fail(FC_ERROR_DRIVER, "the seventh call fails") : FC_OK;
}

/* Rows of which one is for this GPU, variant and kind of problem. */
static const char tuned_rows[] =
    "# GPU | variant | problem | macros | remarks\n"
    "Other GPU | sm80_prefill_d64_all_f16 | bh8 q512 kv512 | WARPS=8 | no\n"
    "Fake GPU 0 | sm80_prefill_d128_f16 | bh8 q512 kv512 | WARPS=8 |\n"
    "Fake GPU 0 | sm80_prefill_d64_all_f16 | bh8 q512 kv512 | WARPS=2 | x\n";

static void test_a_tuned_row_fits_its_gpu_its_variant_and_its_problem(void **state)
{
    (void)state;
    char macros[FC_MACROS_BYTES];
    fc_tuned_find(tuned_rows, "Fake GPU 0", "sm80_prefill_d64_all_f16", "bh8 q512 kv512", macros);
    assert_string_equal(macros, "WARPS=2");
    fc_tuned_find(tuned_rows, "Fake GPU 0", "sm80_prefill_d64_all_f16", "bh8 q512 kv51", macros);
    assert_string_equal(macros, "");
    fc_tuned_find(tuned_rows, "Fake GPU", "sm80_prefill_d64_all_f16", "bh8 q512 kv512", macros);
    assert_string_equal(macros, "");
    fc_tuned_find("Fake GPU 0 | v | b | A=1", "Fake GPU 0", "v", "b", macros); /* cut off */
    assert_string_equal(macros, "A=1");
    fc_tuned_find(NULL, "Fake GPU 0", "v", "b", macros);
    assert_string_equal(macros, "");
}

/* Blocks along x: query tiles. */
static unsigned prefill_tiles(const fc_attention *p)
{
    fc_context *context;
    fc_plan *plan;
    const fc_buffers b = somewhere();
    assert_int_equal(open_gpu(&context, "sm80_prefill"), FC_OK);
    if (fc_plan_create(context, p, &plan) != FC_OK)
        fail_msg("%s", fc_last_error());
    assert_int_equal(fc_plan_forward(plan, &b, NULL), FC_OK);
    fc_plan_destroy(plan);
    fc_context_destroy(context);
    return fake->last_launch.gridDimX;
}

static void test_a_tuned_kernel_runs_where_the_environment_names_its_row(void **state)
{
    (void)state;
    char path[] = "/tmp/test_cuda_tuned.XXXXXX";
    fc_attention p = mission();
    const jit_nvrtc *compiler;
    if (jit_nvrtc_open(&compiler) != FC_OK)
        skip(); /* this toolkit has no run-time compiler */
    setenv("FLASHCORE_CACHE", "/dev/null/folder", 1);
    fc_context *context;
    const int file = mkstemp(path);
    assert_int_equal(write(file, tuned_rows, strlen(tuned_rows)), (int)strlen(tuned_rows));
    close(file);
    assert_int_equal(prefill_tiles(&p), 4); /* 128 rows: 4 warps of two groups */
    setenv("FLASHCORE_TUNED", path, 1);
    assert_int_equal(prefill_tiles(&p), 8);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(prefill_tiles(&p), 4);
    p.q_length = 513; /* another kind of problem */
    assert_int_equal(prefill_tiles(&p), 5);
    unlink(path);
    assert_int_equal(open_gpu(&context, NULL), FC_ERROR_INVALID);
    assert_says("FLASHCORE_TUNED names /tmp/test_cuda_tuned.");
    unsetenv("FLASHCORE_TUNED");
    unsetenv("FLASHCORE_CACHE");
}

/* A check of a part of the problem has to run what the whole would: the binary, not the row. */
static void test_binaries_compiled_at_run_time_can_be_handed_on(void **state)
{
    (void)state;
    fc_context *from, *to;
    fc_plan *plan;
    fc_attention p = mission();
    const fc_buffers b = somewhere();
    const jit_nvrtc *compiler;
    if (jit_nvrtc_open(&compiler) != FC_OK)
        skip();
    setenv("FLASHCORE_CACHE", "/dev/null/folder", 1);
    assert_int_equal(open_gpu(&from, "sm80_prefill"), FC_OK);
    assert_int_equal(open_gpu(&to, "sm80_prefill"), FC_OK);
    const fc_cuda_variant *variant = fc_cuda_find_variant("sm80_prefill_d64_all_f16");
    assert_int_equal(fc_rebuild_in(from, variant, "WARPS=2"), FC_OK);
    assert_int_equal(fc_cuda_copy_kernels(from->cuda, to->cuda), FC_OK);
    p.q_length = 256;
    assert_int_equal(fc_plan_create(to, &p, &plan), FC_OK);
    assert_int_equal(fc_plan_forward(plan, &b, NULL), FC_OK);
    assert_int_equal(fake->last_launch.gridDimX, 4);
    fc_plan_destroy(plan);
    fc_context_destroy(from);
    fc_context_destroy(to);
    unsetenv("FLASHCORE_CACHE");
}

static void test_a_source_stands_in_before_the_first_plan_alone(void **state)
{
    (void)state;
    fc_context *context;
    fc_plan *plan;
    const fc_attention p = mission();
    assert_int_equal(open_gpu(&context, "ladder_fused"), FC_OK);
    assert_int_equal(fc_cuda_use_source(context->cuda, "ladder/nobody.cu", ""), FC_ERROR_INVALID);
    assert_says("there is no kernel source ladder/nobody.cu");
    assert_int_equal(fc_plan_create(context, &p, &plan), FC_OK);
    fc_plan_destroy(plan);
    assert_int_equal(fc_cuda_use_source(context->cuda, "ladder/fused.cu", ""), FC_ERROR_INVALID);
    assert_says("before the first plan");
    fc_context_destroy(context);
}

static void test_timing_releases_what_it_took(void **state)
{
    (void)state;
    fc_context *context;
    double seconds[3];
    int calls = 100;
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    assert_int_equal(fc_cuda_time_graph(context->cuda, count_call, &calls, seconds, 3), FC_OK);
    assert_int_equal(calls, 100 + FC_CUDA_CALLS_A_SAMPLE);
    assert_true(seconds[2] == 0.001 / FC_CUDA_CALLS_A_SAMPLE);
    calls = 100;
    assert_int_equal(fc_cuda_time_graph_of(context->cuda, 7, count_call, &calls, seconds, 3),
                     FC_OK);
    assert_int_equal(calls, 100 + 7);
    assert_true(seconds[2] == 0.001 / 7);
    calls = 0;
    assert_int_equal(fc_cuda_time_plain(context->cuda, count_call, &calls, seconds, 3),
                     FC_ERROR_DRIVER);
    calls = 0;
    assert_int_equal(fc_cuda_time_graph(context->cuda, count_call, &calls, seconds, 3),
                     FC_ERROR_DRIVER);
    fake->allocate_result = CUDA_ERROR_OUT_OF_MEMORY;
    void *memory;
    assert_int_equal(fc_cuda_allocate(context->cuda, 1, &memory), FC_ERROR_MEMORY);
    assert_null(memory);
    fc_context_destroy(context);
}

static fc_status note_stream(void *user, fc_stream stream)
{
    *(fc_stream *)user = stream;
    return FC_OK;
}

static void test_timed_work_is_in_the_default_stream(void **state)
{
    (void)state;
    fc_context *context;
    double seconds;
    fc_stream stream = (fc_stream)&seconds;
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    assert_int_equal(fc_cuda_time_plain(context->cuda, note_stream, &stream, &seconds, 1), FC_OK);
    assert_null(stream);
    assert_int_equal(fc_cuda_time_graph(context->cuda, note_stream, &stream, &seconds, 1), FC_OK);
    assert_non_null(stream); /* captured, which the default stream cannot be */
    assert_int_equal(fake->outside_default_stream, 0);
    fc_context_destroy(context);
}

static int plain_calls_of_one_sample(fc_context *context, float milliseconds)
{
    double seconds;
    int calls = 100;
    fake->milliseconds = milliseconds;
    assert_int_equal(fc_cuda_time_plain(context->cuda, count_call, &calls, &seconds, 1), FC_OK);
    return calls - 100;
}

static void test_long_samples_need_fewer_to_warm_up(void **state)
{
    (void)state;
    fc_context *context;
    assert_int_equal(open_gpu(&context, NULL), FC_OK);
    assert_int_equal(plain_calls_of_one_sample(context, 1), (5 + 1) * FC_CUDA_CALLS_A_SAMPLE);
    assert_int_equal(plain_calls_of_one_sample(context, 26), (2 + 1) * FC_CUDA_CALLS_A_SAMPLE);
    assert_int_equal(plain_calls_of_one_sample(context, 90), (1 + 1) * FC_CUDA_CALLS_A_SAMPLE);
    fc_context_destroy(context);
}

int main(void)
{
    if (!open_fake())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_a_machine_without_cuda_says_why),
        TEST(test_a_context_that_cannot_be_had_is_refused),
        TEST(test_a_kernel_of_another_architecture_is_refused),
        TEST(test_an_older_gpu_is_refused),
        TEST(test_a_kernel_too_large_for_the_gpu_is_refused),
        TEST(test_a_failing_launch_is_reported),
        TEST(test_a_run_launches_into_the_callers_stream_and_does_nothing_else),
        TEST(test_strides_of_lse_that_no_int_holds_are_refused),
        TEST(test_the_callers_context_is_used_and_left_current),
        TEST(test_two_gpus_in_one_process_stay_apart),
        TEST(test_a_workspace_is_never_made_behind_the_callers_back),
        TEST(test_a_pointer_the_kernel_cannot_load_from_is_refused),
        TEST(test_backward_on_a_gpu_says_that_there_is_none),
        TEST(test_the_launch_helper_passes_clusters_and_dependent_launch_on),
        TEST(test_timed_work_is_in_the_default_stream),
        TEST(test_timing_releases_what_it_took),
        TEST(test_long_samples_need_fewer_to_warm_up),
        TEST(test_binaries_compiled_at_run_time_can_be_handed_on),
        TEST(test_a_source_stands_in_before_the_first_plan_alone),
        TEST(test_a_tuned_row_fits_its_gpu_its_variant_and_its_problem),
        TEST(test_a_tuned_kernel_runs_where_the_environment_names_its_row),
    };
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
