/* rows.c: see rows.h. */
#include "rows.h"

#include "compare.h"
#include "core/convert.h"
#include "truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool lab_can_sample(const fc_attention *problem)
{
    return !problem->has_bias && !problem->has_mask && !problem->has_alibi &&
           problem->dropout_p == 0;
}

typedef struct sampled_row {
    int64_t b, head, row;
} sampled_row;

/* Number i of them: the first row of all, the last, and between them some of every part. A row of
 * -1: its sequence has none. */
static sampled_row choose_row(const lab_tensors *t, int64_t i)
{
    const int64_t last = LAB_SAMPLED_ROWS - 1;
    const int64_t head = i * (t->problem.batch * t->problem.q_heads - 1) / last;
    sampled_row s = {.b = head / t->problem.q_heads, .head = head % t->problem.q_heads};
    const int64_t rows = t->spans[s.b].q_rows;
    s.row = rows == 0 || i == last ? rows - 1 : i * 7919 % rows;
    return s;
}

/* The row alone, with the keys that it sees. */
static lab_sequence read_alone(const lab_tensors *t, sampled_row s)
{
    const fc_attention *p = &t->problem;
    const lab_span *span = &t->spans[s.b];
    const lab_sequence whole = {.b = s.b, .q_rows = span->q_rows, .kv_rows = span->kv_rows};
    lab_sequence alone = {.q_rows = 1};
    alone.q = lab_zeroed(p->head_dim, sizeof *alone.q);
    alone.k = lab_zeroed(span->kv_rows * p->head_dim, sizeof *alone.k);
    alone.v = lab_zeroed(span->kv_rows * p->value_dim, sizeof *alone.v);
    lab_row_read(t, LAB_Q, s.b, s.head, s.row, alone.q);
    for (int64_t key = 0; key < span->kv_rows; key++) {
        if (!lab_sees(p, &whole, s.head, s.row, key))
            continue;
        const int64_t head = s.head / (p->q_heads / p->kv_heads);
        lab_row_read(t, LAB_K, s.b, head, key, alone.k + alone.kv_rows * p->head_dim);
        lab_row_read(t, LAB_V, s.b, head, key, alone.v + alone.kv_rows * p->value_dim);
        alone.kv_rows++;
    }
    if (p->has_sinks) {
        alone.sinks = lab_zeroed(1, sizeof *alone.sinks);
        *alone.sinks = ((const float *)lab_elements(&t->buffer[LAB_SINKS]))[s.head];
    }
    return alone;
}

static fc_attention problem_alone(const fc_attention *problem)
{
    fc_attention alone = fc_attention_init();
    alone.q_heads = alone.kv_heads = 1;
    alone.head_dim = problem->head_dim;
    alone.value_dim = problem->value_dim;
    alone.scale = problem->scale;
    alone.softcap = problem->softcap;
    alone.has_sinks = problem->has_sinks;
    return alone;
}

static bool compare_row(const lab_tensors *t, sampled_row s, const uint8_t *image,
                        const double *truth, double tolerance, char reason[256])
{
    const lab_buffer *out = &t->buffer[LAB_OUT];
    for (int64_t d = 0; d < t->problem.value_dim; d++) {
        char name[96];
        const int64_t element = lab_element(t, LAB_OUT, s.b, s.head, s.row, d);
        const double got = fc_load(out->type, image + LAB_GUARD_BYTES, element);
        const double error = compare_difference(out->type, got, truth[d]);
        const double allowed = tolerance + compare_ulp(out->type, fabs(truth[d]));
        if (error <= allowed)
            continue;
        compare_name_element(t, LAB_OUT, element, name, sizeof name);
        snprintf(reason, 256,
                 "%s of the whole problem is %.9g, expected %.9g: error %.3g, tolerance %.3g", name,
                 got, truth[d], error, allowed);
        return false;
    }
    return true;
}

static bool sample_row(fc_context *context, const lab_tensors *t, sampled_row s,
                       const uint8_t *image, double tolerance, char reason[256])
{
    const fc_attention problem = problem_alone(&t->problem);
    lab_sequence alone = read_alone(t, s);
    lab_sequence_result result;
    lab_sequence_result_make(&problem, &alone, &result);
    bool right = false;
    if (lab_truth(context, &problem, &alone, &result) != FC_OK)
        snprintf(reason, 256, "%s", fc_last_error());
    else
        right = compare_row(t, s, image, result.out, tolerance, reason);
    lab_sequence_result_free(&result);
    lab_sequence_free(&alone);
    return right;
}

bool lab_sample_rows(const lab_tensors *t, const uint8_t *image, double tolerance, char reason[256])
{
    fc_context *context;
    if (lab_truth_context(&context) != FC_OK) {
        snprintf(reason, 256, "%s", fc_last_error());
        return false;
    }
    bool right = true;
    for (int64_t i = 0; i < LAB_SAMPLED_ROWS && right; i++) {
        const sampled_row s = choose_row(t, i);
        if (s.row >= 0)
            right = sample_row(context, t, s, image, tolerance, reason);
    }
    fc_context_destroy(context);
    return right;
}
