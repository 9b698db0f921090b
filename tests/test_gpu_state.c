/* test_gpu_state.c: what a stand-in for nvidia-smi says of a GPU arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_gpu_state.XXXXXX";
static char program[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(program, sizeof program, "%s/nvidia-smi", folder);
    char path[256];
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    return setenv("PATH", path, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(program);
    return rmdir(folder);
}

static gpu_state state_when(const char *script, int index)
{
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(program, 0755), 0);
    return gpu_state_read(index);
}

static void test_four_numbers_make_a_state(void **unused)
{
    (void)unused;
    char text[GPU_STATE_TEXT_BYTES];
    const gpu_state state = state_when("echo '1980, 3201, 35, 118.27'", 0);
    assert_true(state.known);
    assert_string_equal(gpu_state_text(&state, text), "SM 1980 MHz, memory 3201 MHz, 35 C, 118 W");
}

static void test_what_is_no_answer_is_not_known(void **unused)
{
    (void)unused;
    char text[GPU_STATE_TEXT_BYTES];
    assert_false(state_when("echo 'No devices were found'; exit 6", 0).known);
    assert_false(state_when("echo '1980, 3201, [N/A], 118'", 0).known);
    assert_false(state_when("exit 0", 0).known);
    const gpu_state state = state_when("echo '1980, 3201, 35, 118'; exit 1", 0);
    assert_false(state.known);
    assert_non_null(strstr(gpu_state_text(&state, text), "not known"));
}

static void test_the_device_is_the_one_that_cuda_numbers(void **unused)
{
    (void)unused;
    const char *second = "test \"$2\" = 7 && echo '1, 2, 3, 4'";
    assert_false(state_when(second, 1).known);
    setenv("CUDA_VISIBLE_DEVICES", "5,7", 1);
    assert_true(state_when(second, 1).known);
    setenv("CUDA_VISIBLE_DEVICES", "5,$(touch /tmp/never)", 1);
    assert_false(state_when("echo '1, 2, 3, 4'", 1).known);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_numbers_make_a_state),
        cmocka_unit_test(test_what_is_no_answer_is_not_known),
        cmocka_unit_test(test_the_device_is_the_one_that_cuda_numbers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
