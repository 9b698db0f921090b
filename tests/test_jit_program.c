/* test_jit_program.c: what a request becomes before any compiler sees it, its signature, and what
 * is said where there is no compiler. */
#include "jit/program.h"
#include "jit_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const value_1[] = {"VALUE=1"};

static const char *source_folder; /* src/cuda */

static jit_program create(const jit_source *sources, size_t count, const jit_request *request)
{
    jit_program program;
    if (jit_program_create(sources, count, request, &program) != FC_OK)
        fail_msg("%s", fc_last_error());
    return program;
}

static void check_refused(const jit_source *sources, size_t count, const jit_request *request,
                          const char *words)
{
    jit_program program;
    assert_int_equal(jit_program_create(sources, count, request, &program), FC_ERROR_INVALID);
    assert_non_null(strstr(fc_last_error(), words));
    jit_program_release(&program);
}

static void test_headers_stand_under_the_names_they_are_included_by(void **state)
{
    (void)state;
    jit_request request = jit_fixture_request(value_1, NULL);
    jit_program program = create(jit_fixture_sources, jit_fixture_source_count, &request);
    static const char *const names[] = {"../common/value.cuh", "twice.cuh", "common/value.cuh"};
    static const char *const files[] = {"common/value.cuh", "ladder/twice.cuh", "common/value.cuh"};
    assert_int_equal(program.header_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(program.header_names[i], names[i]);
        assert_string_equal(program.headers[i]->name, files[i]);
    }
    jit_program_release(&program);
}

static void test_only_quoted_includes_of_our_own_files_count(void **state)
{
    (void)state;
    static const jit_source sources[] = {
        {"a.cu", "# include \"b.h\"\n  #\tinclude\t\"./c/../c/d.h\" // why\n#include <b.h>\n"
                 "#include \"cuda_fp16.h\"\n#include \"../b.h\"\n#include\n#included \"e.h\"\n"
                 "include \"e.h\"\n#include \"e.h"},
        {"b.h", "#include \"a.cu\""},
        {"c/d.h", ""},
        {"e.h", ""},
    };
    jit_request request = {.file = "a.cu", .architecture = "sm_80"};
    jit_program program = create(sources, 4, &request);
    static const char *const names[] = {"b.h", "./c/../c/d.h", "e.h", "a.cu"};
    assert_int_equal(program.header_count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(program.header_names[i], names[i]);
    jit_program_release(&program);
}

static void test_one_name_for_two_headers_is_refused(void **state)
{
    (void)state;
    static const jit_source sources[] = {
        {"a/k.cu", "#include \"tuning.h\"\n#include \"../b/other.h\"\n"},
        {"a/tuning.h", ""},
        {"b/other.h", "#include \"tuning.h\"\n"},
        {"b/tuning.h", ""},
    };
    jit_request request = {.file = "a/k.cu", .architecture = "sm_80"};
    check_refused(sources, 4, &request, "\"tuning.h\", a/tuning.h and b/tuning.h");
}

static void test_bad_requests_are_refused(void **state)
{
    (void)state;
    jit_request request = jit_fixture_request(value_1, NULL);
    request.file = "ladder/none.cu";
    check_refused(jit_fixture_sources, jit_fixture_source_count, &request, "ladder/none.cu");
    static const char *const architectures[] = {
        "", "sm_", "sm80", "80", "compute_x", "sm_90aa", "sm_80 --x", "smx_80", "sm_80A"};
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        request = jit_fixture_request(value_1, NULL);
        request.architecture = architectures[i];
        check_refused(jit_fixture_sources, jit_fixture_source_count, &request, "architecture = ");
    }
    const char *macros[JIT_MAX_OPTIONS];
    for (int i = 0; i < JIT_MAX_OPTIONS; i++)
        macros[i] = "A";
    request = jit_fixture_request(macros, NULL);
    request.macro_count = JIT_MAX_OPTIONS;
    check_refused(jit_fixture_sources, jit_fixture_source_count, &request, "more than");
}

static void test_too_many_headers_are_refused(void **state)
{
    (void)state;
    static char text[(JIT_MAX_HEADERS + 1) * 32];
    static char names[JIT_MAX_HEADERS + 1][16];
    jit_source sources[JIT_MAX_HEADERS + 2];
    for (int i = 0; i <= JIT_MAX_HEADERS; i++) {
        snprintf(names[i], sizeof names[i], "%d.h", i);
        snprintf(text + strlen(text), 32, "#include \"%d.h\"\n", i);
        sources[i] = (jit_source){names[i], ""};
    }
    sources[JIT_MAX_HEADERS + 1] = (jit_source){"many.cu", text};
    jit_request request = {.file = "many.cu", .architecture = "sm_80"};
    check_refused(sources, JIT_MAX_HEADERS + 2, &request, "more than");
}

/* All that a signature depends on. */
typedef struct inputs {
    jit_source sources[4];
    const char *macros[2];
    int macro_count;
    const char *option;
    const char *architecture;
    const char *compiler;
} inputs;

static inputs plain_inputs(void)
{
    inputs of = {.macros = {"VALUE=1", "WIDE"},
                 .macro_count = 2,
                 .option = "--maxrregcount=64",
                 .architecture = "sm_80",
                 .compiler = "NVRTC 13.0"};
    memcpy(of.sources, jit_fixture_sources, sizeof of.sources);
    return of;
}

static void sign(const inputs *of, char signature[JIT_SIGNATURE_CHARS + 1])
{
    jit_request request = jit_fixture_request(of->macros, &of->option);
    request.macro_count = of->macro_count;
    request.architecture = of->architecture;
    jit_program program = create(of->sources, 4, &request);
    jit_program_sign(&program, of->compiler, signature);
    jit_program_release(&program);
}

static void test_every_input_changes_the_signature(void **state)
{
    (void)state;
    enum { CHANGES = 13 };
    inputs changed[CHANGES];
    for (int i = 0; i < CHANGES; i++)
        changed[i] = plain_inputs();
    int at = 1; /* changed[0] stays plain */
    changed[at++].macros[0] = "VALUE=2";
    changed[at++].macros[1] = "WIDE=1";
    changed[at++].macro_count = 1;
    inputs *swapped = &changed[at++];
    swapped->macros[0] = "WIDE", swapped->macros[1] = "VALUE=1";
    changed[at++].option = "--maxrregcount=65";
    changed[at++].architecture = "sm_80a";
    changed[at++].architecture = "compute_80";
    changed[at++].compiler = "NVRTC 13.1";
    changed[at++].sources[0].text = "#include \"../common/value.cuh\"\n#include \"twice.cuh\"\n";
    changed[at++].sources[1].text = "";
    changed[at++].sources[2].text = "";
    /* A character that moves from one text to the next. */
    inputs *moved = &changed[at++];
    moved->macros[0] = "VALUE=1-", moved->macros[1] = "DWIDE";
    assert_int_equal(at, CHANGES);
    char signatures[CHANGES][JIT_SIGNATURE_CHARS + 1];
    for (int i = 0; i < CHANGES; i++) {
        sign(&changed[i], signatures[i]);
        assert_int_equal(strspn(signatures[i], "0123456789abcdef"), JIT_SIGNATURE_CHARS);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(signatures[i], signatures[j]);
    }
}

static void test_every_byte_of_the_sources_changes_the_signature(void **state)
{
    (void)state;
    char plain[JIT_SIGNATURE_CHARS + 1], changed[JIT_SIGNATURE_CHARS + 1], text[1024];
    inputs of = plain_inputs();
    sign(&of, plain);
    for (int source = 0; source < 3; source++) {
        const char *original = of.sources[source].text;
        for (size_t i = 0; i < strlen(original); i++) {
            snprintf(text, sizeof text, "%s", original);
            text[i] = (char)(text[i] ^ 1);
            of.sources[source].text = text;
            sign(&of, changed);
            assert_string_not_equal(plain, changed);
        }
        of.sources[source].text = original;
    }
    sign(&of, changed);
    assert_string_equal(plain, changed);
}

static void test_what_is_not_read_does_not_change_the_signature(void **state)
{
    (void)state;
    char plain[JIT_SIGNATURE_CHARS + 1], changed[JIT_SIGNATURE_CHARS + 1];
    inputs of = plain_inputs();
    sign(&of, plain);
    of.sources[3].text = "other";
    sign(&of, changed);
    assert_string_equal(plain, changed);
}

static void check_no_compiler(const char *path, const char *words)
{
    jit_kernel kernel;
    jit_request request = jit_fixture_request(value_1, NULL);
    setenv("FLASHCORE_NVRTC", path, 1);
    fc_status status =
        jit_build_from(jit_fixture_sources, jit_fixture_source_count, &request, &kernel);
    unsetenv("FLASHCORE_NVRTC");
    assert_int_equal(status, FC_ERROR_UNSUPPORTED);
    assert_non_null(strstr(fc_last_error(), words));
    assert_non_null(strstr(fc_last_error(), "FLASHCORE_NVRTC"));
    jit_release(&kernel);
}

static void test_without_a_compiler_the_sentence_says_what_to_do(void **state)
{
    (void)state;
    check_no_compiler("/nowhere/libnvrtc.so", "/nowhere/libnvrtc.so");
    check_no_compiler("/nowhere/libnvrtc.so", "CUDA toolkit");
    check_no_compiler("libc.so.6", "no function nvrtc");
}

static void test_the_library_carries_its_sources(void **state)
{
    (void)state;
    static unsigned char content[1 << 16];
    assert_true(jit_source_count > 0);
    for (size_t i = 0; i < jit_source_count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", source_folder, jit_sources[i].name);
        size_t bytes = jit_fixture_read(path, content);
        assert_int_equal(strlen(jit_sources[i].text), bytes);
        assert_memory_equal(jit_sources[i].text, content, bytes);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s src/cuda\n", argv[0]);
        return EXIT_FAILURE;
    }
    source_folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_stand_under_the_names_they_are_included_by),
        cmocka_unit_test(test_only_quoted_includes_of_our_own_files_count),
        cmocka_unit_test(test_one_name_for_two_headers_is_refused),
        cmocka_unit_test(test_bad_requests_are_refused),
        cmocka_unit_test(test_too_many_headers_are_refused),
        cmocka_unit_test(test_every_input_changes_the_signature),
        cmocka_unit_test(test_every_byte_of_the_sources_changes_the_signature),
        cmocka_unit_test(test_what_is_not_read_does_not_change_the_signature),
        cmocka_unit_test(test_without_a_compiler_the_sentence_says_what_to_do),
        cmocka_unit_test(test_the_library_carries_its_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
