/* f16_promise.c: see f16_promise.h. */
#include "f16_promise.h"

#include "compare.h"
#include "core/convert.h"

#include <math.h>
#include <stdio.h>

#define PROMISE 1e-3
/* Beyond rounding, of results up to 4. */
#define LEFT (PROMISE - 0x1p-10)

static bool is_normal(const lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    return t->of.values == CASE_NORMAL && p->q_type == FC_F16 && p->kv_type == FC_F16 &&
           p->out_type == FC_F16 && p->dropout_p == 0;
}

/* Whether scores of unit-normal inputs spread further than these: the scale is larger than the
 * default. */
static bool spread_far(const fc_attention *p)
{
    return (double)p->scale * p->scale * (double)p->head_dim > 1.01;
}

double f16_promise(const lab_tensors *t, double magnitude)
{
    if (!is_normal(t))
        return (double)INFINITY;
    return fmax(PROMISE, spread_far(&t->problem) ? compare_ulp(FC_F16, magnitude) : 0);
}

static bool sees_few_keys(const fc_attention *p, const lab_sequence *s, int64_t head, int64_t row)
{
    int64_t seen = 0;
    for (int64_t j = 0; j < s->kv_rows && seen < F16_FEW_KEYS; j++)
        seen += lab_sees(p, s, head, row, j);
    return seen < F16_FEW_KEYS;
}

static bool row_is_right(const lab_tensors *t, const lab_sequence *s, int64_t head, int64_t row,
                         const uint8_t *image, const lab_results *truth, char reason[256])
{
    for (int64_t dim = 0; dim < t->problem.value_dim; dim++) {
        const int64_t element = lab_element(t, LAB_OUT, s->b, head, row, dim);
        const double expected = truth->values[LAB_OUT][element];
        const double got = fc_load(FC_F16, image + LAB_GUARD_BYTES, element);
        const double error = compare_difference(FC_F16, got, expected);
        const double rounding = compare_ulp_of(FC_F16, expected) / 2;
        if (error <= rounding + LEFT)
            continue;
        char name[96];
        compare_name_element(t, LAB_OUT, element, name, sizeof name);
        snprintf(reason, 256,
                 "%s is %.9g, expected %.9g: error %.3g, of which rounding takes %.3g and a row of "
                 "few keys may have %.3g more",
                 name, got, expected, error, rounding, LEFT);
        return false;
    }
    return true;
}

bool f16_few_keys(const lab_tensors *t, const uint8_t *image, const lab_results *truth,
                  char reason[256])
{
    const fc_attention *p = &t->problem;
    bool right = true;
    if (!is_normal(t) || spread_far(p) || p->softcap > 0 || p->has_alibi || p->has_bias)
        return true;
    for (int64_t b = 0; right && b < p->batch; b++) {
        lab_sequence s;
        lab_sequence_read_visibility(t, b, &s);
        for (int64_t i = 0; right && i < p->q_heads * s.q_rows; i++) {
            const int64_t head = i / s.q_rows, row = i % s.q_rows;
            right = !sees_few_keys(p, &s, head, row) ||
                    row_is_right(t, &s, head, row, image, truth, reason);
        }
        lab_sequence_free(&s);
    }
    return right;
}
