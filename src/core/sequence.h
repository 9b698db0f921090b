/* sequence.h: where one sequence of the batch lies, whatever way the batch is stored. */
#ifndef FC_CORE_SEQUENCE_H
#define FC_CORE_SEQUENCE_H

#include "core/internal.h"

typedef struct fc_sequence {
    int64_t batch;
    int64_t q_first; /* row of the packed tensor; 0 when not packed */
    int64_t q_rows;
    int64_t kv_first;
    int64_t kv_rows;
} fc_sequence;

static inline fc_sequence fc_sequence_at(const fc_attention *p, const fc_buffers *b, int64_t batch)
{
    fc_sequence s = {.batch = batch, .q_rows = p->q_length, .kv_rows = p->kv_length};
    if (p->packed_q) {
        s.q_first = b->cu_q[batch];
        s.q_rows = b->cu_q[batch + 1] - b->cu_q[batch];
    }
    if (p->packed_kv) {
        s.kv_first = b->cu_kv[batch];
        s.kv_rows = b->cu_kv[batch + 1] - b->cu_kv[batch];
    }
    if (p->has_kv_lengths)
        s.kv_rows = b->kv_lengths[batch];
    return s;
}

/* Element index of query row `row` of a tensor laid out like Q, out or lse. */
static inline int64_t fc_q_index(const fc_attention *p, const fc_strides *strides,
                                 const fc_sequence *s, int64_t head, int64_t row)
{
    const int64_t batch = p->packed_q ? 0 : s->batch * strides->batch;
    return batch + head * strides->head + (s->q_first + row) * strides->row;
}

/* Element index of key `key` of a tensor laid out like K or V. */
static inline int64_t fc_kv_index(const fc_attention *p, const fc_buffers *b,
                                  const fc_strides *strides, const fc_sequence *s, int64_t head,
                                  int64_t key)
{
    if (p->paged) {
        const int64_t page = b->page_table[s->batch * p->page_table_stride + key / p->page_size];
        return page * strides->batch + head * strides->head + key % p->page_size * strides->row;
    }
    const int64_t batch = p->packed_kv ? 0 : s->batch * strides->batch;
    return batch + head * strides->head + (s->kv_first + key) * strides->row;
}

/* Where query row `row` stands among the keys: flashcore.h, fc_diagonal. */
static inline int64_t fc_position(const fc_attention *p, const fc_sequence *s, int64_t row)
{
    return p->diagonal == FC_TOP_LEFT ? row : row + s->kv_rows - s->q_rows;
}

/* The keys [first, end) that causal and window limits leave to a row at `position`. */
static inline int64_t fc_first_key(const fc_attention *p, int64_t position)
{
    const int64_t first = p->window_left < 0 ? 0 : position - p->window_left;
    return first > 0 ? first : 0;
}

static inline int64_t fc_end_key(const fc_attention *p, const fc_sequence *s, int64_t position)
{
    const int64_t end = p->window_right < 0 ? s->kv_rows : position + p->window_right + 1;
    return end < s->kv_rows ? end : s->kv_rows; /* may lie before the first key: nothing visible */
}

#endif
