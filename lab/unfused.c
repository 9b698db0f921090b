/* unfused.c: see unfused.h. Row by row: scores, weights, output; then, for the gradients, back. */
#include "unfused.h"

#include "core/random.h"

#include <math.h>
#include <stdlib.h>

typedef struct row_work {
    const fc_attention *p;
    const lab_sequence *s;
    unfused_precision precision;
    double scale;
    int64_t head, kv_head, row;
    bool *visible;    /* [kv_rows], as all that follow */
    double *exact;    /* scores as summed, before they are stored */
    double *scores;   /* scores as stored */
    double *slopes;   /* derivative of the score by scale · q·k: 1 but for the soft-cap */
    double *weights;  /* softmax as stored, without dropout */
    double *dweights; /* their gradients, as summed */
    double *kept;     /* what dropout multiplies with: 0 or 1 / (1 - p) */
} row_work;

/* Two elements of different types take the coarser one; FP8 ones are widened to a 16-bit type. */
unfused_precision unfused_precision_of(const fc_attention *p)
{
    static const fc_type from_coarse[] = {FC_BF16, FC_F16, FC_F32, FC_F64};
    unfused_precision precision = {.sums = FC_F32, .out = p->out_type};
    for (int i = 0; i < 4 && !precision.stored; i++)
        if (p->q_type == from_coarse[i] || p->kv_type == from_coarse[i])
            precision.stored = from_coarse[i];
    if (!precision.stored)
        precision.stored = p->out_type == FC_F16 ? FC_F16 : FC_BF16;
    if (precision.stored == FC_F64)
        precision.sums = FC_F64;
    return precision;
}

/* Products of `a` with so many vectors, which lie one behind the other: each summed from its first
 * element to its last, as matrix products do it, several at a time. */
enum { TOGETHER = 8 };

static inline void dots_f64(const double *a, const double *vectors, int64_t dims, int count,
                            double *products)
{
    double sums[TOGETHER] = {0};
    for (int64_t i = 0; i < dims; i++)
        for (int n = 0; n < count; n++)
            sums[n] += a[i] * vectors[n * dims + i];
    memcpy(products, sums, (size_t)count * sizeof *products);
}

static inline void dots_f32(const double *a, const double *vectors, int64_t dims, int count,
                            double *products)
{
    float sums[TOGETHER] = {0};
    for (int64_t i = 0; i < dims; i++)
        for (int n = 0; n < count; n++)
            sums[n] += (float)a[i] * (float)vectors[n * dims + i];
    for (int n = 0; n < count; n++)
        products[n] = (double)sums[n];
}

static void dots(fc_type sums, const double *a, const double *vectors, int64_t dims, int64_t count,
                 double *products)
{
    int64_t n = 0;
    for (; n + TOGETHER <= count; n += TOGETHER)
        if (sums == FC_F64)
            dots_f64(a, vectors + n * dims, dims, TOGETHER, products + n);
        else
            dots_f32(a, vectors + n * dims, dims, TOGETHER, products + n);
    for (; n < count; n++)
        if (sums == FC_F64)
            dots_f64(a, vectors + n * dims, dims, 1, products + n);
        else
            dots_f32(a, vectors + n * dims, dims, 1, products + n);
}

static void add_scaled(fc_type sums, double *sum, double factor, const double *values,
                       int64_t count)
{
    if (sums == FC_F64)
        for (int64_t i = 0; i < count; i++)
            sum[i] += factor * values[i];
    else
        for (int64_t i = 0; i < count; i++)
            sum[i] = (double)((float)sum[i] + (float)factor * (float)values[i]);
}

static const double *q_row(const row_work *w)
{
    return w->s->q + (w->head * w->s->q_rows + w->row) * w->p->head_dim;
}

static const double *key(const row_work *w, int64_t j)
{
    return w->s->k + (w->kv_head * w->s->kv_rows + j) * w->p->head_dim;
}

static const double *value(const row_work *w, int64_t j)
{
    return w->s->v + (w->kv_head * w->s->kv_rows + j) * w->p->value_dim;
}

static int64_t score_index(const row_work *w, int64_t j)
{
    return (w->head * w->s->q_rows + w->row) * w->s->kv_rows + j;
}

/* What is not finite is compared as it is, and says nothing of how others were rounded. */
static void note_size(double score, double *largest)
{
    if (isfinite(score))
        *largest = fmax(*largest, fabs(score));
}

static void score_row(row_work *w, unfused_sizes *largest)
{
    const fc_attention *p = w->p;
    const lab_sequence *s = w->s;
    const fc_type sums = w->precision.sums;
    const int64_t position = p->diagonal == FC_TOP_LEFT ? w->row : w->row + s->kv_rows - s->q_rows;
    dots(sums, q_row(w), key(w, 0), p->head_dim, s->kv_rows, w->exact);
    for (int64_t j = 0; j < s->kv_rows; j++) {
        w->visible[j] = lab_sees(p, s, w->head, w->row, j);
        if (!w->visible[j])
            continue;
        double score = lab_round(sums, w->scale * w->exact[j]);
        note_size(score, &largest->product);
        w->slopes[j] = 1;
        if (p->softcap > 0) {
            const double fraction = lab_round(sums, tanh(score / (double)p->softcap));
            score = lab_round(sums, (double)p->softcap * fraction);
            w->slopes[j] = 1 - fraction * fraction;
        }
        if (p->has_alibi)
            score =
                lab_round(sums, score - (double)s->alibi[w->head] * fabs((double)(position - j)));
        if (p->has_bias)
            score = lab_round(sums, score + s->bias[score_index(w, j)]);
        w->exact[j] = score;
        w->scores[j] = lab_round(w->precision.stored, score);
        note_size(score, &largest->score);
    }
}

/* log of the sum of exp over the visible scores and the sink; NaN when a score is. */
static double log_sum_exp(const row_work *w, const double *scores)
{
    const fc_type sums = w->precision.sums;
    const double sink = w->p->has_sinks ? (double)w->s->sinks[w->head] : -(double)INFINITY;
    double largest = sink;
    for (int64_t j = 0; j < w->s->kv_rows; j++) {
        if (w->visible[j] && isnan(scores[j]))
            return scores[j];
        if (w->visible[j])
            largest = fmax(largest, scores[j]);
    }
    if (isinf(largest) && largest < 0)
        return largest;
    double sum = w->p->has_sinks ? lab_round(sums, exp(sink - largest)) : 0;
    for (int64_t j = 0; j < w->s->kv_rows; j++)
        if (w->visible[j])
            sum = lab_round(sums, sum + lab_round(sums, exp(scores[j] - largest)));
    return lab_round(sums, largest + lab_round(sums, log(sum)));
}

static void weigh_row(row_work *w, double lse)
{
    const fc_attention *p = w->p;
    for (int64_t j = 0; j < w->s->kv_rows; j++) {
        w->kept[j] = 1;
        if (p->dropout_p > 0)
            w->kept[j] = fc_dropout_keeps(p, w->s->dropout_seed, w->s->dropout_offset, w->s->b,
                                          w->head, w->row, j)
                             ? 1 / (1 - (double)p->dropout_p)
                             : 0;
        w->weights[j] = w->visible[j] ? lab_round(w->precision.stored, exp(w->scores[j] - lse)) : 0;
    }
}

static void forward_row(row_work *w, lab_sequence_result *r, unfused_sizes *largest)
{
    const int64_t row = w->head * w->s->q_rows + w->row, dims = w->p->value_dim;
    double *out = r->out + row * dims;
    score_row(w, largest);
    r->lse[row] = log_sum_exp(w, w->exact);
    weigh_row(w, log_sum_exp(w, w->scores));
    for (int64_t j = 0; j < w->s->kv_rows; j++)
        if (w->visible[j])
            add_scaled(w->precision.sums, out,
                       lab_round(w->precision.stored, w->weights[j] * w->kept[j]), value(w, j),
                       dims);
    for (int64_t d = 0; d < dims; d++)
        out[d] = lab_round(w->precision.out, out[d]);
}

static void backward_row(const row_work *w, lab_sequence_result *r)
{
    const fc_attention *p = w->p;
    const fc_type sums = w->precision.sums, stored = w->precision.stored;
    const int64_t row = w->head * w->s->q_rows + w->row;
    const double *dout = w->s->dout + row * p->value_dim;
    double *dq = r->dq + row * p->head_dim;
    double delta;
    dots(sums, dout, r->out + row * p->value_dim, p->value_dim, 1, &delta);
    dots(sums, dout, value(w, 0), p->value_dim, w->s->kv_rows, w->dweights);
    if (p->has_sinks)
        r->dsinks[w->head] = lab_round(
            sums, r->dsinks[w->head] - exp((double)w->s->sinks[w->head] - r->lse[row]) * delta);
    for (int64_t j = 0; j < w->s->kv_rows; j++) {
        if (!w->visible[j])
            continue;
        const int64_t kv_row = w->kv_head * w->s->kv_rows + j;
        const double dweight = lab_round(stored, w->kept[j] * w->dweights[j]);
        const double dscore = lab_round(stored, w->weights[j] * (dweight - delta));
        const double dproduct = lab_round(stored, dscore * w->slopes[j] * w->scale);
        r->dbias[score_index(w, j)] = lab_round(sums, dscore);
        add_scaled(sums, dq, dproduct, key(w, j), p->head_dim);
        add_scaled(sums, r->dk + kv_row * p->head_dim, dproduct, q_row(w), p->head_dim);
        add_scaled(sums, r->dv + kv_row * p->value_dim,
                   lab_round(stored, w->weights[j] * w->kept[j]), dout, p->value_dim);
    }
}

static void round_gradients(const fc_attention *p, const lab_sequence *s, fc_type type,
                            lab_sequence_result *r)
{
    for (int64_t i = 0; i < p->q_heads * s->q_rows * p->head_dim; i++)
        r->dq[i] = lab_round(type, r->dq[i]);
    for (int64_t i = 0; i < p->kv_heads * s->kv_rows * p->head_dim; i++)
        r->dk[i] = lab_round(type, r->dk[i]);
    for (int64_t i = 0; i < p->kv_heads * s->kv_rows * p->value_dim; i++)
        r->dv[i] = lab_round(type, r->dv[i]);
}

static row_work make_work(const fc_attention *p, const lab_sequence *s, unfused_precision precision)
{
    row_work w = {.p = p, .s = s, .precision = precision};
    w.scale = p->scale != 0 ? (double)p->scale : (double)(float)(1 / sqrt((double)p->head_dim));
    w.visible = lab_zeroed(s->kv_rows, sizeof *w.visible);
    w.exact = lab_zeroed(6 * s->kv_rows, sizeof *w.exact);
    w.scores = w.exact + s->kv_rows;
    w.slopes = w.scores + s->kv_rows;
    w.weights = w.slopes + s->kv_rows;
    w.kept = w.weights + s->kv_rows;
    w.dweights = w.kept + s->kv_rows;
    return w;
}

static void free_work(row_work *w)
{
    free(w->exact);
    free(w->visible);
}

static void start_row(row_work *w, int64_t head, int64_t row)
{
    w->head = head;
    w->kv_head = head / (w->p->q_heads / w->p->kv_heads);
    w->row = row;
}

static void forward_and_backward(row_work *w, int64_t kv_head, lab_sequence_result *r,
                                 unfused_sizes *largest)
{
    const int64_t group = w->p->q_heads / w->p->kv_heads;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t row = 0; row < w->s->q_rows; row++) {
            start_row(w, head, row);
            forward_row(w, r, largest);
            backward_row(w, r);
        }
}

/* Threads share the rows or, where gradients are summed over rows, the KV heads: every sum has one
 * order, however many threads there are. Few products are not worth waking them. */
void unfused(const fc_attention *p, const lab_sequence *s, unfused_precision precision,
             lab_sequence_result *r, unfused_sizes *largest)
{
    enum { MANY_PRODUCTS = 1 << 21 }; /* some milliseconds */
    const int64_t products = p->q_heads * s->q_rows * s->kv_rows * p->head_dim;
    double product = largest->product, score = largest->score;
#pragma omp parallel reduction(max : product, score) if (products >= MANY_PRODUCTS)
    {
        row_work w = make_work(p, s, precision);
        unfused_sizes seen = {0};
        if (s->dout) {
#pragma omp for
            for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++)
                forward_and_backward(&w, kv_head, r, &seen);
        } else {
#pragma omp for collapse(2) schedule(dynamic, 8)
            for (int64_t head = 0; head < p->q_heads; head++)
                for (int64_t row = 0; row < s->q_rows; row++) {
                    start_row(&w, head, row);
                    forward_row(&w, r, &seen);
                }
        }
        free_work(&w);
        product = fmax(product, seen.product);
        score = fmax(score, seen.score);
    }
    *largest = (unfused_sizes){product, score};
    if (s->dout)
        round_gradients(p, s, precision.out, r);
}
