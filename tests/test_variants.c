/* test_variants.c: what is built ahead and what is built at run time are the same kernels. */
#include "cuda/ladder/ladder.h"
#include "cuda/variants.h"
#include "jit/cubin.h"
#include "jit/jit.h"
#include "jit/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_MACROS = 16 };

/* Cuts words, which the macros then point into. */
static int split_macros(const fc_cuda_variant *variant, char *words, const char **macros)
{
    int count = 0;
    for (char *word = strtok(words, " "); word && count < MOST_MACROS; word = strtok(NULL, " "))
        macros[count++] = word;
    assert_true(count > 0 && variant->name[0]);
    return count;
}

static jit_kernel build(const fc_cuda_variant *variant, const char *extra)
{
    char text[512];
    const char *macros[MOST_MACROS];
    snprintf(text, sizeof text, "KERNEL_NAME=%s %s %s", variant->name, variant->macros, extra);
    const jit_request request = {.file = variant->file,
                                 .macros = macros,
                                 .macro_count = split_macros(variant, text, macros),
                                 .architecture = "sm_80"};
    jit_kernel kernel;
    if (jit_build(&request, &kernel) != FC_OK)
        fail_msg("%s: %s", variant->name, fc_last_error());
    return kernel;
}

static const fc_cuda_report *report_of(const fc_cuda_variant *variant, const char *kernel)
{
    for (int i = 0; i < variant->report_count; i++)
        if (variant->reports[i].architecture == 80 &&
            strcmp(variant->reports[i].kernel, kernel) == 0)
            return &variant->reports[i];
    fail_msg("%s was not built ahead for sm_80", kernel);
    return NULL;
}

static void test_every_variant_builds_at_run_time_with_the_same_shape(void **state)
{
    (void)state;
    assert_true(fc_cuda_variant_count >= 2 * FC_LADDER_RUNG_COUNT);
    for (int i = 0; i < fc_cuda_variant_count; i++) {
        jit_kernel kernel = build(&fc_cuda_variants[i], "");
        const char *log = kernel.log;
        jit_report compiled;
        int kernels = 0;
        for (; jit_report_next(&log, &compiled); kernels++) {
            const fc_cuda_report *ahead = report_of(&fc_cuda_variants[i], compiled.kernel);
            char name[JIT_REPORT_NAME_CHARS + 16];
            const void *shape;
            size_t bytes;
            snprintf(name, sizeof name, "%s_shape", compiled.kernel);
            assert_int_equal(
                jit_cubin_variable(kernel.binary, kernel.binary_bytes, name, &shape, &bytes),
                FC_OK);
            assert_int_equal(bytes, sizeof ahead->shape);
            assert_memory_equal(shape, &ahead->shape, sizeof ahead->shape);
        }
        assert_true(kernels > 0);
        jit_release(&kernel);
    }
}

/* The stale cache of the past: two "variants" that were one binary. */
static void test_a_macro_changes_the_binary(void **state)
{
    (void)state;
    const fc_cuda_variant *variant = fc_cuda_find_variant("ladder_swizzle_d64");
    assert_non_null(variant);
    jit_kernel with = build(variant, ""), without = build(variant, "USE_SWIZZLE=0"),
               stages = build(variant, "STAGES=2");
    assert_string_not_equal(with.signature, without.signature);
    assert_string_not_equal(with.signature, stages.signature);
    assert_true(with.binary_bytes != without.binary_bytes ||
                memcmp(with.binary, without.binary, with.binary_bytes) != 0);
    assert_true(with.binary_bytes != stages.binary_bytes ||
                memcmp(with.binary, stages.binary, with.binary_bytes) != 0);
    jit_release(&with);
    jit_release(&without);
    jit_release(&stages);
}

int main(void)
{
    char directory[] = "/tmp/flashcore-variants-XXXXXX";
    if (!mkdtemp(directory) || setenv("FLASHCORE_CACHE", directory, 1))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant_builds_at_run_time_with_the_same_shape),
        cmocka_unit_test(test_a_macro_changes_the_binary),
    };
    const int failed = cmocka_run_group_tests_name("variants", tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) ? 1 : failed;
}
