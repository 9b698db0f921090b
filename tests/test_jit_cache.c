/* test_jit_cache.c: what the cache gives back is what was put in, or nothing. */
#include "jit/cache.h"
#include "jit_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char binary[] = "\177ELF, or\0something else";
static char log_text[] = "ptxas info    : Used 10 registers\n";

static jit_kernel some_kernel(char digit)
{
    jit_kernel kernel = {.binary = binary, .binary_bytes = sizeof binary, .log = log_text};
    memset(kernel.signature, digit, JIT_SIGNATURE_CHARS);
    return kernel;
}

static int open_cache(void)
{
    int directory;
    if (jit_cache_open(&directory) != FC_OK)
        fail_msg("%s", fc_last_error());
    return directory;
}

/* Loads by the signature of some_kernel(digit); where it is found, it must be that kernel. */
static bool load(int directory, char digit)
{
    jit_kernel kernel = some_kernel(digit);
    kernel.binary = kernel.log = NULL;
    kernel.binary_bytes = 0;
    bool found = jit_cache_load(directory, &kernel);
    if (found) {
        assert_int_equal(kernel.binary_bytes, sizeof binary);
        assert_memory_equal(kernel.binary, binary, sizeof binary);
        assert_string_equal(kernel.log, log_text);
    } else {
        assert_null(kernel.binary);
        assert_null(kernel.log);
    }
    jit_release(&kernel);
    return found;
}

static void store(int directory, char digit)
{
    jit_kernel kernel = some_kernel(digit);
    assert_int_equal(jit_cache_store(directory, &kernel), FC_OK);
}

static void test_what_is_stored_is_found(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    assert_false(load(directory, 'a'));
    store(directory, 'a');
    assert_true(load(directory, 'a'));
    assert_false(load(directory, 'b'));
    store(directory, 'a');
    assert_int_equal(jit_fixture_count_files(path), 1);
    assert_non_null(strstr(path, "aaaa.fckernel"));
    jit_cache_close(directory);
}

static void path_of(char path[JIT_FIXTURE_PATH], char digit)
{
    jit_kernel kernel = some_kernel(digit);
    snprintf(path, JIT_FIXTURE_PATH, "%s/%s.fckernel", jit_fixture_directory(), kernel.signature);
}

static off_t file_bytes(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

static void test_a_file_of_another_length_is_not_loaded(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'a');
    path_of(path, 'a');
    off_t bytes = file_bytes(path);
    assert_true(bytes > (off_t)sizeof binary);
    for (off_t length = bytes + 1; length >= 0; length--) {
        assert_int_equal(truncate(path, length), 0);
        assert_int_equal(load(directory, 'a'), length == bytes);
    }
    store(directory, 'a');
    assert_true(load(directory, 'a'));
    jit_cache_close(directory);
}

static void flip_bit(int file, off_t bit)
{
    unsigned char byte;
    assert_int_equal(pread(file, &byte, 1, bit / 8), 1);
    byte ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(pwrite(file, &byte, 1, bit / 8), 1);
}

static void test_no_bit_can_be_changed(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'a');
    path_of(path, 'a');
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    for (off_t bit = 0; bit < 8 * file_bytes(path); bit++) {
        flip_bit(file, bit);
        assert_false(load(directory, 'a'));
        flip_bit(file, bit);
    }
    assert_true(load(directory, 'a'));
    close(file);
    jit_cache_close(directory);
}

/* The lengths of binary and log follow the 16 bytes of magic and format and the signature; here
 * one byte passes from the binary to the log. */
static void test_binary_and_log_can_not_change_places(void **state)
{
    (void)state;
    enum { LENGTHS_AT = 16 + JIT_SIGNATURE_CHARS };
    const unsigned char shifted[] = {sizeof binary - 1, 0, 0, 0, 0, 0, 0, 0,
                                     sizeof log_text,   0, 0, 0, 0, 0, 0, 0};
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'a');
    path_of(path, 'a');
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, shifted, sizeof shifted, LENGTHS_AT), sizeof shifted);
    close(file);
    assert_false(load(directory, 'a'));
    jit_cache_close(directory);
}

static void test_a_kernel_under_another_name_is_not_loaded(void **state)
{
    (void)state;
    char a[JIT_FIXTURE_PATH], b[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'a');
    path_of(a, 'a');
    path_of(b, 'b');
    assert_int_equal(rename(a, b), 0);
    assert_false(load(directory, 'b'));
    store(directory, 'b');
    assert_true(load(directory, 'b'));
    jit_cache_close(directory);
}

static void test_only_plain_files_are_loaded(void **state)
{
    (void)state;
    char a[JIT_FIXTURE_PATH], b[JIT_FIXTURE_PATH], c[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'b');
    path_of(a, 'a');
    path_of(b, 'b');
    path_of(c, 'c');
    /* A whole file of the right signature, but elsewhere and only linked to. */
    assert_int_equal(rename(b, c), 0);
    assert_int_equal(symlink(c, b), 0);
    assert_false(load(directory, 'b'));
    assert_int_equal(mkfifo(a, S_IRUSR | S_IWUSR), 0);
    assert_false(load(directory, 'a'));
    store(directory, 'a');
    assert_true(load(directory, 'a'));
    jit_cache_close(directory);
}

static void test_a_store_that_fails_leaves_nothing(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    path_of(path, 'a');
    assert_int_equal(mkdir(path, S_IRWXU), 0); /* a file can't replace it */
    jit_kernel kernel = some_kernel('a');
    assert_int_equal(jit_cache_store(directory, &kernel), FC_ERROR_INVALID);
    assert_non_null(strstr(fc_last_error(), ".fckernel"));
    assert_int_equal(jit_fixture_count_files(path), 1);
    jit_cache_close(directory);
}

/* A file as a writer would leave it that was killed `seconds` ago. */
static void leave_draft(const char *name, time_t seconds)
{
    char path[JIT_FIXTURE_PATH];
    snprintf(path, sizeof path, "%s/%s", jit_fixture_directory(), name);
    jit_fixture_write(path, "half", 4);
    const struct timespec written = {.tv_sec = time(NULL) - seconds};
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){written, written}, 0), 0);
}

static void test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    store(directory, 'a');
    leave_draft("draft-1-0", 7200);
    leave_draft("draft-1-1", 7200);
    leave_draft("draft-1-2", 60);
    store(directory, 'b');
    assert_true(load(directory, 'a'));
    assert_true(load(directory, 'b'));
    assert_int_equal(jit_fixture_count_files(path), 3);
    leave_draft("draft-1-2", 7200);
    store(directory, 'b');
    assert_int_equal(jit_fixture_count_files(path), 2);
    jit_cache_close(directory);
}

enum { WRITERS = 4, ROUNDS = 50 };

static void *store_and_load(void *directory)
{
    jit_kernel kernel = some_kernel('a');
    for (int i = 0; i < ROUNDS; i++) {
        jit_kernel found = {0};
        memcpy(found.signature, kernel.signature, sizeof found.signature);
        bool fine = jit_cache_store(*(int *)directory, &kernel) == FC_OK &&
                    jit_cache_load(*(int *)directory, &found) &&
                    found.binary_bytes == sizeof binary &&
                    memcmp(found.binary, binary, sizeof binary) == 0;
        jit_release(&found);
        if (!fine)
            return directory;
    }
    return NULL;
}

static void test_a_reader_never_sees_half_a_file(void **state)
{
    (void)state;
    pthread_t threads[WRITERS];
    char path[JIT_FIXTURE_PATH];
    int directory = open_cache();
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, store_and_load, &directory), 0);
    for (int i = 0; i < WRITERS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(jit_fixture_count_files(path), 1);
    jit_cache_close(directory);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, jit_fixture_open, jit_fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(test_what_is_stored_is_found),
        CACHE_TEST(test_a_file_of_another_length_is_not_loaded),
        CACHE_TEST(test_no_bit_can_be_changed),
        CACHE_TEST(test_binary_and_log_can_not_change_places),
        CACHE_TEST(test_a_kernel_under_another_name_is_not_loaded),
        CACHE_TEST(test_only_plain_files_are_loaded),
        CACHE_TEST(test_a_store_that_fails_leaves_nothing),
        CACHE_TEST(test_what_a_killed_writer_left_goes_and_what_is_being_written_stays),
        CACHE_TEST(test_a_reader_never_sees_half_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
