#include "fixture.h"

#include "elements.h"

#include <math.h>
#include <stdlib.h>

static fc_context *context;

int fixture_open_context(void **state)
{
    (void)state;
    fc_context_options options = fc_context_options_init();
    options.threads = 1;
    options.kernel = "reference,reference_backward";
    return fc_context_create(&options, &context) == FC_OK ? 0 : -1;
}

int fixture_close_context(void **state)
{
    (void)state;
    fc_context_destroy(context);
    return 0;
}

void fixture_ok(fc_status status, const char *call)
{
    if (status != FC_OK)
        fail_msg("%s: %s: %s", call, fc_status_name(status), fc_last_error());
}

fc_plan *fixture_plan(const fc_attention *problem)
{
    fc_plan *plan = NULL;
    fixture_ok(fc_plan_create(context, problem, &plan), "fc_plan_create");
    return plan;
}

static size_t workspace_bytes(const fc_plan *plan, fc_direction direction)
{
    size_t unit = FC_WORKSPACE_ALIGNMENT;
    return (fc_plan_workspace_bytes(plan, direction) + unit) / unit * unit;
}

void fixture_run(const fc_plan *plan, const fc_buffers *buffers, const fc_gradients *gradients)
{
    size_t forward_bytes = workspace_bytes(plan, FC_FORWARD);
    size_t backward_bytes = gradients != NULL ? workspace_bytes(plan, FC_BACKWARD) : 0;
    fc_buffers with_workspace = *buffers;
    with_workspace.workspace_bytes =
        forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
    with_workspace.workspace =
        aligned_alloc(FC_WORKSPACE_ALIGNMENT, with_workspace.workspace_bytes);
    assert_non_null(with_workspace.workspace);
    fc_status forward = fc_plan_forward(plan, &with_workspace, NULL);
    fc_status backward = FC_OK;
    if (forward == FC_OK && gradients != NULL)
        backward = fc_plan_backward(plan, &with_workspace, gradients, NULL);
    free(with_workspace.workspace);
    fixture_ok(forward, "fc_plan_forward");
    fixture_ok(backward, "fc_plan_backward");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

int64_t fixture_value_dim(const fixture *f)
{
    return f->problem.value_dim != 0 ? f->problem.value_dim : f->problem.head_dim;
}

int64_t fixture_row_count(const fixture *f)
{
    const fc_attention *p = &f->problem;
    return p->q_heads * (p->packed_q ? p->packed_q_rows : p->batch * p->q_length);
}

int64_t fixture_q_count(const fixture *f, int64_t dims)
{
    return fixture_row_count(f) * dims;
}

int64_t fixture_kv_count(const fixture *f, int64_t dims)
{
    const fc_attention *p = &f->problem;
    int64_t rows = p->batch * p->kv_length;
    if (p->packed_kv)
        rows = p->packed_kv_rows;
    else if (p->paged)
        rows = p->page_count * p->page_size;
    return rows * p->kv_heads * dims;
}

static void fill_doubles(double *array, int64_t count, uint64_t seed)
{
    assert_in_range(count, 1, FIXTURE_ELEMENTS);
    for (int64_t i = 0; i < FIXTURE_ELEMENTS; i++)
        array[i] = i < count ? element_generate(FC_F64, seed, i) : (double)NAN;
}

static void fill_floats(float *array, uint64_t seed)
{
    for (int64_t i = 0; i < FIXTURE_ELEMENTS; i++)
        array[i] = (float)element_generate(FC_F32, seed, i);
}

void fixture_fill(fixture *f)
{
    int64_t head_dim = f->problem.head_dim;
    int64_t value_dim = fixture_value_dim(f);
    fill_doubles(f->q, fixture_q_count(f, head_dim), 1);
    fill_doubles(f->k, fixture_kv_count(f, head_dim), 2);
    fill_doubles(f->v, fixture_kv_count(f, value_dim), 3);
    fill_doubles(f->dout, fixture_q_count(f, value_dim), 4);
    fill_floats(f->bias, 5);
    fill_floats(f->alibi, 6);
    fill_floats(f->sinks, 7);
    for (int64_t i = 0; i < FIXTURE_ELEMENTS; i++)
        f->mask[i] = element_generate(ELEMENT_U8, 8, i) != 0;
}

fixture fixture_make(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_length,
                     int64_t kv_length, int64_t head_dim)
{
    fixture f;
    memset(&f, 0, sizeof f);
    f.problem = fc_attention_init();
    f.problem.batch = batch;
    f.problem.q_heads = q_heads;
    f.problem.kv_heads = kv_heads;
    f.problem.q_length = q_length;
    f.problem.kv_length = kv_length;
    f.problem.head_dim = head_dim;
    f.problem.q_type = FC_F64;
    fixture_fill(&f);
    return f;
}

/* ---- Running --------------------------------------------------------------------------------- */

fc_buffers fixture_buffers(const fixture *f)
{
    const fc_attention *p = &f->problem;
    fc_buffers buffers = fc_buffers_init();
    buffers.q = f->q;
    buffers.k = f->k;
    buffers.v = f->v;
    buffers.out = (void *)f->out;
    buffers.lse = (float *)f->lse;
    buffers.alibi = p->has_alibi ? f->alibi : NULL;
    buffers.bias = p->has_bias ? f->bias : NULL;
    buffers.mask = p->has_mask ? f->mask : NULL;
    buffers.sinks = p->has_sinks ? f->sinks : NULL;
    buffers.cu_q = p->packed_q ? f->cu_q : NULL;
    buffers.cu_kv = p->packed_kv ? f->cu_kv : NULL;
    buffers.kv_lengths = p->has_kv_lengths ? f->kv_lengths : NULL;
    buffers.page_table = p->paged ? f->page_table : NULL;
    buffers.dropout_seed = f->dropout_seed;
    buffers.dropout_offset = f->dropout_offset;
    return buffers;
}

static fc_gradients gradients_of(fixture *f)
{
    fc_gradients gradients = fc_gradients_init();
    gradients.dout = f->dout;
    gradients.dq = f->dq;
    gradients.dk = f->dk;
    gradients.dv = f->dv;
    gradients.dbias = f->problem.has_bias ? f->dbias : NULL;
    gradients.dsinks = f->problem.has_sinks ? f->dsinks : NULL;
    return gradients;
}

void fixture_forward(fixture *f)
{
    fc_plan *plan = fixture_plan(&f->problem);
    fc_buffers buffers = fixture_buffers(f);
    fixture_run(plan, &buffers, NULL);
    fc_plan_destroy(plan);
}

void fixture_backward(fixture *f)
{
    fc_plan *plan = fixture_plan(&f->problem);
    fc_buffers buffers = fixture_buffers(f);
    fc_gradients gradients = gradients_of(f);
    fixture_run(plan, &buffers, &gradients);
    fc_plan_destroy(plan);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void check_near(double got, double want, double tolerance, const char *format,
                       va_list arguments)
{
    if (got == want || fabs(got - want) <= tolerance)
        return;
    char what[256];
    vsnprintf(what, sizeof what, format, arguments);
    fail_msg("%s: got %.15g, expected %.15g (tolerance %.2g)", what, got, want, tolerance);
}

void expect_near(double got, double want, double tolerance, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    check_near(got, want, tolerance, format, arguments);
    va_end(arguments);
}

void expect_near_f32(double got, double want, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* Both may have been rounded to FP32: half a unit in the last place each is 2⁻²³ of the value.
     */
    check_near(got, want, FIXTURE_TOLERANCE + ldexp(fabs(want), -23), format, arguments);
    va_end(arguments);
}

void expect_same_result(const fixture *got, const fixture *want, const char *what)
{
    int64_t rows = fixture_row_count(want);
    int64_t count = fixture_q_count(want, fixture_value_dim(want));
    for (int64_t i = 0; i < count; i++)
        expect_near(got->out[i], want->out[i], FIXTURE_TOLERANCE, "%s: out[%lld]", what,
                    (long long)i);
    for (int64_t i = 0; i < rows; i++)
        expect_near_f32((double)got->lse[i], (double)want->lse[i], "%s: lse[%lld]", what,
                        (long long)i);
}
