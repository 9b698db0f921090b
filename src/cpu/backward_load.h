/* backward_load.h: the backward kernel's state, and what goes between its scratch and the tensors
 * or the sums in the workspace. */
#ifndef FC_CPU_BACKWARD_LOAD_H
#define FC_CPU_BACKWARD_LOAD_H

#include "cpu/backward_work.h"

typedef struct backward {
    const fc_attention *p;
    const fc_buffers *b;
    const fc_gradients *g;
    backward_shape shape;
    score_rules rules;
    backward_sums sums;
    backward_scratch scratch;
    fc_sequence sequence;
    int64_t kv_head;
    int64_t row_count; /* of the block of rows */
    int64_t block;     /* the first key of the block of keys */
    int64_t block_keys;
    bool tame_keys, tame_rows; /* 0 times each element of K, or of Q and dout, is 0 */
    key_span strips[LONGEST_ROW_BLOCK / MATMUL_ROWS]; /* what each strip of rows sees of it */
} backward;

/* ---- Rows of the sums ----------------------------------------------------------------------- */

static int64_t query_sum_row(const backward *w, int64_t head, int64_t row)
{
    return sum_row_at(w->sums.q_rows, head, w->p->packed_q ? 0 : w->sequence.batch,
                      w->sequence.q_first + row);
}

static int64_t key_sum_row(const backward *w, int64_t key)
{
    return sum_row_at(w->sums.key_rows, w->kv_head, w->p->packed_kv ? 0 : w->sequence.batch,
                      w->sequence.kv_first + key);
}

static float *dq_sum(const backward *w, int64_t i)
{
    const query_row *row = &w->scratch.rows[i];
    return w->sums.dq + query_sum_row(w, row->head, row->row) * w->shape.q_columns;
}

static float read_lse(const backward *w, int64_t head, int64_t row)
{
    return w->b->lse[fc_q_index(w->p, &w->p->lse_strides, &w->sequence, head, row)];
}

static void copy_floats(float *to, const float *from, int64_t count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
}

/* ---- Loading -------------------------------------------------------------------------------- */

static void load_padded(fc_type type, const void *base, int64_t index, int64_t stride, int64_t dim,
                        int64_t width, float scale, float *to)
{
    load_floats(type, base, index, stride, dim, scale, to);
    memset(to + dim, 0, (size_t)(width - dim) * sizeof *to);
}

/* Q, dout and the sums of dQ. Rows up to a whole strip are zeros. */
static void load_rows(backward *w)
{
    const fc_attention *p = w->p;
    const backward_shape *s = &w->shape;
    w->tame_rows = true;
    for (int64_t i = 0; i < w->row_count; i++) {
        const query_row *row = &w->scratch.rows[i];
        float *q = w->scratch.q + i * s->q_stride, *dout = w->scratch.dout + i * s->value_stride;
        load_padded(
            p->q_type, w->b->q, fc_q_index(p, &p->q_strides, &w->sequence, row->head, row->row),
            p->q_strides.dim, p->head_dim, s->q_columns,
            f8_scale(w->b->q_scale, &p->q_scaling, w->sequence.batch, row->head, row->row), q);
        load_padded(p->out_type, w->g->dout,
                    fc_q_index(p, &p->dout_strides, &w->sequence, row->head, row->row),
                    p->dout_strides.dim, p->value_dim, s->value_columns, 1, dout);
        w->tame_rows = w->tame_rows && operand_row_is_tame(q, s->q_columns) &&
                       operand_row_is_tame(dout, s->value_columns);
        copy_floats(w->scratch.dq + i * s->q_columns, dq_sum(w, i), s->q_columns);
    }
    const int64_t rest = round_up(w->row_count, MATMUL_ROWS) - w->row_count;
    memset(w->scratch.q + w->row_count * s->q_stride, 0,
           (size_t)(rest * s->q_stride) * sizeof(float));
    memset(w->scratch.dout + w->row_count * s->value_stride, 0,
           (size_t)(rest * s->value_stride) * sizeof(float));
}

static void store_dq_sums(const backward *w)
{
    for (int64_t i = 0; i < w->row_count; i++)
        copy_floats(dq_sum(w, i), w->scratch.dq + i * w->shape.q_columns, w->shape.q_columns);
}

/* K, V and the sums of dK and dV. */
static void load_keys(backward *w)
{
    const backward_shape *s = &w->shape;
    const backward_scratch *to = &w->scratch;
    const key_rows keys = key_rows_of(w->p, w->b, &w->sequence, w->kv_head, false);
    const key_rows values = key_rows_of(w->p, w->b, &w->sequence, w->kv_head, true);
    pack_keys(&keys, w->block, w->block_keys, s->q_depth, to->staging, to->keys);
    pack_keys(&values, w->block, w->block_keys, s->value_depth, to->staging, to->values);
    w->tame_keys = pack_values(&keys, w->block, w->block_keys, s->key_block, s->q_columns,
                               to->staging, to->key_rows);
    const int64_t first = key_sum_row(w, w->block);
    copy_floats(to->dk, w->sums.dk + first * s->q_columns, w->block_keys * s->q_columns);
    copy_floats(to->dv, w->sums.dv + first * s->value_columns, w->block_keys * s->value_columns);
}

static void store_key_sums(const backward *w)
{
    const backward_shape *s = &w->shape;
    const int64_t first = key_sum_row(w, w->block);
    copy_floats(w->sums.dk + first * s->q_columns, w->scratch.dk, w->block_keys * s->q_columns);
    copy_floats(w->sums.dv + first * s->value_columns, w->scratch.dv,
                w->block_keys * s->value_columns);
}

#endif
