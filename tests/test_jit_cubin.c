/* test_jit_cubin.c: variables are read out of real cubins, and no damaged one leads astray. */
#include "jit/cubin.h"
#include "jit_fixture.h"

#include <stdlib.h>
#include <string.h>

static const char *const value_7[] = {"VALUE=7"};
static jit_kernel kernel;

static int build(void **state)
{
    if (jit_fixture_open(state) != 0)
        return -1;
    jit_request request = jit_fixture_request(value_7, NULL);
    kernel = jit_fixture_build(&request);
    return jit_fixture_close(state);
}

static int release(void **state)
{
    (void)state;
    jit_release(&kernel);
    return 0;
}

static void test_a_variable_is_found(void **state)
{
    (void)state;
    static const int expected[4] = {1, 2, 3, 7};
    const void *data;
    size_t bytes;
    if (jit_cubin_variable(kernel.binary, kernel.binary_bytes, "add_shape", &data, &bytes) != FC_OK)
        fail_msg("%s", fc_last_error());
    assert_int_equal(bytes, sizeof expected);
    assert_memory_equal(data, expected, sizeof expected);
}

static void check_refused(const void *cubin, size_t cubin_bytes, const char *name,
                          const char *words)
{
    const void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(jit_cubin_variable(cubin, cubin_bytes, name, &data, &bytes), FC_ERROR_INVALID);
    assert_non_null(strstr(fc_last_error(), words));
    assert_null(data);
}

static void test_what_is_not_there_is_refused(void **state)
{
    (void)state;
    static const char ptx[] = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k()";
    check_refused(kernel.binary, kernel.binary_bytes, "add_shap", "no variable add_shap");
    check_refused(kernel.binary, kernel.binary_bytes, "add_shape2", "no variable add_shape2");
    check_refused(kernel.binary, kernel.binary_bytes, "add", "no variable add"); /* a function */
    check_refused(kernel.binary, kernel.binary_bytes, "", "no variable");
    check_refused(ptx, sizeof ptx, "k", "should be a cubin");
    check_refused("", 0, "k", "should be a cubin");
}

/* A value that is given must lie in the cubin, whatever else the damage does. */
static bool read_damaged(const unsigned char *cubin, size_t cubin_bytes)
{
    const void *data;
    size_t bytes;
    fc_status status = jit_cubin_variable(cubin, cubin_bytes, "add_shape", &data, &bytes);
    if (status != FC_OK) {
        assert_int_equal(status, FC_ERROR_INVALID);
        return false;
    }
    const unsigned char *value = data;
    assert_true(value >= cubin && value <= cubin + cubin_bytes);
    assert_true(bytes <= (size_t)(cubin + cubin_bytes - value));
    for (size_t i = 0; i < bytes; i++) /* under AddressSanitizer this is a check too */
        assert_true(value[i] <= 255);
    return true;
}

/* Each in memory of its own size, so that AddressSanitizer sees a step beyond it. */
static void test_a_truncated_cubin_is_safe(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= kernel.binary_bytes; bytes++) {
        unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(copy);
        memcpy(copy, kernel.binary, bytes);
        bool found = read_damaged(copy, bytes);
        assert_true(found || bytes < kernel.binary_bytes);
        free(copy);
    }
}

static void test_a_mutated_cubin_is_safe(void **state)
{
    (void)state;
    static const unsigned char changes[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    unsigned char *copy = malloc(kernel.binary_bytes);
    assert_non_null(copy);
    memcpy(copy, kernel.binary, kernel.binary_bytes);
    int refused = 0;
    for (size_t at = 0; at < kernel.binary_bytes; at++)
        for (size_t i = 0; i < sizeof changes; i++) {
            copy[at] ^= changes[i];
            refused += !read_damaged(copy, kernel.binary_bytes);
            copy[at] ^= changes[i];
        }
    assert_true(refused > 0);
    free(copy);
}

/* Runs of 0xff make offsets and counts as large as they get. */
static void test_the_largest_numbers_are_safe(void **state)
{
    (void)state;
    unsigned char *copy = malloc(kernel.binary_bytes);
    assert_non_null(copy);
    for (size_t run = 2; run <= 8; run *= 2)
        for (size_t at = 0; at + run <= kernel.binary_bytes; at++) {
            memcpy(copy, kernel.binary, kernel.binary_bytes);
            memset(copy + at, 0xff, run);
            read_damaged(copy, kernel.binary_bytes);
        }
    free(copy);
}

static void put(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static void put_section(unsigned char *header, uint32_t type, uint64_t offset, uint64_t bytes)
{
    put(header + 4, type, 4);
    put(header + 24, offset, 8);
    put(header + 32, bytes, 8);
    put(header + 40, 1, 4); /* its strings are in section 1 */
}

/* The symbols are the last thing in the file and break off within one. */
static void test_half_a_symbol_is_not_read(void **state)
{
    (void)state;
    enum { SECTION_0 = 64, SECTION_1 = 128, STRINGS_AT = 192, SYMBOLS_AT = 200, TWO_SYMBOLS = 48 };
    for (size_t symbols_bytes = 0; symbols_bytes < TWO_SYMBOLS; symbols_bytes++) {
        unsigned char *cubin = calloc(1, SYMBOLS_AT + symbols_bytes);
        assert_non_null(cubin);
        memcpy(cubin, kernel.binary, SECTION_0);
        put(cubin + 40, SECTION_0, 8); /* where the headers of the sections are, and how many */
        put(cubin + 60, 2, 2);
        put_section(cubin + SECTION_0, 2, SYMBOLS_AT, symbols_bytes);
        put_section(cubin + SECTION_1, 3, STRINGS_AT, 8);
        check_refused(cubin, SYMBOLS_AT + symbols_bytes, "x", "no variable x");
        free(cubin);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_variable_is_found),
        cmocka_unit_test(test_what_is_not_there_is_refused),
        cmocka_unit_test(test_a_truncated_cubin_is_safe),
        cmocka_unit_test(test_a_mutated_cubin_is_safe),
        cmocka_unit_test(test_the_largest_numbers_are_safe),
        cmocka_unit_test(test_half_a_symbol_is_not_read),
    };
    return cmocka_run_group_tests(tests, build, release);
}
