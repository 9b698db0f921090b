/* test_jit_report.c: the assembler's words, as nvcc and NVRTC pass them on. */
#include "jit/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after what it needs */

static void check(const jit_report *report, const char *kernel, const char *architecture,
                  const int numbers[6])
{
    assert_string_equal(report->kernel, kernel);
    assert_string_equal(report->architecture, architecture);
    assert_int_equal(report->registers, numbers[0]);
    assert_int_equal(report->barriers, numbers[1]);
    assert_int_equal(report->static_shared_bytes, numbers[2]);
    assert_int_equal(report->stack_bytes, numbers[3]);
    assert_int_equal(report->spill_store_bytes, numbers[4]);
    assert_int_equal(report->spill_load_bytes, numbers[5]);
}

static void check_next(const char **text, const char *kernel, const char *architecture,
                       const int numbers[6])
{
    jit_report report;
    assert_true(jit_report_next(text, &report));
    check(&report, kernel, architecture, numbers);
}

static void check_end(const char **text)
{
    jit_report report;
    assert_false(jit_report_next(text, &report));
}

static void test_nvrtc(void **state)
{
    (void)state;
    const char *text =
        "swizzle.cu(7): warning #177-D: variable \"unused\" was declared but never referenced\n"
        "ptxas info    : 16 bytes gmem, 8 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'merge' for 'sm_90a'\n"
        "ptxas info    : Function properties for merge\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 1 barriers, 16 bytes smem, 360 bytes cmem[0]\n"
        "ptxas info    : Compile time = 1.845 ms\n"
        "ptxas info    : Compiling entry function 'attend' for 'sm_90a'\n"
        "ptxas info    : Function properties for attend\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 0 barriers\n";
    check_next(&text, "merge", "sm_90a", (int[]){10, 1, 16, 0, 0, 0});
    check_next(&text, "attend", "sm_90a", (int[]){168, 0, 0, 0, 0, 0});
    check_end(&text);
}

/* Several architectures in one text; the functions a kernel calls come after it. */
static void test_nvcc(void **state)
{
    (void)state;
    const char *text =
        "ptxas info    : Overriding maximum register limit 256 for 'k' with  32 of maxrregcount\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'spills' for 'sm_80'\n"
        "ptxas info    : Function properties for spills\n"
        "    2384 bytes stack frame, 2124 bytes spill stores, 2716 bytes spill loads\n"
        "ptxas info    : Used 64 registers, used 1 barriers, 2384 bytes cumulative stack size, 364 "
        "bytes cmem[0]\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_89'\n"
        "ptxas info    : Function properties for k\n"
        "    256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 1 barriers, 288 bytes cumulative stack size, 16 "
        "bytes smem, 364 bytes cmem[0]\n"
        "ptxas info    : Compile time = 19.521 ms\n"
        "ptxas info    : Function properties for k_helper\n"
        "    4096 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n";
    check_next(&text, "spills", "sm_80", (int[]){64, 1, 0, 2384, 2124, 2716});
    check_next(&text, "k", "sm_89", (int[]){32, 1, 16, 288, 0, 0});
    check_end(&text);
}

/* Before CUDA 12 barriers were told only where there were any, and not in this form. */
static void test_older_form(void **state)
{
    (void)state;
    const char *text =
        "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\r\n"
        "ptxas info    : Function properties for _Z1kPf\r\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\r\n"
        "ptxas info    : Used 8 registers, 4096 bytes smem, 360 bytes cmem[0], 2 textures\r\n";
    check_next(&text, "_Z1kPf", "sm_80", (int[]){8, 0, 4096, 0, 0, 0});
    check_end(&text);
}

static void test_what_is_not_said_is_not_zero(void **state)
{
    (void)state;
    const char *nothing = "", *other = "nvcc warning : something\n";
    check_end(&nothing);
    check_end(&other);
    const char *broken = "ptxas info    : Compiling entry function 'k' for 'sm_80'";
    check_next(&broken, "k", "sm_80", (int[]){-1, -1, -1, -1, -1, -1});
    check_end(&broken);
    const char *half = "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
                       "ptxas info    : Function properties for k\n"
                       "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
    check_next(&half, "k", "sm_80", (int[]){-1, -1, -1, 0, 0, 0});
    check_end(&half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvrtc),
        cmocka_unit_test(test_nvcc),
        cmocka_unit_test(test_older_form),
        cmocka_unit_test(test_what_is_not_said_is_not_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
