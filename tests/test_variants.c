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

/* Hopper's kernels are built for nothing else. */
static int architecture_of(const fc_cuda_variant *variant)
{
    assert_true(variant->report_count > 0);
    return variant->reports[0].architecture;
}

static jit_kernel build_for(const fc_cuda_variant *variant, const char *architecture,
                            const char *extra, const char *option)
{
    char text[512];
    const char *macros[MOST_MACROS];
    snprintf(text, sizeof text, "KERNEL_NAME=%s %s %s", variant->name, variant->macros, extra);
    const jit_request request = {.file = variant->file,
                                 .macros = macros,
                                 .macro_count = split_macros(variant, text, macros),
                                 .options = &option,
                                 .option_count = option != NULL,
                                 .architecture = architecture};
    jit_kernel kernel;
    if (jit_build(&request, &kernel) != FC_OK)
        fail_msg("%s: %s", variant->name, fc_last_error());
    return kernel;
}

static jit_kernel build(const fc_cuda_variant *variant, const char *extra)
{
    return build_for(variant, architecture_of(variant) == 90 ? "sm_90a" : "sm_80", extra, NULL);
}

/* Not optimised, which takes most of the time and does not change a shape. */
static jit_kernel build_ptx(const fc_cuda_variant *variant)
{
    return build_for(variant, architecture_of(variant) == 90 ? "compute_90a" : "compute_80", "",
                     "--Ofast-compile=max");
}

static const fc_cuda_report *report_of(const fc_cuda_variant *variant, const char *kernel)
{
    for (int i = 0; i < variant->report_count; i++)
        if (variant->reports[i].architecture == architecture_of(variant) &&
            strcmp(variant->reports[i].kernel, kernel) == 0)
            return &variant->reports[i];
    fail_msg("%s was not built ahead", kernel);
    return NULL;
}

static kernel_shape shape_in(const jit_kernel *kernel, const char *name)
{
    char variable[JIT_REPORT_NAME_CHARS + 16];
    const void *data;
    size_t bytes;
    kernel_shape shape;
    snprintf(variable, sizeof variable, "%s_shape", name);
    assert_int_equal(
        jit_cubin_variable(kernel->binary, kernel->binary_bytes, variable, &data, &bytes), FC_OK);
    assert_int_equal(bytes, sizeof shape);
    memcpy(&shape, data, sizeof shape);
    return shape;
}

/* Bytes as PTX lists them; it leaves out the last ones that are 0. */
static kernel_shape shape_in_ptx(const char *ptx, const char *name)
{
    char declaration[JIT_REPORT_NAME_CHARS + 32];
    kernel_shape shape = {0};
    unsigned char *bytes = (unsigned char *)&shape;
    snprintf(declaration, sizeof declaration, " %s_shape[%zu] = {", name, sizeof shape);
    const char *at = strstr(ptx, declaration);
    if (!at) {
        fail_msg("PTX has no shape of %s", name);
        return shape;
    }
    at += strlen(declaration);
    for (size_t i = 0; i < sizeof shape && *at != '}'; i++) {
        bytes[i] = (unsigned char)strtol(at, NULL, 10);
        at += strcspn(at, ",}");
        at += *at == ',';
    }
    return shape;
}

static bool is_first_of_its_file(int i)
{
    return i == 0 || strcmp(fc_cuda_variants[i].file, fc_cuda_variants[i - 1].file) != 0;
}

/* Whether it is a variant for f16 of which there is one for bf16: its shape does not depend on
 * that, and the other tests build variants for f16. */
static bool is_twin(const fc_cuda_variant *variant)
{
    const char *type = strstr(variant->name, "_f16");
    char name[JIT_REPORT_NAME_CHARS];
    if (!type)
        return false;
    snprintf(name, sizeof name, "%.*s_bf16", (int)(type - variant->name), variant->name);
    return fc_cuda_find_variant(name) != NULL;
}

/* As PTX: machine code is made of that by the assembler that the build has called for each. */
static void test_variants_build_at_run_time_with_the_same_shape(void **state)
{
    (void)state;
    assert_true(fc_cuda_variant_count >= 2 * FC_LADDER_RUNG_COUNT);
    for (int i = 0; i < fc_cuda_variant_count; i++) {
        const fc_cuda_variant *variant = &fc_cuda_variants[i];
        if (is_twin(variant))
            continue;
        jit_kernel kernel = build_ptx(variant);
        for (int k = 0; k < variant->report_count; k++) {
            const fc_cuda_report *ahead = &variant->reports[k];
            const kernel_shape shape = shape_in_ptx(kernel.binary, ahead->kernel);
            assert_memory_equal(&shape, &ahead->shape, sizeof shape);
        }
        jit_release(&kernel);
    }
}

static void test_machine_code_of_every_file_has_the_same_shape(void **state)
{
    (void)state;
    for (int i = 0; i < fc_cuda_variant_count; i++) {
        if (!is_first_of_its_file(i))
            continue;
        jit_kernel kernel = build(&fc_cuda_variants[i], "");
        const char *log = kernel.log;
        jit_report compiled;
        int kernels = 0;
        for (; jit_report_next(&log, &compiled); kernels++) {
            const fc_cuda_report *ahead = report_of(&fc_cuda_variants[i], compiled.kernel);
            const kernel_shape shape = shape_in(&kernel, compiled.kernel);
            assert_memory_equal(&shape, &ahead->shape, sizeof shape);
        }
        assert_true(kernels > 0);
        jit_release(&kernel);
    }
}

static bool same_binary(const jit_kernel *a, const jit_kernel *b)
{
    return a->binary_bytes == b->binary_bytes && memcmp(a->binary, b->binary, a->binary_bytes) == 0;
}

static void assert_within_budget(const jit_kernel *kernel, const fc_cuda_variant *variant)
{
    const char *log = kernel->log;
    jit_report r;
    int kernels = 0;
    for (; jit_report_next(&log, &r); kernels++) {
        const int shared_bytes = r.static_shared_bytes + shape_in(kernel, r.kernel).shared_bytes;
        if (r.registers > variant->most_registers || shared_bytes > variant->most_shared_bytes ||
            r.spill_store_bytes + r.spill_load_bytes > variant->most_spill_bytes)
            fail_msg("%s takes %d registers, %d bytes of shared memory, %d of spills", r.kernel,
                     r.registers, shared_bytes, r.spill_store_bytes + r.spill_load_bytes);
    }
    assert_true(kernels > 0);
}

/* What a rung adds, and the macro that takes it away. The quantised rung is its inputs. */
static const struct {
    const char *variant;
    const char *macro;
} techniques[] = {
    {"ladder_fused_d64", "USE_ONLINE_SOFTMAX=0"},
    {"ladder_tensor_scores_d64", "USE_TENSOR_SCORES=0"},
    {"ladder_tensor_both_d64", "USE_TENSOR_OUT=0"},
    {"ladder_warp_softmax_d64", "USE_WARP_SOFTMAX=0"},
    {"ladder_wide_loads_d64", "USE_WIDE_ACCESS=0"},
    {"ladder_large_tiles_d64", "QUERY_TILE=32"},
    {"ladder_registers_d64", "USE_REGISTER_WEIGHTS=0"},
    {"ladder_double_buffer_d64", "USE_CP_ASYNC=0"},
    {"ladder_three_stages_d64", "STAGES=2"},
    {"ladder_swizzle_d64", "USE_SWIZZLE=0"},
    {"ladder_specialised_d64", "USE_SPECIALISED=0"},
    {"ladder_persistent_d64", "USE_PERSISTENT=0"},
    {"ladder_split_keys_d64", "USE_SPLIT_KEYS=0"},
};

/* A stale cache would make two of them one binary. */
static void test_every_rung_can_be_built_without_its_technique(void **state)
{
    (void)state;
    const size_t count = sizeof techniques / sizeof *techniques;
    assert_int_equal(count, FC_LADDER_RUNG_COUNT - 2);
    for (size_t i = 0; i < count; i++) {
        const fc_cuda_variant *variant = fc_cuda_find_variant(techniques[i].variant);
        assert_non_null(variant);
        jit_kernel with = build(variant, ""), without = build(variant, techniques[i].macro);
        assert_string_not_equal(with.signature, without.signature);
        if (same_binary(&with, &without))
            fail_msg("%s is the same with %s", variant->name, techniques[i].macro);
        assert_within_budget(&without, variant);
        assert_int_equal(shape_in(&without, variant->name).grid, GRID_TILES);
        jit_release(&with);
        jit_release(&without);
    }
}

int main(void)
{
    char directory[] = "/tmp/test-variants-XXXXXX";
    if (!mkdtemp(directory) || setenv("FLASHCORE_CACHE", directory, 1))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants_build_at_run_time_with_the_same_shape),
        cmocka_unit_test(test_machine_code_of_every_file_has_the_same_shape),
        cmocka_unit_test(test_every_rung_can_be_built_without_its_technique),
    };
    const int failed = cmocka_run_group_tests_name("variants", tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) ? 1 : failed;
}
