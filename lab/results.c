/* results.c: see results.h. */
#include "results.h"

#include "core/convert.h"

#include <stdlib.h>

void lab_sequence_result_make(const fc_attention *p, const lab_sequence *s, lab_sequence_result *r)
{
    const int64_t q_rows = p->q_heads * s->q_rows, kv_rows = p->kv_heads * s->kv_rows;
    *r = (lab_sequence_result){0};
    r->out = lab_zeroed(q_rows * p->value_dim, sizeof(double));
    r->lse = lab_zeroed(q_rows, sizeof(double));
    if (!s->dout)
        return;
    r->dq = lab_zeroed(q_rows * p->head_dim, sizeof(double));
    r->dk = lab_zeroed(kv_rows * p->head_dim, sizeof(double));
    r->dv = lab_zeroed(kv_rows * p->value_dim, sizeof(double));
    r->dbias = lab_zeroed(q_rows * s->kv_rows, sizeof(double));
    r->dsinks = lab_zeroed(p->q_heads, sizeof(double));
}

void lab_sequence_result_free(lab_sequence_result *r)
{
    free(r->out);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
    free(r->dbias);
    free(r->dsinks);
    *r = (lab_sequence_result){0};
}

void lab_results_make(const lab_tensors *t, lab_results *results)
{
    *results = (lab_results){0};
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++)
        if (t->buffer[tensor].name)
            results->values[tensor] = lab_zeroed(t->buffer[tensor].elements, sizeof(double));
}

void lab_results_free(lab_results *results)
{
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++)
        free(results->values[tensor]);
    *results = (lab_results){0};
}

static void add(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t rows, int64_t dims,
                const double *part, lab_results *results)
{
    const int64_t heads = t->buffer[tensor].sizes[1];
    double *values = results->values[tensor];
    if (!values || !part)
        return;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t d = 0; d < dims; d++)
                values[lab_element(t, tensor, b, h, i, d)] += *part++;
}

void lab_results_add(const lab_tensors *t, const lab_sequence *s, const lab_sequence_result *part,
                     lab_results *results)
{
    const fc_attention *p = &t->problem;
    add(t, LAB_OUT, s->b, s->q_rows, p->value_dim, part->out, results);
    add(t, LAB_LSE, s->b, s->q_rows, 1, part->lse, results);
    add(t, LAB_DQ, s->b, s->q_rows, p->head_dim, part->dq, results);
    add(t, LAB_DK, s->b, s->kv_rows, p->head_dim, part->dk, results);
    add(t, LAB_DV, s->b, s->kv_rows, p->value_dim, part->dv, results);
    add(t, LAB_DBIAS, s->b, s->q_rows, s->kv_rows, part->dbias, results);
    add(t, LAB_DSINKS, s->b, 1, p->q_heads, part->dsinks, results);
}

double lab_round(fc_type type, double value)
{
    double storage; /* large and aligned enough for every type */
    fc_store(type, &storage, 0, value);
    return fc_load(type, &storage, 0);
}
