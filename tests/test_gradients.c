/* test_gradients.c: the gradients of the reference are the slopes of its forward pass, for every
 * pair of features and every layout. */
#include "fixture.h"

#include <math.h>

/* The sixth-order central difference: its error falls with STEP⁶, below 1e-10 for these problems,
 * and the rounding of a sum near 10 divided by STEP is below 1e-11. STEP is a power of two, so that
 * FP32 inputs, multiples of 1/16, take it exactly. */
#define STEP 0x1p-8
#define GRADIENT_TOLERANCE 1e-9

/* ---- Differences ----------------------------------------------------------------------------- */

typedef struct differences {
    fixture *f;
    fc_plan *plan;
    fc_buffers buffers;
    const char *layout;
    const char *features[2];
} differences;

/* What the gradients are of: Σ dout · out. */
static double project(const differences *of)
{
    fixture_run(of->plan, &of->buffers, NULL);
    double sum = 0;
    for (int64_t i = 0; i < fixture_q_count(of->f, fixture_value_dim(of->f)); i++)
        sum += of->f->dout[i] * of->f->out[i];
    return sum;
}

static double combine(const double at[7])
{
    return ((at[6] - at[0]) - 9 * (at[5] - at[1]) + 45 * (at[4] - at[2])) / (60 * STEP);
}

static double slope_f64(const differences *of, double *input)
{
    double kept = *input, at[7];
    for (int i = 0; i < 7; i++) {
        *input = kept + (i - 3) * STEP;
        at[i] = project(of);
    }
    *input = kept;
    return combine(at);
}

static double slope_f32(const differences *of, float *input)
{
    float kept = *input;
    double at[7];
    for (int i = 0; i < 7; i++) {
        *input = kept + (float)((i - 3) * STEP);
        at[i] = project(of);
    }
    *input = kept;
    return combine(at);
}

static void check_f64(const differences *of, const char *name, const double *gradient,
                      double *inputs, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        expect_near(gradient[i], slope_f64(of, &inputs[i]), GRADIENT_TOLERANCE,
                    "%s, %s, %s: %s[%lld] is not the slope of the forward pass", of->layout,
                    of->features[0], of->features[1], name, (long long)i);
}

static void check_f32(const differences *of, const char *name, const float *gradient, float *inputs,
                      int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double slope = slope_f32(of, &inputs[i]);
        expect_near((double)gradient[i], slope, GRADIENT_TOLERANCE + ldexp(fabs(slope), -24),
                    "%s, %s, %s: %s[%lld] is not the slope of the forward pass", of->layout,
                    of->features[0], of->features[1], name, (long long)i);
    }
}

static void check_gradients(fixture *f, const char *layout, const char *first, const char *second)
{
    fixture_backward(f);
    differences of = {.f = f,
                      .plan = fixture_plan(&f->problem),
                      .buffers = fixture_buffers(f),
                      .layout = layout,
                      .features = {first, second}};
    int64_t head_dim = f->problem.head_dim, value_dim = fixture_value_dim(f);
    check_f64(&of, "dq", f->dq, f->q, fixture_q_count(f, head_dim));
    check_f64(&of, "dk", f->dk, f->k, fixture_kv_count(f, head_dim));
    check_f64(&of, "dv", f->dv, f->v, fixture_kv_count(f, value_dim));
    if (f->problem.has_bias)
        check_f32(&of, "dbias", f->dbias, f->bias, f->problem.q_heads * f->problem.kv_length);
    if (f->problem.has_sinks)
        check_f32(&of, "dsinks", f->dsinks, f->sinks, f->problem.q_heads);
    fc_plan_destroy(of.plan);
}

/* ---- Features and layouts -------------------------------------------------------------------- */

static void add_nothing(fixture *f)
{
    (void)f;
}

static void add_causal(fixture *f)
{
    f->problem.causal = 1;
}

static void add_top_left(fixture *f)
{
    f->problem.causal = 1;
    f->problem.diagonal = FC_TOP_LEFT;
}

static void add_window(fixture *f)
{
    f->problem.has_window = 1;
    f->problem.window_left = 1;
}

static void add_scale(fixture *f)
{
    f->problem.scale = 0.375f;
}

static void add_softcap(fixture *f)
{
    f->problem.softcap = 1.5f;
}

static void add_alibi(fixture *f)
{
    f->problem.has_alibi = 1;
}

/* Shared by sequences and rows, which dbias sums over. */
static void add_bias(fixture *f)
{
    f->problem.has_bias = 1;
    f->problem.bias_strides = (fc_broadcast){.head = f->problem.kv_length};
}

static void add_mask(fixture *f)
{
    f->problem.has_mask = 1;
    f->problem.mask_strides = (fc_broadcast){.row = f->problem.kv_length, .head = 1};
}

static void add_sinks(fixture *f)
{
    f->problem.has_sinks = 1;
}

static void add_dropout(fixture *f)
{
    f->problem.dropout_p = 0.375f;
    f->dropout_seed = 0x243f6a8885a308d3u;
    f->dropout_offset = 42;
}

static const struct {
    const char *name;
    void (*add)(fixture *f);
} features[] = {
    {"nothing else", add_nothing}, {"causal", add_causal},   {"top left", add_top_left},
    {"window", add_window},        {"scale", add_scale},     {"softcap", add_softcap},
    {"ALiBi", add_alibi},          {"bias", add_bias},       {"mask", add_mask},
    {"sinks", add_sinks},          {"dropout", add_dropout},
};

enum { FEATURE_COUNT = sizeof features / sizeof features[0] };

static fixture make_dense(void)
{
    return fixture_make(1, 2, 1, 3, 4, 2);
}

static fixture make_padded(void)
{
    fixture f = fixture_make(2, 2, 2, 2, 3, 2);
    f.problem.has_kv_lengths = 1;
    f.problem.value_dim = 3;
    f.kv_lengths[0] = 1;
    f.kv_lengths[1] = 3;
    fixture_fill(&f);
    return f;
}

static fixture make_packed(void)
{
    static const int32_t cu_q[] = {0, 2, 2, 4}, cu_kv[] = {0, 3, 4, 5};
    fixture f = fixture_make(3, 2, 1, 2, 3, 2);
    memcpy(f.cu_q, cu_q, sizeof cu_q);
    memcpy(f.cu_kv, cu_kv, sizeof cu_kv);
    f.problem.packed_q = f.problem.packed_kv = 1;
    f.problem.packed_q_rows = 4;
    f.problem.packed_kv_rows = 5;
    fixture_fill(&f);
    return f;
}

/* Both sequences hold page 3. */
static fixture make_paged(void)
{
    static const int32_t page_table[] = {3, 1, 0, 3};
    fixture f = fixture_make(2, 2, 1, 2, 4, 2);
    memcpy(f.page_table, page_table, sizeof page_table);
    f.problem.paged = f.problem.has_kv_lengths = 1;
    f.problem.page_size = 2;
    f.problem.page_count = 4;
    f.kv_lengths[0] = 3;
    f.kv_lengths[1] = 4;
    fixture_fill(&f);
    return f;
}

static void check_pair(fixture (*make)(void), const char *layout, int first, int second)
{
    fixture f = make();
    features[first].add(&f);
    features[second].add(&f);
    check_gradients(&f, layout, features[first].name, features[second].name);
}

static void test_dense_gradients_are_slopes(void **state)
{
    (void)state;
    for (int first = 0; first < FEATURE_COUNT; first++)
        for (int second = 0; second <= first; second++)
            check_pair(make_dense, "dense", first, second);
}

static void test_padded_gradients_are_slopes(void **state)
{
    (void)state;
    for (int feature = 0; feature < FEATURE_COUNT; feature++)
        check_pair(make_padded, "padded", feature, 0);
}

static void test_packed_gradients_are_slopes(void **state)
{
    (void)state;
    for (int feature = 0; feature < FEATURE_COUNT; feature++)
        check_pair(make_packed, "packed", feature, 0);
}

static void test_paged_gradients_are_slopes(void **state)
{
    (void)state;
    for (int feature = 0; feature < FEATURE_COUNT; feature++)
        check_pair(make_paged, "paged", feature, 0);
}

static void test_gradients_of_everything_are_slopes(void **state)
{
    (void)state;
    fixture (*const layouts[])(void) = {make_dense, make_padded, make_packed, make_paged};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        fixture f = layouts[i]();
        for (int feature = 0; feature < FEATURE_COUNT; feature++)
            features[feature].add(&f);
        check_gradients(&f, "any layout", "every feature", "at once");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_gradients_are_slopes),
        cmocka_unit_test(test_padded_gradients_are_slopes),
        cmocka_unit_test(test_packed_gradients_are_slopes),
        cmocka_unit_test(test_paged_gradients_are_slopes),
        cmocka_unit_test(test_gradients_of_everything_are_slopes),
    };
    return cmocka_run_group_tests(tests, fixture_open_context, fixture_close_context);
}
