/* test_emu.c: small kernels on the emulator: the right ones compute what they should, and each that
 * is broken on purpose is reported for its reason.
 *
 * With the path of a cubin of emu_kernels/hopper.cu as its argument it runs the right kernels on
 * the GPU instead: what the emulator takes for right then is what the hardware does. */
#include "core/convert.h"
#include "cuda/driver.h"
#include "cuda/kernel_shape.h"
#include "cuda/services.h"
#include "emu/emu.h"
#include "emu_kernels.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *cubin_path; /* NULL: the emulator */

/* 1. Memory and launches. */

enum { INPUT_BYTES = 4 * TILE_BYTES, OUTPUT_FLOATS = ROWS * COLUMNS };
enum { S8, E4M3, E5M2, TYPES8 }; /* of 8 bits */

typedef struct device {
    CUmodule module;
    CUdeviceptr input, input8, output;
    uint16_t tiles[4][ROWS * COLUMNS];          /* the input: f16 from -2 to 2 in steps of 1/8 */
    uint8_t tiles8[TYPES8][2][ROWS * COLUMNS8]; /* that of 8 bits: whole numbers from -8 to 8 */
    float result[OUTPUT_FLOATS];
    CUtensorMap left, right, out_map;
} device;

static void expect_success(CUresult result, const char *what)
{
    const char *text = "";
    if (result != CUDA_SUCCESS)
        fc_cuda()->error_text(result, &text);
    if (result != CUDA_SUCCESS)
        fail_msg("%s: %d %s", what, (int)result, text);
}

static void *read_cubin(void)
{
    static char fake[64]; /* the emulator looks at no image */
    if (!cubin_path)
        return fake;
    FILE *file = fopen(cubin_path, "rb");
    assert_non_null(file);
    enum { MOST_BYTES = 1 << 20 };
    void *image = calloc(1, MOST_BYTES);
    assert_non_null(image);
    assert_true(fread(image, 1, MOST_BYTES, file) > 0);
    fclose(file);
    return image;
}

/* ROWS × COLUMNS of f16 as a tensor of four dimensions, swizzled by 128 bytes. */
static CUtensorMap make_map(void *memory, unsigned rows)
{
    static __typeof__(cuTensorMapEncodeTiled) *encode;
    if (!encode) {
        const char *given = getenv("FLASHCORE_CUDA_DRIVER");
        void *library = dlopen(given ? given : "libcuda.so.1", RTLD_NOW);
        assert_non_null(library);
        *(void **)&encode = dlsym(library, "cuTensorMapEncodeTiled");
        assert_non_null(encode);
    }
    const cuuint64_t sizes[4] = {COLUMNS, rows, 1, 1};
    const cuuint64_t strides[3] = {TILE_BYTES / ROWS, TILE_BYTES, TILE_BYTES};
    const cuuint32_t box[4] = {COLUMNS, ROWS, 1, 1}, steps[4] = {1, 1, 1, 1};
    CUtensorMap map;
    expect_success(encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, memory, sizes, strides, box,
                          steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                   "making a tensor map");
    return map;
}

static int number8(int tile, int row, int column)
{
    return (tile * 31 + row * COLUMNS8 + column) * 7919 % 17 - 8;
}

static void fill_tiles8(device *d)
{
    for (int i = 0; i < 2 * ROWS * COLUMNS8; i++) {
        const int tile = i / (ROWS * COLUMNS8), at = i % (ROWS * COLUMNS8);
        const int number = number8(tile, at / COLUMNS8, at % COLUMNS8);
        d->tiles8[S8][tile][at] = (uint8_t)(int8_t)number;
        d->tiles8[E4M3][tile][at] = fc_e4m3_from_double(number);
        d->tiles8[E5M2][tile][at] = fc_e5m2_from_double(number);
    }
}

static void open_device(device *d)
{
    const fc_cuda_driver *cuda = fc_cuda();
    CUcontext context;
    assert_non_null(cuda);
    expect_success(cuda->primary_retain(&context, 0), "taking the context");
    expect_success(cuda->context_push(context), "making it current");
    expect_success(cuda->module_load(&d->module, read_cubin()), "loading the kernels");
    expect_success(cuda->memory_allocate(&d->input, INPUT_BYTES), "input");
    expect_success(cuda->memory_allocate(&d->input8, sizeof d->tiles8), "input of 8 bits");
    expect_success(cuda->memory_allocate(&d->output, OUTPUT_FLOATS * sizeof(float)), "output");
    for (int i = 0; i < 4 * ROWS * COLUMNS; i++)
        d->tiles[i / (ROWS * COLUMNS)][i % (ROWS * COLUMNS)] =
            fc_f16_from_double((i * 7919 % 33 - 16) / 8.0);
    fill_tiles8(d);
    expect_success(cuda->copy_to_device(d->input, d->tiles, sizeof d->tiles), "upload");
    expect_success(cuda->copy_to_device(d->input8, d->tiles8, sizeof d->tiles8), "upload");
    char *input = (char *)(uintptr_t)d->input;
    d->left = make_map(input, ROWS);
    d->right = make_map(input + TILE_BYTES, ROWS);
    d->out_map = make_map((void *)(uintptr_t)d->output, ROWS);
}

static void close_device(device *d)
{
    fc_cuda()->memory_free(d->input);
    fc_cuda()->memory_free(d->input8);
    fc_cuda()->memory_free(d->output);
    CUcontext popped;
    fc_cuda()->context_pop(&popped);
}

typedef struct kernel_test {
    const char *kernel; /* "scores" */
    unsigned threads, blocks;
    unsigned shared_bytes;
    bool is_cluster;
    const char *before; /* a right kernel that is launched first, or NULL: this one starts early */
    int type8;          /* of the input, where it has 8 bits */
} kernel_test;

static const void *input_of(const device *d, const kernel_test *test)
{
    return strstr(test->kernel, "mma_")
               ? (const char *)(uintptr_t)d->input8 + (size_t)test->type8 * sizeof d->tiles8[0]
               : (const char *)(uintptr_t)d->input;
}

static CUresult start(device *d, const kernel_test *test, const char *prefix)
{
    const fc_cuda_driver *cuda = fc_cuda();
    char name[96];
    CUfunction function;
    snprintf(name, sizeof name, "%s_%s", prefix, test->kernel);
    expect_success(cuda->module_function(&function, d->module, name), name);
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
         .value.clusterDim = {test->is_cluster ? test->blocks : 1, 1, 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = test->before != NULL},
    };
    const CUlaunchConfig config = {.gridDimX = test->blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = test->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = test->shared_bytes,
                                   .attrs = attributes,
                                   .numAttrs = 2};
    kernel_args args = {.input = input_of(d, test), .output = (float *)(uintptr_t)d->output};
    memcpy(&args.left, &d->left, sizeof args.left);
    memcpy(&args.right, &d->right, sizeof args.right);
    memcpy(&args.result, &d->out_map, sizeof args.result);
    void *parameters[] = {&args};
    return cuda->launch(&config, function, parameters, NULL);
}

static CUresult launch(device *d, const kernel_test *test, const char *prefix)
{
    const kernel_test before = {.kernel = test->before,
                                .threads = test->threads,
                                .blocks = 1,
                                .shared_bytes = test->shared_bytes};
    CUresult result = test->before ? start(d, &before, "right") : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = start(d, test, prefix);
    if (result == CUDA_SUCCESS)
        result = fc_cuda()->copy_to_host(d->result, d->output, sizeof d->result);
    return result;
}

/* Shared memory is as much as the structs of the kernels need, and no more. */
#define SIZES(thread_count, block_count, bytes) \
    .threads = (thread_count), .blocks = (block_count), .shared_bytes = (bytes)

enum { PIPELINE_BYTES = STAGES * (ROW_FLOATS * 4 + 16) };
static const kernel_test scores = {.kernel = "scores", SIZES(128, 1, 2 * TILE_BYTES + 8)};
static const kernel_test values = {.kernel = "values", SIZES(128, 1, TILE_BYTES)};
static const kernel_test pipeline = {.kernel = "pipeline", SIZES(64, 1, PIPELINE_BYTES)};
static const kernel_test cluster_sum = {
    .kernel = "cluster", SIZES(32, 2, TILE_BYTES + 2 * 128 + 16), .is_cluster = true};
static const kernel_test box = {.kernel = "box", SIZES(128, 1, TILE_BYTES + 8)};
static const kernel_test basic = {.kernel = "basic", SIZES(128, 1, 65 * 4)};
static const kernel_test blocks = {.kernel = "blocks", SIZES(32, 4, 4)};
static const kernel_test second = {.kernel = "second", SIZES(64, 1, 4), .before = "first"};
static const kernel_test after_pipeline = {
    .kernel = "second", SIZES(64, 1, PIPELINE_BYTES), .before = "pipeline"};
static const kernel_test eight_bits[] = {
    {.kernel = "mma_s8", SIZES(128, 1, 4), .type8 = S8},
    {.kernel = "mma_e4m3", SIZES(128, 1, 4), .type8 = E4M3},
    {.kernel = "mma_e5m2", SIZES(128, 1, 4), .type8 = E5M2},
    {.kernel = "wgmma_e4m3", SIZES(128, 1, 2 * TILE_BYTES), .type8 = E4M3},
    {.kernel = "wgmma_e5m2", SIZES(128, 1, 2 * TILE_BYTES), .type8 = E5M2},
};
enum { EIGHT_BITS = sizeof eight_bits / sizeof eight_bits[0] };

/* 2. What right kernels compute. */

static float value(const device *d, int tile, int row, int column)
{
    return fc_f16_to_float(d->tiles[tile][row * COLUMNS + column]);
}

static void expect_product(const device *d, bool across)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            float sum = 0;
            for (int k = 0; k < COLUMNS; k++)
                sum += value(d, 0, row, k) *
                       (across ? value(d, 1, k, column) : value(d, 1, column, k));
            /* Sums of so few multiples of 1/64 are exact in any order. */
            if (d->result[row * COLUMNS + column] != sum)
                fail_msg("row %d column %d is %g, expected %g", row, column,
                         (double)d->result[row * COLUMNS + column], (double)sum);
        }
}

static void run_right(device *d, const kernel_test *test)
{
    expect_success(launch(d, test, "right"), test->kernel);
}

static void test_boxes_are_multiplied_where_they_lie(void **state)
{
    run_right(*state, &scores);
    expect_product(*state, false);
}

static void test_values_run_across_the_sum(void **state)
{
    run_right(*state, &values);
    expect_product(*state, true);
}

static void test_rows_go_through_stages(void **state)
{
    device *d = *state;
    run_right(d, &pipeline);
    const float *input = (const float *)d->tiles;
    for (int i = 0; i < ROW_FLOATS; i++) {
        float sum = 0;
        for (int row = 0; row < PIPELINE_ROWS; row++)
            sum += input[row * ROW_FLOATS + i];
        assert_memory_equal(&d->result[i], &sum, sizeof sum);
    }
}

static void test_blocks_of_a_cluster_reach_each_other(void **state)
{
    device *d = *state;
    run_right(d, &cluster_sum);
    for (int rank = 0; rank < 2; rank++)
        for (int lane = 0; lane < 32; lane++) {
            const float *result = d->result + 96 * (size_t)rank;
            /* The first chunk of row r lies at chunk r % 8. */
            const int column = lane % 8 * 8;
            const int bits = d->tiles[0][lane * COLUMNS + column] & 0x3ff;
            assert_int_equal((int)result[lane], (1 - rank) * 100 + lane);
            assert_int_equal((int)result[32 + lane], 1000 + (1 - rank) * 100 + lane);
            assert_int_equal((int)result[64 + lane], bits);
        }
}

static void test_a_box_over_the_end_is_filled_with_zeros(void **state)
{
    device *d = *state;
    run_right(d, &box);
    const uint16_t *result = (const uint16_t *)d->result;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            const int inside = row + 40 < ROWS;
            const uint16_t was = inside ? d->tiles[0][(row + 40) * COLUMNS + column] : 0;
            assert_int_equal(result[row * COLUMNS + column], (uint16_t)(was + 1));
        }
}

static void test_a_kernel_that_starts_early_waits(void **state)
{
    device *d = *state;
    run_right(d, &second);
    for (int thread = 0; thread < 64; thread++)
        assert_int_equal((int)d->result[64 + thread], 63 - thread + 1);
}

/* Whole numbers, whose sums are exact in any order. */
static bool is_right_product8(const device *d)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int sum = 0;
        for (int k = 0; k < COLUMNS8; k++)
            sum += number8(0, i / COLUMNS, k) * number8(1, i % COLUMNS, k);
        if (d->result[i] != (float)sum)
            return false;
    }
    return true;
}

static void test_products_of_8_bits(void **state)
{
    device *d = *state;
    for (int i = 0; i < EIGHT_BITS; i++) {
        run_right(d, &eight_bits[i]);
        if (!is_right_product8(d))
            fail_msg("%s is wrong", eight_bits[i].kernel);
    }
}

static void test_blocks_share_the_output(void **state)
{
    device *d = *state;
    const unsigned none = 0;
    const CUdeviceptr count = d->output + 128 * sizeof(float);
    expect_success(fc_cuda()->copy_to_device(count, &none, sizeof none), "zero");
    run_right(d, &blocks);
    for (int i = 0; i < 128; i++)
        assert_int_equal((int)d->result[i], i % 32);
    assert_memory_equal(&d->result[128], &blocks.blocks, sizeof blocks.blocks);
}

static void test_barriers_and_warps(void **state)
{
    device *d = *state;
    run_right(d, &basic);
    for (int thread = 0; thread < 128; thread++) {
        const int handed = thread < 64 ? 0 : (127 - thread) + (127 - (thread ^ 1));
        assert_int_equal((int)d->result[thread], handed + 128 * 1000 + 14 * 1000000);
    }
}

/* 3. What is reported. */

typedef struct broken_kernel {
    const char *prefix;
    const kernel_test *test;
    const char *says;     /* NULL: a wrong answer */
    const char *says_too; /* NULL: nothing more */
} broken_kernel;

static const broken_kernel broken_kernels[] = {
    {"copy_not_waited_for", &scores, "uninitialised", "hopper.cu:"},
    {"too_many_bytes_expected", &scores, "deadlock", "lacks 0 arrivals and 16 bytes"},
    {"wrong_stride", &scores, NULL, NULL},
    {"wrong_swizzle", &scores, NULL, NULL},
    {"product_not_waited_for", &scores, "unfinished wgmma", "hopper.cu:"},
    {"no_proxy_fence", &values, "missing proxy fence", "hopper.cu:"},
    {"no_proxy_fence", &box, "missing proxy fence", "hopper.cu:"},
    {"overwritten_after_product", &values, "race: thread 0", "an asynchronous operation read"},
    {"overwritten_during_store", &box, "unfinished read", "hopper.cu:"},
    {"phase_not_flipped", &pipeline, "unfinished copy", "hopper.cu:"},
    {"stage_not_free", &pipeline, "arrives once more than a phase takes", "hopper.cu:"},
    {"copy_left_behind", &scores, "unfinished copy: block 0 ends", "hopper.cu:"},
    {"no_cluster_barrier", &cluster_sum, "race", "hopper.cu:"},
    {"left_too_early", &cluster_sum, "block has left", "hopper.cu:"},
    {"barrier_count_differs", &basic, "barrier mismatch", "basic.cu:"},
    {"warps_at_two_barriers", &basic, "barrier mismatch", "others wait at another __syncthreads"},
    {"barrier_not_reached", &basic, "deadlock", "waits at barrier 1, where 96 of 128 threads came"},
    {"lane_not_in_mask", &basic, "which is not among lanes 7fffffff", "basic.cu:"},
    {"lane_has_left", &basic, "deadlock", "which has left the kernel"},
    {"warp_diverged", &basic, "divergence", "basic.cu:"},
    {"atomic_and_plain", &basic, "race", "basic.cu:"},
    {"past_shared_memory", &basic, "out of bounds", "of shared memory at offset"},
    {"misaligned_shared", &basic, "misaligned", "shared memory at offset 4"},
    {"wrote_input_guard", &basic, "out of bounds", "global memory"},
    {"no_wgmma_fence", &scores, "missing wgmma_fence", "before the first product"},
    {"sums_written_after_fence", &values, "missing wgmma_fence", "with sums in registers"},
    {"left_written_after_fence", &values, "missing wgmma_fence",
     "with a left operand in registers"},
    {"left_written_during_product", &values, "unfinished wgmma", "touches the left operand"},
    {"previous_not_waited_for", &second, "unfinished kernel", "hopper.cu:"},
    {"barrier_before_wait", &second, "unfinished kernel", "hopper.cu:"},
    {"cleared_during_use", &basic, "race", "basic.cu:"},
    {"blocks_write_the_same", &blocks, "race: blocks", "both write global memory"},
    {"registers_swapped", &eight_bits[0], NULL, NULL},
    {"registers_swapped", &eight_bits[1], NULL, NULL},
    {"registers_swapped", &eight_bits[4], NULL, NULL},
    {"short_step", &eight_bits[3], NULL, NULL},
};

static bool is_right_product(const device *d, const kernel_test *test)
{
    float sum = 0;
    if (strstr(test->kernel, "mma_"))
        return is_right_product8(d);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            sum = 0;
            for (int k = 0; k < COLUMNS; k++)
                sum += value(d, 0, row, k) * value(d, 1, column, k);
            if (d->result[row * COLUMNS + column] != sum)
                return false;
        }
    return true;
}

static bool is_reported(device *d, const broken_kernel *broken)
{
    /* A guard behind the first 128 floats, for what writes past them. */
    const emu_control *emulator = fc_cuda_emulator();
    const void *guard = (const char *)(uintptr_t)d->output + 512;
    const bool guarded = strcmp(broken->prefix, "wrote_input_guard") == 0;
    if (guarded)
        emulator->fence(guard, 16, true);
    const CUresult result = launch(d, broken->test, broken->prefix);
    if (guarded)
        emulator->fence(guard, 16, false);
    const char *said = result == CUDA_SUCCESS ? "nothing" : emulator->report();
    const bool caught = broken->says ? strstr(said, broken->says) && strstr(said, broken->says_too)
                                     : result == CUDA_SUCCESS && !is_right_product(d, broken->test);
    if (!caught)
        print_error("%s of %s says %s\n", broken->prefix, broken->test->kernel, said);
    return caught;
}

static void test_every_broken_kernel_is_reported(void **state)
{
    int missed = 0;
    for (size_t i = 0; i < sizeof broken_kernels / sizeof broken_kernels[0]; i++)
        missed += !is_reported(*state, &broken_kernels[i]);
    assert_int_equal(missed, 0);
}

/* A kernel before that lets nobody start early is over, whether one waits or not. */
static void test_without_leave_nobody_starts_early(void **state)
{
    expect_success(launch(*state, &after_pipeline, "previous_not_waited_for"), "second");
}

/* One that waits before it lets others start waits for them too. */
static void test_early_starts_reach_as_far_as_nobody_waited(void **state)
{
    static const kernel_test first = {.kernel = "first", SIZES(64, 1, 4)};
    static const kernel_test relay = {.kernel = "relay", SIZES(64, 1, 4), .before = "first"};
    static const struct {
        const char *relay;
        CUresult result;
    } chains[] = {{"right", CUDA_SUCCESS}, {"relay_does_not_wait", CUDA_ERROR_LAUNCH_FAILED}};
    for (int i = 0; i < 2; i++) {
        expect_success(start(*state, &first, "right"), "first");
        expect_success(start(*state, &relay, chains[i].relay), "relay");
        assert_int_equal(start(*state, &second, "previous_not_waited_for"), chains[i].result);
    }
    assert_non_null(strstr(fc_cuda_emulator()->report(), "unfinished kernel"));
}

/* The same at random moments, in place of the latest: right kernels stay right. */
static void test_right_kernels_stay_right_at_random_moments(void **state)
{
    device *d = *state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fc_cuda_emulator()->seed(seed);
        run_right(d, &scores);
        expect_product(d, false);
        test_rows_go_through_stages(state);
        test_blocks_of_a_cluster_reach_each_other(state);
        test_barriers_and_warps(state);
    }
    fc_cuda_emulator()->seed(0);
}

static int set_up(void **state)
{
    static device d;
    *state = &d;
    open_device(&d);
    return 0;
}

static int tear_down(void **state)
{
    close_device(*state);
    return 0;
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest right[] = {
        cmocka_unit_test(test_boxes_are_multiplied_where_they_lie),
        cmocka_unit_test(test_values_run_across_the_sum),
        cmocka_unit_test(test_rows_go_through_stages),
        cmocka_unit_test(test_blocks_of_a_cluster_reach_each_other),
        cmocka_unit_test(test_a_box_over_the_end_is_filled_with_zeros),
        cmocka_unit_test(test_a_kernel_that_starts_early_waits),
        cmocka_unit_test(test_products_of_8_bits),
    };
    const struct CMUnitTest emulated[] = {
        cmocka_unit_test(test_barriers_and_warps),
        cmocka_unit_test(test_blocks_share_the_output),
        cmocka_unit_test(test_without_leave_nobody_starts_early),
        cmocka_unit_test(test_early_starts_reach_as_far_as_nobody_waited),
        cmocka_unit_test(test_right_kernels_stay_right_at_random_moments),
        cmocka_unit_test(test_every_broken_kernel_is_reported),
    };
    cubin_path = argument_count > 1 ? arguments[1] : NULL;
    int failed = cmocka_run_group_tests(right, set_up, tear_down);
    if (!cubin_path)
        failed += cmocka_run_group_tests(emulated, set_up, tear_down);
    return failed;
}
