/* test_cpu_decode.c: what the CPU's decode kernels promise where the case list has many rows only:
 * strange values, weights that differ by orders of magnitude, dropout that leaves next to nothing.
 *
 * usage: test_cpu_decode [KERNEL]: that one, or all that this processor has */
#include "cases.h"
#include "check.h"

#include "core/convert.h"
#include "cpu/features.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h> /* after what it needs */

typedef struct decode_kernel {
    const char *name;
    fc_cpu_level level;
    fc_type type; /* where it takes no other */
} decode_kernel;

static const decode_kernel kernels[] = {
    {"cpu_plain_decode", FC_CPU_PLAIN, FC_TYPE_AUTO},
#if defined(__aarch64__)
    {"cpu_neon_decode", FC_CPU_NEON, FC_TYPE_AUTO},
    {"cpu_neonfhm_decode", FC_CPU_NEONFHM, FC_F16},
#elif defined(__x86_64__)
    {"cpu_avx2_decode", FC_CPU_AVX2, FC_TYPE_AUTO},
    {"cpu_avx512_decode", FC_CPU_AVX512, FC_TYPE_AUTO},
#endif
};

static const char *wanted; /* NULL: all */

static fc_context *open_context(const char *kernel)
{
    fc_context_options options = fc_context_options_init();
    fc_context *context;
    options.kernel = kernel;
    assert_int_equal(fc_context_create(&options, &context), FC_OK);
    return context;
}

typedef void (*decode_test)(const decode_kernel *kernel, fc_context *context);

static void on_every_kernel(decode_test test)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (wanted && strcmp(wanted, kernels[i].name) != 0)
            continue;
        if (!fc_cpu_has(kernels[i].level)) {
            if (wanted)
                fail_msg("this processor does not have %s", wanted);
            continue;
        }
        fc_context *context = open_context(kernels[i].name);
        test(&kernels[i], context);
        fc_context_destroy(context);
    }
}

static void expect_passed(fc_context *context, const fc_case *c)
{
    check_result result;
    check_case(context, c, &result);
    if (result.outcome != CHECK_PASSED)
        fail_msg("%s with few rows: %s", c->name, result.reason);
}

/* Seven rows: four together and three alone. 71 keys are a block, and a rest that fours do not
 * fill; of 13 the strange one in the middle is hidden from all rows but the last, and dims of 61
 * end in the middle of a vector. */
static void make_few_rows(fc_case *c)
{
    fc_attention *p = &c->problem;
    p->q_length = 7;
    p->kv_length = p->causal ? 13 : 71;
    p->head_dim = p->value_dim = p->causal ? 61 : 64;
    p->diagonal = FC_TOP_LEFT;
    c->backward = false;
    for (int i = 0; i < CASE_LENGTHS; i++) {
        c->q_lengths[i] = p->q_length;
        c->kv_lengths[i] = p->kv_length;
    }
}

static void check_values(const decode_kernel *kernel, fc_context *context)
{
    int checked = 0;
    for (size_t i = 0; i < case_count(); i++) {
        fc_case c;
        case_get(i, &c);
        if (strcmp(c.group, "values") != 0 || (kernel->type && c.problem.q_type != kernel->type))
            continue;
        make_few_rows(&c);
        expect_passed(context, &c);
        checked++;
    }
    assert_true(checked >= 24); /* of 12 kinds, causal or not, one type at least */
}

static void test_few_rows_bear_every_kind_of_values(void **state)
{
    (void)state;
    on_every_kernel(check_values);
}

static fc_attention make_problem(int64_t q_length, int64_t kv_length)
{
    fc_attention problem = fc_attention_init();
    problem.batch = problem.q_heads = problem.kv_heads = 1;
    problem.q_length = q_length;
    problem.kv_length = kv_length;
    problem.head_dim = 8;
    problem.q_type = FC_F16;
    return problem;
}

/* What is kept is multiplied by 4000, beyond what f16 could hold. */
static void check_dropout(const decode_kernel *kernel, fc_context *context)
{
    (void)kernel;
    fc_attention problem = make_problem(5, 2000);
    fc_case c;
    problem.dropout_p = 0.99975f;
    case_from_problem(&problem, &c);
    expect_passed(context, &c);
}

static void test_dropout_may_leave_next_to_nothing(void **state)
{
    (void)state;
    on_every_kernel(check_dropout);
}

/* One row of f16, and floats out. */
enum { MOST_KEYS = 256, DIM = 24 };

typedef struct inputs {
    uint16_t q[DIM], k[MOST_KEYS][DIM], v[MOST_KEYS][DIM];
} inputs;

static void attend(fc_context *context, int64_t keys, const inputs *in, float out[DIM])
{
    fc_attention problem = make_problem(1, keys);
    problem.head_dim = DIM;
    problem.scale = 1;
    problem.out_type = FC_F32;
    fc_plan *plan;
    assert_int_equal(fc_plan_create(context, &problem, &plan), FC_OK);
    fc_buffers buffers = fc_buffers_init();
    buffers.q = in->q;
    buffers.k = in->k;
    buffers.v = in->v;
    buffers.out = out;
    const size_t units = fc_plan_workspace_bytes(plan, FC_FORWARD) / FC_WORKSPACE_ALIGNMENT + 1;
    buffers.workspace_bytes = units * FC_WORKSPACE_ALIGNMENT;
    buffers.workspace = aligned_alloc(FC_WORKSPACE_ALIGNMENT, buffers.workspace_bytes);
    assert_non_null(buffers.workspace);
    assert_int_equal(fc_plan_forward(plan, &buffers, NULL), FC_OK);
    free(buffers.workspace);
    fc_plan_destroy(plan);
}

static void expect_like_reference(fc_context *context, int64_t keys, const inputs *in,
                                  double tolerance)
{
    float out[DIM], truth[DIM];
    fc_context *reference = open_context("reference");
    attend(context, keys, in, out);
    attend(reference, keys, in, truth);
    fc_context_destroy(reference);
    for (int i = 0; i < DIM; i++)
        if (!(fabs((double)out[i] - (double)truth[i]) <= tolerance * fabs((double)truth[i])))
            fail_msg("out[%d] is %.9g, expected %.9g", i, (double)out[i], (double)truth[i]);
}

/* One key has the weight 1 and the value 0, all others of the chunk 2^-26.3 and 1: they are the
 * output. */
static void check_small_weights(const decode_kernel *kernel, fc_context *context)
{
    (void)kernel;
    inputs in = {.q = {fc_f16_from_double(1)}, .k = {{fc_f16_from_double(18.23)}}};
    for (int key = 1; key < MOST_KEYS; key++)
        for (int i = 0; i < DIM; i++)
            in.v[key][i] = fc_f16_from_double(1);
    expect_like_reference(context, MOST_KEYS, &in, 1e-3);
}

static void test_small_weights_add_up(void **state)
{
    (void)state;
    on_every_kernel(check_small_weights);
}

/* Numbers of one sign, so that no sum is small beside what it is made of. 13 weights that were
 * rounded to 16 bits would be wrong by 1e-4. */
static void check_digits(const decode_kernel *kernel, fc_context *context)
{
    (void)kernel;
    enum { KEYS = 13 };
    inputs in = {0};
    uint32_t seed = 1;
    for (int key = 0; key < KEYS; key++)
        for (int i = 0; i < DIM; i++) {
            in.q[i] = fc_f16_from_double(0.25);
            in.k[key][i] = fc_f16_from_double((double)(seed >> 8) * 0x1p-24);
            in.v[key][i] = fc_f16_from_double((double)(seed >> 8) * 0x1p-24 + (i & 4));
            seed = seed * 1664525u + 1013904223u;
        }
    expect_like_reference(context, KEYS, &in, 1e-6);
}

static void test_weights_keep_their_digits(void **state)
{
    (void)state;
    on_every_kernel(check_digits);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_rows_bear_every_kind_of_values),
        cmocka_unit_test(test_dropout_may_leave_next_to_nothing),
        cmocka_unit_test(test_small_weights_add_up),
        cmocka_unit_test(test_weights_keep_their_digits),
    };
    wanted = count > 1 ? words[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
