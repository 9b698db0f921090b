/* test_child.c: another program is run to its end, and what became of it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static child_result run(double limit, const char *script, char output[256])
{
    char path[] = "/tmp/test_child.XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    const char *const words[] = {"sh", "-c", script, NULL};
    const child_run wanted = {.words = words, .output_path = path, .limit_seconds = limit};
    child_result result;
    child_wait(&wanted, &result);
    const ssize_t length = read(descriptor, output, 255);
    output[length > 0 ? length : 0] = '\0';
    close(descriptor);
    unlink(path);
    return result;
}

static void test_output_and_status_arrive(void **state)
{
    (void)state;
    char output[256];
    child_result result = run(60, "echo out; echo err >&2", output);
    assert_string_equal(result.reason, "");
    assert_int_equal(result.exit_status, 0);
    assert_string_equal(output, "out\nerr\n");
    result = run(60, "exit 3", output);
    assert_int_equal(result.exit_status, 3);
    assert_string_equal(result.reason, "exit status 3");
}

static void test_a_crash_is_named(void **state)
{
    (void)state;
    char output[256];
    const child_result result = run(60, "kill -SEGV $$", output);
    assert_int_equal(result.exit_status, 128 + 11);
    assert_non_null(strstr(result.reason, "ended by signal 11"));
}

static void test_a_hang_ends_at_the_limit(void **state)
{
    (void)state;
    char output[256];
    const child_result result = run(0.2, "sleep 100 & wait", output);
    assert_true(result.timed_out);
    assert_true(result.seconds < 20);
    assert_non_null(strstr(result.reason, "stopped after"));
}

static void test_a_missing_program_is_named(void **state)
{
    (void)state;
    const char *const words[] = {"no-such-program", NULL};
    const child_run wanted = {.words = words, .output_path = "/dev/null", .limit_seconds = 10};
    child_result result;
    child_wait(&wanted, &result);
    assert_false(result.started);
    assert_string_equal(result.reason, "no-such-program: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_status_arrive),
        cmocka_unit_test(test_a_crash_is_named),
        cmocka_unit_test(test_a_hang_ends_at_the_limit),
        cmocka_unit_test(test_a_missing_program_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
