/* test_jit.c: kernels built by NVRTC, which needs no GPU, and found again in the cache. */
#include "jit/report.h"
#include "jit/sha256.h"
#include "jit_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const value_1[] = {"VALUE=1"};
static const char *const value_2[] = {"VALUE=2"};
static const char *const line_numbers[] = {"--generate-line-info"};

static void check_same(const jit_kernel *a, const jit_kernel *b)
{
    assert_int_equal(a->binary_bytes, b->binary_bytes);
    assert_memory_equal(a->binary, b->binary, a->binary_bytes);
}

static bool is_same(const jit_kernel *a, const jit_kernel *b)
{
    return a->binary_bytes == b->binary_bytes && memcmp(a->binary, b->binary, a->binary_bytes) == 0;
}

static void test_the_second_build_comes_from_the_cache(void **state)
{
    (void)state;
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_kernel first = jit_fixture_build(&request), second = jit_fixture_build(&request);
    assert_false(first.from_cache);
    assert_true(second.from_cache);
    check_same(&first, &second);
    assert_string_equal(first.log, second.log);
    assert_string_equal(first.signature, second.signature);
    assert_string_equal(first.cache_problem, "");
    jit_release(&first);
    jit_release(&second);
}

static void test_every_flag_changes_the_binary(void **state)
{
    (void)state;
    enum { REQUESTS = 4 };
    jit_request requests[REQUESTS] = {
        jit_fixture_request(value_1, NULL), jit_fixture_request(value_2, NULL),
        jit_fixture_request(value_1, line_numbers), jit_fixture_request(value_1, NULL)};
    requests[3].architecture = "sm_90a";
    jit_kernel kernels[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        kernels[i] = jit_fixture_build(&requests[i]);
        assert_false(kernels[i].from_cache);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(kernels[i].signature, kernels[j].signature);
            assert_false(is_same(&kernels[i], &kernels[j]));
        }
    }
    for (int i = 0; i < REQUESTS; i++)
        jit_release(&kernels[i]);
}

static void test_the_log_tells_the_resources(void **state)
{
    (void)state;
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_kernel kernel = jit_fixture_build(&request);
    const char *text = kernel.log;
    jit_report report;
    assert_true(jit_report_next(&text, &report));
    assert_string_equal(report.kernel, "add");
    assert_string_equal(report.architecture, "sm_80");
    assert_in_range(report.registers, 1, 255);
    assert_int_equal(report.spill_store_bytes, 0);
    assert_int_equal(report.static_shared_bytes, 0);
    assert_false(jit_report_next(&text, &report));
    jit_release(&kernel);
}

static void test_a_virtual_architecture_gives_ptx(void **state)
{
    (void)state;
    jit_request request = jit_fixture_request(value_1, NULL);
    request.architecture = "compute_80";
    jit_kernel kernel = jit_fixture_build(&request);
    const char *text = kernel.binary;
    assert_int_equal(text[kernel.binary_bytes - 1], 0);
    assert_non_null(strstr(text, ".entry add("));
    jit_release(&kernel);
}

static void test_the_toolkit_headers_are_found(void **state)
{
    (void)state;
    static const jit_source source = {"half.cu", "#include <cuda_fp16.h>\n"
                                                 "extern \"C\" __global__ void k(__half *x)\n"
                                                 "{ *x = __float2half(1.0f); }\n"};
    jit_request request = {.file = "half.cu", .architecture = "sm_80"};
    jit_kernel kernel;
    if (jit_build_from(&source, 1, &request, &kernel) != FC_OK)
        fail_msg("%s", fc_last_error());
    jit_release(&kernel);
}

static void test_an_error_carries_the_compilers_words(void **state)
{
    (void)state;
    static const jit_source source = {"wrong.cu", "__global__ void k(void) { missing_step(); }\n"};
    jit_request request = {.file = "wrong.cu", .architecture = "sm_80"};
    jit_kernel kernel;
    char path[JIT_FIXTURE_PATH];
    assert_int_equal(jit_build_from(&source, 1, &request, &kernel), FC_ERROR_INVALID);
    assert_non_null(strstr(fc_last_error(), "wrong.cu(1): error: "));
    assert_non_null(strstr(fc_last_error(), "missing_step"));
    assert_non_null(strstr(kernel.log, "missing_step"));
    assert_null(kernel.binary);
    assert_int_equal(jit_fixture_count_files(path), 0);
    jit_release(&kernel);
    request = jit_fixture_request(value_1, NULL);
    request.architecture = "sm_1";
    assert_int_equal(
        jit_build_from(jit_fixture_sources, jit_fixture_source_count, &request, &kernel),
        FC_ERROR_UNSUPPORTED);
    assert_non_null(strstr(fc_last_error(), "--gpu-architecture"));
    jit_release(&kernel);
}

static void test_a_damaged_file_is_rebuilt(void **state)
{
    (void)state;
    static unsigned char content[1 << 16];
    char path[JIT_FIXTURE_PATH];
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_kernel first = jit_fixture_build(&request);
    jit_fixture_count_files(path);
    size_t bytes = jit_fixture_read(path, content);
    for (size_t i = 0; i < 8; i++) {
        size_t at = i * (bytes - 1) / 7;
        if (i % 2 == 0) {
            content[at] ^= 0x10;
            jit_fixture_write(path, content, bytes);
            content[at] ^= 0x10;
        } else {
            jit_fixture_write(path, content, at);
        }
        jit_kernel rebuilt = jit_fixture_build(&request), again = jit_fixture_build(&request);
        assert_false(rebuilt.from_cache);
        assert_true(again.from_cache);
        check_same(&first, &rebuilt);
        check_same(&first, &again);
        jit_release(&rebuilt);
        jit_release(&again);
    }
    jit_release(&first);
}

static void test_without_a_cache_it_builds_and_says_so(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    assert_int_equal(mkdir(jit_fixture_directory(), S_IRWXU), 0);
    assert_int_equal(chmod(jit_fixture_directory(), 0777), 0);
    jit_request request = jit_fixture_request(value_1, NULL);
    for (int i = 0; i < 2; i++) {
        jit_kernel kernel = jit_fixture_build(&request);
        assert_false(kernel.from_cache);
        assert_true(kernel.binary_bytes > 0);
        assert_non_null(strstr(kernel.cache_problem, "can be written by others"));
        jit_release(&kernel);
    }
    assert_int_equal(jit_fixture_count_files(path), 0);
}

enum { PROCESSES = 8 };

/* Builds once `start` is closed at its other end, and answers with the binary's digest. */
static void build_in_child(int start, int answer)
{
    char nothing;
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_kernel kernel;
    jit_sha256 hash;
    unsigned char digest[JIT_SHA256_BYTES];
    if (read(start, &nothing, 1) != 0 ||
        jit_build_from(jit_fixture_sources, jit_fixture_source_count, &request, &kernel) != FC_OK ||
        kernel.cache_problem[0] != '\0')
        _exit(EXIT_FAILURE);
    jit_sha256_start(&hash);
    jit_sha256_add(&hash, kernel.binary, kernel.binary_bytes);
    jit_sha256_finish(&hash, digest);
    _exit(write(answer, digest, sizeof digest) == sizeof digest ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void test_many_processes_build_the_same_at_once(void **state)
{
    (void)state;
    int start[2], answer[2];
    pid_t children[PROCESSES];
    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(answer), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            close(start[1]);
            build_in_child(start[0], answer[1]);
        }
    }
    close(start[1]);
    unsigned char first[JIT_SHA256_BYTES], digest[JIT_SHA256_BYTES];
    for (int i = 0; i < PROCESSES; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
        assert_int_equal(read(answer[0], digest, sizeof digest), sizeof digest);
        if (i == 0)
            memcpy(first, digest, sizeof first);
        assert_memory_equal(first, digest, sizeof first);
    }
    close(start[0]);
    close(answer[0]);
    close(answer[1]);
    char path[JIT_FIXTURE_PATH];
    assert_int_equal(jit_fixture_count_files(path), 1);
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_kernel kernel = jit_fixture_build(&request);
    assert_true(kernel.from_cache);
    jit_release(&kernel);
}

#define JIT_TEST(name) cmocka_unit_test_setup_teardown(name, jit_fixture_open, jit_fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, so that each child opens the compiler by itself. */
        JIT_TEST(test_many_processes_build_the_same_at_once),
        JIT_TEST(test_the_second_build_comes_from_the_cache),
        JIT_TEST(test_every_flag_changes_the_binary),
        JIT_TEST(test_the_log_tells_the_resources),
        JIT_TEST(test_a_virtual_architecture_gives_ptx),
        JIT_TEST(test_the_toolkit_headers_are_found),
        JIT_TEST(test_an_error_carries_the_compilers_words),
        JIT_TEST(test_a_damaged_file_is_rebuilt),
        JIT_TEST(test_without_a_cache_it_builds_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
