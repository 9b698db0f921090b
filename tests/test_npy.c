/* test_npy.c: .npy files are read as NumPy wrote them, and damaged ones are refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/npy.h"

/* A file in memory: magic, version, length of the header, header, elements. */
typedef struct file_image {
    unsigned char bytes[1024];
    size_t size;
} file_image;

static void append(file_image *image, const void *bytes, size_t size)
{
    assert_true(image->size + size <= sizeof image->bytes);
    memcpy(image->bytes + image->size, bytes, size);
    image->size += size;
}

static file_image make_file(int version, const char *header, const void *elements, size_t bytes)
{
    file_image image = {.size = 0};
    size_t length = strlen(header);
    const unsigned char start[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    const unsigned char little[4] = {(unsigned char)length, (unsigned char)(length >> 8), 0, 0};
    append(&image, start, sizeof start);
    append(&image, little, version == 1 ? 2 : 4);
    append(&image, header, length);
    append(&image, elements, bytes);
    return image;
}

static bool read_image(const file_image *image, size_t size, npy_array *array,
                       char error[NPY_ERROR_BYTES])
{
    /* A copy of the exact size: a sanitizer then sees a read past the end. fmemopen takes no 0. */
    void *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, image->bytes, size);
    FILE *file = size > 0 ? fmemopen(exact, size, "rb") : fopen("/dev/null", "rb");
    assert_non_null(file);
    error[0] = '\0';
    bool ok = npy_read(file, array, error);
    fclose(file);
    free(exact);
    return ok;
}

static void expect_refusal(const file_image *image, const char *words)
{
    npy_array array;
    char error[NPY_ERROR_BYTES];
    if (read_image(image, image->size, &array, error))
        fail_msg("accepted, but expected a refusal with '%s'", words);
    if (strstr(error, words) == NULL)
        fail_msg("refused with '%s', expected '%s'", error, words);
}

static void expect_header_refused(const char *header, const char *words)
{
    const float elements[2] = {1, 2};
    file_image image = make_file(1, header, elements, sizeof elements);
    expect_refusal(&image, words);
}

static file_image write_array(const npy_array *array)
{
    file_image image = {.size = 0};
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    assert_non_null(file);
    assert_true(npy_write(file, array));
    fclose(file);
    append(&image, bytes, size);
    free(bytes);
    return image;
}

static void test_what_is_written_is_read_back(void **state)
{
    (void)state;
    static const struct {
        char kind;
        size_t bytes;
    } types[] = {{'f', 2}, {'f', 4}, {'f', 8}, {'V', 2}, {'u', 1},
                 {'b', 1}, {'i', 4}, {'i', 8}, {'V', 1}};
    unsigned char elements[2 * 3 * 5 * 8];
    for (size_t index = 0; index < sizeof elements; index++)
        elements[index] = (unsigned char)(index * 7 + 1);
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        for (int dims = 0; dims <= 3; dims++) {
            npy_array written = {.kind = types[type].kind,
                                 .item_bytes = types[type].bytes,
                                 .dims = dims,
                                 .shape = {2, 3, 5},
                                 .data = elements};
            file_image image = write_array(&written);
            npy_array read;
            char error[NPY_ERROR_BYTES];
            assert_true(read_image(&image, image.size, &read, error));
            assert_int_equal(read.kind, written.kind);
            assert_int_equal(read.item_bytes, written.item_bytes);
            assert_int_equal(read.dims, dims);
            assert_memory_equal(read.shape, written.shape, (size_t)dims * sizeof read.shape[0]);
            assert_memory_equal(read.data, elements, (size_t)npy_count(&read) * read.item_bytes);
            npy_free(&read);
        }
    }
}

static void test_header_is_byte_for_byte_that_of_numpy(void **state)
{
    (void)state;
    float elements[3] = {1, 2, 3};
    npy_array array = {.kind = 'f', .item_bytes = 4, .dims = 1, .shape = {3}, .data = elements};
    file_image image = write_array(&array);
    char expected[129];
    snprintf(expected, sizeof expected, "%-127s\n",
             "\x93NUMPY\x01?v?{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
    expected[7] = expected[9] = '\0';
    assert_int_equal(image.size, 128 + sizeof elements);
    assert_memory_equal(image.bytes, expected, 128);
}

static void test_every_version_and_spelling_is_read(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
        "{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "  { 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '=f4' }  \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 2L), }\n",
    };
    const float elements[2] = {1.5f, -2};
    for (int version = 1; version <= 3; version++) {
        for (size_t index = 0; index < sizeof headers / sizeof headers[0]; index++) {
            file_image image = make_file(version, headers[index], elements, sizeof elements);
            npy_array array;
            char error[NPY_ERROR_BYTES];
            if (!read_image(&image, image.size, &array, error))
                fail_msg("version %d, %s: %s", version, headers[index], error);
            assert_memory_equal(array.data, elements, sizeof elements);
            npy_free(&array);
        }
    }
}

static void test_big_endian_elements_are_swapped(void **state)
{
    (void)state;
    const unsigned char elements[8] = {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0};
    const float expected[2] = {1.5f, -2};
    file_image image = make_file(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
                                 elements, sizeof elements);
    npy_array array;
    char error[NPY_ERROR_BYTES];
    assert_true(read_image(&image, image.size, &array, error));
    assert_memory_equal(array.data, expected, sizeof expected);
    npy_free(&array);
}

static void test_fortran_order_becomes_c_order(void **state)
{
    (void)state;
    uint8_t elements[2 * 3 * 4];
    for (size_t k = 0; k < 4; k++)
        for (size_t j = 0; j < 3; j++)
            for (size_t i = 0; i < 2; i++)
                elements[i + 2 * (j + 3 * k)] = (uint8_t)(100 * i + 10 * j + k);
    file_image image = make_file(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }",
                                 elements, sizeof elements);
    npy_array array;
    char error[NPY_ERROR_BYTES];
    assert_true(read_image(&image, image.size, &array, error));
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 3; j++)
            for (size_t k = 0; k < 4; k++)
                assert_int_equal(((uint8_t *)array.data)[(i * 3 + j) * 4 + k],
                                 100 * i + 10 * j + k);
    npy_free(&array);
}

static void test_empty_arrays_are_arrays(void **state)
{
    (void)state;
    file_image image =
        make_file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2), }", "", 0);
    npy_array array;
    char error[NPY_ERROR_BYTES];
    assert_true(read_image(&image, image.size, &array, error));
    assert_int_equal(npy_count(&array), 0);
    npy_free(&array);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    double elements[6] = {1, 2, 3, 4, 5, 6};
    npy_array array = {.kind = 'f', .item_bytes = 8, .dims = 2, .shape = {2, 3}, .data = elements};
    file_image image = write_array(&array);
    for (size_t size = 0; size < image.size; size++) {
        npy_array read;
        char error[NPY_ERROR_BYTES];
        if (read_image(&image, size, &read, error))
            fail_msg("accepted with %zu of %zu bytes", size, image.size);
        assert_true(strlen(error) > 0);
    }
}

static void test_bytes_after_the_elements_are_refused(void **state)
{
    (void)state;
    const float elements[3] = {1, 2, 3};
    file_image image = make_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                                 elements, sizeof elements);
    expect_refusal(&image, "goes on after the 8 bytes");
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    file_image image = make_file(1, "{}", "", 0);
    image.bytes[1] = 'n';
    expect_refusal(&image, "is no .npy file");
    image = make_file(4, "{}", "", 0);
    expect_refusal(&image, "version 4");
    image = make_file(2, "{}", "", 0);
    memset(image.bytes + 8, 0xff, 4);
    expect_refusal(&image, "claims a header of 4294967295 bytes");
}

static void test_damaged_headers_are_refused(void **state)
{
    (void)state;
    expect_header_refused("", "no dictionary");
    expect_header_refused("{", "a key is missing");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "does not end");
    expect_header_refused("{'descr': '<f4', 'shape': (2,)}", "is missing");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False}", "is missing");
    expect_header_refused("{'fortran_order': False, 'shape': (2,)}", "is missing");
    expect_header_refused("{'descr': '<f4', 'fortran_order': None, 'shape': (2,)}", "neither True");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "no tuple");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2", "does not end");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "no number");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", "no number");
    expect_header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} 1",
                          "text after");
    expect_header_refused("{'other': 1}", "unknown key 'other'");
    expect_header_refused("{'descr': '<f4, 'fortran_order'", "not supported");
    file_image image =
        make_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} ", "12345678", 8);
    image.bytes[image.size - 9] = '\0';
    expect_refusal(&image, "zero byte");
}

static void test_unknown_elements_are_refused(void **state)
{
    (void)state;
    static const char *const types[] = {"''",    "'|O'",      "'<U8'",
                                        "'<c8'", "'<f16'",    "'f'",
                                        "'<f9'", "'<M8[ns]'", "'<f4567890123456789'"};
    for (size_t index = 0; index < sizeof types / sizeof types[0]; index++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': False, 'shape': (2,)}",
                 types[index]);
        expect_header_refused(header, "element");
    }
    expect_header_refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
                          "structured");
}

static void test_huge_shapes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *words;
    } claims[] = {
        {"(99999999999999999999,)", "no number"},
        {"(1099511627776, 1099511627776)", "more elements than memory"},
        {"(9223372036854775807,)", "more elements than memory"},
        {"(0, 9223372036854775807, 9223372036854775807)", "more elements than memory"},
        {"(1099511627776,)", "is truncated"},
        {"(1, 1, 1, 1, 1, 1, 1, 1, 1)", "more than 8 dimensions"},
    };
    for (size_t index = 0; index < sizeof claims / sizeof claims[0]; index++) {
        char header[160];
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': True, 'shape': %s}",
                 claims[index].shape);
        expect_header_refused(header, claims[index].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_header_is_byte_for_byte_that_of_numpy),
        cmocka_unit_test(test_every_version_and_spelling_is_read),
        cmocka_unit_test(test_big_endian_elements_are_swapped),
        cmocka_unit_test(test_fortran_order_becomes_c_order),
        cmocka_unit_test(test_empty_arrays_are_arrays),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_bytes_after_the_elements_are_refused),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_damaged_headers_are_refused),
        cmocka_unit_test(test_unknown_elements_are_refused),
        cmocka_unit_test(test_huge_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
