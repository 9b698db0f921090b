/* backward_store.h: from the sums of the backward kernel to the gradients. Every thread of the team
 * calls these. */
#ifndef FC_CPU_BACKWARD_STORE_H
#define FC_CPU_BACKWARD_STORE_H

#include "cpu/backward_load.h"

static void store_dq(const backward *w)
{
    const fc_attention *p = w->p;
    const fc_strides *s = &p->dq_strides;
    const sum_rows all = w->sums.q_rows;
#pragma omp for collapse(3) nowait
    for (int64_t head = 0; head < p->q_heads; head++)
        for (int64_t outer = 0; outer < all.outer; outer++)
            for (int64_t row = 0; row < all.rows; row++)
                store_floats(p->out_type, w->g->dq,
                             outer * s->batch + head * s->head + row * s->row, s->dim, p->head_dim,
                             p->scale,
                             w->sums.dq + sum_row_at(all, head, outer, row) * w->shape.q_columns);
}

/* Row `row` of sequence or page `outer`. */
static void store_key(const backward *w, int64_t kv_head, int64_t outer, int64_t row,
                      const float *dk, const float *dv)
{
    const fc_attention *p = w->p;
    const fc_strides *k = &p->dk_strides, *v = &p->dv_strides;
    store_floats(p->out_type, w->g->dk, outer * k->batch + kv_head * k->head + row * k->row, k->dim,
                 p->head_dim, p->scale, dk);
    store_floats(p->out_type, w->g->dv, outer * v->batch + kv_head * v->head + row * v->row, v->dim,
                 p->value_dim, 1, dv);
}

static void store_keys(const backward *w)
{
    const sum_rows all = w->sums.key_rows;
#pragma omp for collapse(3) nowait
    for (int64_t kv_head = 0; kv_head < w->p->kv_heads; kv_head++)
        for (int64_t outer = 0; outer < all.outer; outer++)
            for (int64_t row = 0; row < all.rows; row++) {
                const int64_t from = sum_row_at(all, kv_head, outer, row);
                store_key(w, kv_head, outer, row, w->sums.dk + from * w->shape.q_columns,
                          w->sums.dv + from * w->shape.value_columns);
            }
}

/* Adds up, in the first of them, the sums of all who hold a page; returns where those begin, or -1.
 */
static int64_t merge_page(const backward *w, int64_t kv_head, int64_t page)
{
    const fc_attention *p = w->p;
    const backward_shape *s = &w->shape;
    int64_t first = -1;
    for (int64_t batch = 0; batch < p->batch; batch++) {
        const int64_t keys = fc_sequence_at(p, w->b, batch).kv_rows;
        for (int64_t key = 0; key < keys; key += p->page_size) {
            if (w->b->page_table[batch * p->page_table_stride + key / p->page_size] != page)
                continue;
            const int64_t here = sum_row_at(w->sums.key_rows, kv_head, batch, key);
            if (first < 0) {
                first = here;
                continue;
            }
            add_scaled(w->sums.dk + first * s->q_columns, 1, w->sums.dk + here * s->q_columns,
                       p->page_size * s->q_columns);
            add_scaled(w->sums.dv + first * s->value_columns, 1,
                       w->sums.dv + here * s->value_columns, p->page_size * s->value_columns);
        }
    }
    return first;
}

static void store_pages(const backward *w)
{
    const fc_attention *p = w->p;
    static const float zeros[FC_MAX_DIM];
#pragma omp for collapse(2) nowait
    for (int64_t page = 0; page < p->page_count; page++)
        for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++) {
            const int64_t from = merge_page(w, kv_head, page);
            for (int64_t row = 0; row < p->page_size; row++)
                store_key(w, kv_head, page, row,
                          from < 0 ? zeros : w->sums.dk + (from + row) * w->shape.q_columns,
                          from < 0 ? zeros : w->sums.dv + (from + row) * w->shape.value_columns);
        }
}

/* The gradient of a row's sink is -weight · delta. The delta at hand comes from an output that was
 * rounded, perhaps to 16 bits; but dscores, summed with it, tell by how much it is wrong: they are
 * delta - (1 - weight) · (delta at hand). */
static double sink_gradient(const backward *w, int64_t head, int64_t row)
{
    const row_state state = w->sums.states[query_sum_row(w, head, row)];
    const double sink = (double)w->b->sinks[head];
    const double weight =
        sink == -(double)INFINITY ? 0 : exp(sink - (double)read_lse(w, head, row));
    return -weight * ((double)state.dscores + (1 - weight) * (double)state.delta);
}

static void store_dsinks(backward *w)
{
    const fc_attention *p = w->p;
#pragma omp for nowait
    for (int64_t head = 0; head < p->q_heads; head++) {
        double sum = 0;
        for (int64_t batch = 0; batch < p->batch; batch++) {
            w->sequence = fc_sequence_at(p, w->b, batch);
            for (int64_t row = 0; row < w->sequence.q_rows; row++)
                sum += sink_gradient(w, head, row);
        }
        w->g->dsinks[head] = (float)sum;
    }
}

/* Every sum has to be ready. */
static void store_gradients(backward *w)
{
    store_dq(w);
    if (w->p->paged)
        store_pages(w);
    else
        store_keys(w);
    if (w->g->dsinks)
        store_dsinks(w);
}

#endif
