/* truth.c: see truth.h. */
#include "truth.h"

#include <stdlib.h>

fc_status lab_truth_context(fc_context **context)
{
    fc_context_options options = fc_context_options_init();
    options.kernel = "reference,reference_backward";
    return fc_context_create(&options, context);
}

/* Dropout numbers its weights by the sequence's place in the batch. The truth keeps that place by
 * repeating the sequence up to it (stride 0), and only the last copy is used. */
static int64_t copies(const fc_attention *problem, const lab_sequence *s)
{
    return problem->dropout_p > 0 ? s->b + 1 : 1;
}

static fc_attention dense_problem(const fc_attention *p, const lab_sequence *s)
{
    fc_attention dense = fc_attention_init();
    dense.batch = copies(p, s);
    dense.q_heads = p->q_heads;
    dense.kv_heads = p->kv_heads;
    dense.q_length = s->q_rows;
    dense.kv_length = s->kv_rows;
    dense.head_dim = p->head_dim;
    dense.value_dim = p->value_dim;
    dense.q_type = FC_F64;
    dense.q_strides = (fc_strides){0, s->q_rows * p->head_dim, p->head_dim, 1};
    dense.k_strides = (fc_strides){0, s->kv_rows * p->head_dim, p->head_dim, 1};
    dense.v_strides = (fc_strides){0, s->kv_rows * p->value_dim, p->value_dim, 1};
    dense.scale = p->scale;
    dense.softcap = p->softcap;
    dense.dropout_p = p->dropout_p;
    dense.causal = p->causal;
    dense.diagonal = p->diagonal;
    dense.has_window = p->has_window;
    dense.window_left = p->window_left;
    dense.window_right = p->window_right;
    dense.has_alibi = p->has_alibi;
    dense.has_sinks = p->has_sinks;
    const fc_broadcast scores = {0, s->q_rows * s->kv_rows, s->kv_rows, 1};
    if (p->has_bias) {
        dense.has_bias = 1;
        dense.bias_type = FC_F64;
        dense.bias_strides = scores;
    }
    if (p->has_mask) {
        dense.has_mask = 1;
        dense.mask_strides = scores;
    }
    return dense;
}

/* Everything the dense problem writes, all copies of it. */
typedef struct dense_outputs {
    double *out, *dq, *dk, *dv;
    float *lse, *dbias, *dsinks;
} dense_outputs;

static dense_outputs make_outputs(const fc_attention *d)
{
    const int64_t q_rows = d->batch * d->q_heads * d->q_length;
    const int64_t kv_rows = d->batch * d->kv_heads * d->kv_length;
    return (dense_outputs){
        .out = lab_zeroed(q_rows * d->value_dim, sizeof(double)),
        .dq = lab_zeroed(q_rows * d->head_dim, sizeof(double)),
        .dk = lab_zeroed(kv_rows * d->head_dim, sizeof(double)),
        .dv = lab_zeroed(kv_rows * d->value_dim, sizeof(double)),
        .lse = lab_zeroed(q_rows, sizeof(float)),
        .dbias = lab_zeroed(d->q_heads * d->q_length * d->kv_length, sizeof(float)),
        .dsinks = lab_zeroed(d->q_heads, sizeof(float)),
    };
}

static void free_outputs(dense_outputs *o)
{
    free(o->out);
    free(o->dq);
    free(o->dk);
    free(o->dv);
    free(o->lse);
    free(o->dbias);
    free(o->dsinks);
}

static fc_buffers dense_buffers(const lab_sequence *s, const dense_outputs *o)
{
    fc_buffers b = fc_buffers_init();
    b.q = s->q;
    b.k = s->k;
    b.v = s->v;
    b.out = o->out;
    b.lse = o->lse;
    b.alibi = s->alibi;
    b.bias = s->bias;
    b.mask = s->mask;
    b.sinks = s->sinks;
    b.dropout_seed = s->dropout_seed;
    b.dropout_offset = s->dropout_offset;
    return b;
}

/* dbias and dsinks are sums over the batch; only the last copy's share is the sequence's. It is
 * had by giving the other copies a dout of 0, which takes a dout per copy. */
static double *dout_of_last_copy(const fc_attention *dense, const lab_sequence *s)
{
    const int64_t elements = dense->q_heads * s->q_rows * dense->value_dim;
    double *dout = lab_zeroed(dense->batch * elements, sizeof *dout);
    memcpy(dout + (dense->batch - 1) * elements, s->dout, (size_t)elements * sizeof *dout);
    return dout;
}

static void copy_doubles(const double *from, int64_t count, int64_t copy, double *to)
{
    memcpy(to, from + copy * count, (size_t)count * sizeof *to);
}

static void copy_floats(const float *from, int64_t count, int64_t copy, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)from[copy * count + i];
}

static void keep_last_copy(const fc_attention *d, const dense_outputs *o, bool backward,
                           lab_sequence_result *r)
{
    const int64_t last = d->batch - 1;
    const int64_t q_rows = d->q_heads * d->q_length, kv_rows = d->kv_heads * d->kv_length;
    copy_doubles(o->out, q_rows * d->value_dim, last, r->out);
    copy_floats(o->lse, q_rows, last, r->lse);
    if (!backward)
        return;
    copy_doubles(o->dq, q_rows * d->head_dim, last, r->dq);
    copy_doubles(o->dk, kv_rows * d->head_dim, last, r->dk);
    copy_doubles(o->dv, kv_rows * d->value_dim, last, r->dv);
    copy_floats(o->dbias, q_rows * d->kv_length, 0, r->dbias);
    copy_floats(o->dsinks, d->q_heads, 0, r->dsinks);
}

static fc_status run_backward(const fc_plan *plan, const fc_attention *dense, const lab_sequence *s,
                              const dense_outputs *o, const fc_buffers *buffers)
{
    double *dout = dout_of_last_copy(dense, s);
    fc_gradients g = fc_gradients_init();
    g.dout = dout;
    g.dq = o->dq;
    g.dk = o->dk;
    g.dv = o->dv;
    g.dbias = dense->has_bias ? o->dbias : NULL;
    g.dsinks = dense->has_sinks ? o->dsinks : NULL;
    const fc_status status = fc_plan_backward(plan, buffers, &g, NULL);
    free(dout);
    return status;
}

fc_status lab_truth(fc_context *context, const fc_attention *problem, const lab_sequence *s,
                    lab_sequence_result *result)
{
    const fc_attention dense = dense_problem(problem, s);
    fc_plan *plan;
    fc_status status = fc_plan_create(context, &dense, &plan);
    if (status != FC_OK)
        return status;
    dense_outputs outputs = make_outputs(&dense);
    fc_buffers buffers = dense_buffers(s, &outputs);
    const size_t bytes[2] = {fc_plan_workspace_bytes(plan, FC_FORWARD),
                             fc_plan_workspace_bytes(plan, FC_BACKWARD)};
    buffers.workspace_bytes = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
    buffers.workspace = lab_host_memory.allocate(NULL, buffers.workspace_bytes);
    status = fc_plan_forward(plan, &buffers, NULL);
    if (status == FC_OK && s->dout)
        status = run_backward(plan, &dense, s, &outputs, &buffers);
    if (status == FC_OK)
        keep_last_copy(&dense, &outputs, s->dout != NULL, result);
    lab_host_memory.release(NULL, buffers.workspace);
    free_outputs(&outputs);
    fc_plan_destroy(plan);
    return status;
}
