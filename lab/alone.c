/* alone.c: see alone.h. */
#include "alone.h"

static void *shifted(const lab_buffer *buffer, int64_t elements)
{
    uint8_t *pointer = lab_pointer(buffer);
    return pointer ? pointer + elements * buffer->element_bytes : NULL;
}

static void *at_sequence(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t first_row)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    return shifted(buffer, b * buffer->strides[0] + first_row * buffer->strides[2]);
}

void lab_alone_lengths(const lab_tensors *t, int64_t b, int32_t lengths[4])
{
    lengths[0] = lengths[2] = 0;
    lengths[1] = (int32_t)t->spans[b].q_rows;
    lengths[3] = (int32_t)t->spans[b].kv_rows;
}

void lab_alone(const lab_tensors *t, int64_t b, const int32_t *lengths, fc_attention *p,
               fc_buffers *buffers)
{
    const lab_span *span = &t->spans[b];
    *p = t->problem;
    p->batch = 1;
    p->q_length = span->q_rows;
    p->kv_length = span->kv_rows;
    p->packed_q_rows = p->packed_q ? span->q_rows : 0;
    p->packed_kv_rows = p->packed_kv ? span->kv_rows : 0;
    if (!p->has_bias)
        p->bias_type = FC_TYPE_AUTO, p->bias_strides = (fc_broadcast){0};
    if (!p->has_mask)
        p->mask_strides = (fc_broadcast){0};

    const int64_t kv_outer = p->paged ? 0 : b; /* pages are found through the table */
    *buffers = lab_tensors_buffers(t);
    buffers->q = at_sequence(t, LAB_Q, b, span->q_first);
    buffers->k = at_sequence(t, LAB_K, kv_outer, span->kv_first);
    buffers->v = at_sequence(t, LAB_V, kv_outer, span->kv_first);
    buffers->out = at_sequence(t, LAB_OUT, b, span->q_first);
    buffers->lse = at_sequence(t, LAB_LSE, b, span->q_first);
    buffers->q_scale = shifted(&t->buffer[LAB_Q_SCALE], b * p->q_scaling.batch);
    buffers->k_scale = shifted(&t->buffer[LAB_K_SCALE], b * p->k_scaling.batch);
    buffers->v_scale = shifted(&t->buffer[LAB_V_SCALE], b * p->v_scaling.batch);
    buffers->alibi = shifted(&t->buffer[LAB_ALIBI], b * p->alibi_batch_stride);
    buffers->bias = at_sequence(t, LAB_BIAS, b, 0);
    buffers->mask = at_sequence(t, LAB_MASK, b, 0);
    buffers->cu_q = p->packed_q ? lengths : NULL;
    buffers->cu_kv = p->packed_kv ? lengths + 2 : NULL;
    buffers->kv_lengths = p->has_kv_lengths ? lengths + 3 : NULL;
    buffers->page_table = shifted(&t->buffer[LAB_PAGE_TABLE], b * p->page_table_stride);
}
