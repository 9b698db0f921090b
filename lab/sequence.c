/* sequence.c: the pointers of a case's tensors, and its sequences as plain numbers. */
#include "tensors.h"

#include "core/convert.h"

#include <math.h>
#include <stdlib.h>

/* Where dropout's numbers come from: any will do that fill both halves of both words. */
static const uint64_t dropout_offset = 0x0000000500000007u;

static uint64_t dropout_seed(const lab_tensors *t)
{
    return t->of.seed << 32 | 0x9E3779B9u;
}

fc_buffers lab_tensors_buffers(const lab_tensors *t)
{
    fc_buffers b = fc_buffers_init();
    b.q = lab_pointer(&t->buffer[LAB_Q]);
    b.k = lab_pointer(&t->buffer[LAB_K]);
    b.v = lab_pointer(&t->buffer[LAB_V]);
    b.out = lab_pointer(&t->buffer[LAB_OUT]);
    b.lse = lab_pointer(&t->buffer[LAB_LSE]);
    b.q_scale = lab_pointer(&t->buffer[LAB_Q_SCALE]);
    b.k_scale = lab_pointer(&t->buffer[LAB_K_SCALE]);
    b.v_scale = lab_pointer(&t->buffer[LAB_V_SCALE]);
    b.alibi = lab_pointer(&t->buffer[LAB_ALIBI]);
    b.bias = lab_pointer(&t->buffer[LAB_BIAS]);
    b.mask = lab_pointer(&t->buffer[LAB_MASK]);
    b.sinks = lab_pointer(&t->buffer[LAB_SINKS]);
    b.cu_q = lab_pointer(&t->buffer[LAB_CU_Q]);
    b.cu_kv = lab_pointer(&t->buffer[LAB_CU_KV]);
    b.kv_lengths = lab_pointer(&t->buffer[LAB_KV_LENGTHS]);
    b.page_table = lab_pointer(&t->buffer[LAB_PAGE_TABLE]);
    b.dropout_seed = dropout_seed(t);
    b.dropout_offset = dropout_offset;
    return b;
}

fc_gradients lab_tensors_gradients(const lab_tensors *t)
{
    fc_gradients g = fc_gradients_init();
    g.dout = lab_pointer(&t->buffer[LAB_DOUT]);
    g.dq = lab_pointer(&t->buffer[LAB_DQ]);
    g.dk = lab_pointer(&t->buffer[LAB_DK]);
    g.dv = lab_pointer(&t->buffer[LAB_DV]);
    g.dbias = lab_pointer(&t->buffer[LAB_DBIAS]);
    g.dsinks = lab_pointer(&t->buffer[LAB_DSINKS]);
    return g;
}

void lab_row_read(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t head, int64_t row,
                  double *values)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const double scale = lab_scale(t, tensor, b, head, row);
    const int64_t first = lab_element(t, tensor, b, head, row, 0);
    for (int64_t d = 0; d < buffer->sizes[3]; d++)
        values[d] =
            scale * fc_load(buffer->type, lab_elements(buffer), first + d * buffer->strides[3]);
}

static double *read_tensor(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t rows)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    if (!buffer->name)
        return NULL;
    const int64_t heads = buffer->sizes[1], dims = buffer->sizes[3];
    double *values = lab_zeroed(heads * rows * dims, sizeof *values);
#pragma omp parallel for collapse(2) if (lab_shares_out(t, tensor))
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            lab_row_read(t, tensor, b, h, i, values + (h * rows + i) * dims);
    return values;
}

static void read_bias_and_mask(const lab_tensors *t, lab_sequence *s)
{
    const lab_buffer *bias = &t->buffer[LAB_BIAS], *mask = &t->buffer[LAB_MASK];
    const int64_t heads = t->problem.q_heads, scores = heads * s->q_rows * s->kv_rows;
    s->bias = bias->name ? lab_zeroed(scores, sizeof *s->bias) : NULL;
    s->mask = mask->name ? lab_zeroed(scores, sizeof *s->mask) : NULL;
    if (!s->bias && !s->mask)
        return;
    int64_t next = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < s->q_rows; i++)
            for (int64_t j = 0; j < s->kv_rows; j++, next++) {
                if (s->bias)
                    s->bias[next] = fc_load(bias->type, lab_elements(bias),
                                            lab_element(t, LAB_BIAS, s->b, h, i, j));
                if (s->mask)
                    s->mask[next] = ((const uint8_t *)lab_elements(
                        mask))[lab_element(t, LAB_MASK, s->b, h, i, j)];
            }
}

static float *read_list(const lab_tensors *t, lab_tensor tensor, int64_t first)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    if (!buffer->name)
        return NULL;
    float *list = lab_zeroed(t->problem.q_heads, sizeof *list);
    memcpy(list, (const float *)lab_elements(buffer) + first,
           (size_t)t->problem.q_heads * sizeof *list);
    return list;
}

void lab_sequence_read_visibility(const lab_tensors *t, int64_t b, lab_sequence *s)
{
    const lab_span *span = &t->spans[b];
    *s = (lab_sequence){.b = b, .q_rows = span->q_rows, .kv_rows = span->kv_rows};
    read_bias_and_mask(t, s);
}

void lab_sequence_read(const lab_tensors *t, int64_t b, lab_sequence *s)
{
    const lab_span *span = &t->spans[b];
    lab_sequence_read_visibility(t, b, s);
    s->q = read_tensor(t, LAB_Q, b, span->q_rows);
    s->k = read_tensor(t, LAB_K, b, span->kv_rows);
    s->v = read_tensor(t, LAB_V, b, span->kv_rows);
    s->dout = read_tensor(t, LAB_DOUT, b, span->q_rows);
    s->alibi = read_list(t, LAB_ALIBI, b * t->problem.alibi_batch_stride);
    s->sinks = read_list(t, LAB_SINKS, 0);
    s->dropout_seed = dropout_seed(t);
    s->dropout_offset = dropout_offset;
}

void lab_sequence_free(lab_sequence *s)
{
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->dout);
    free(s->bias);
    free(s->mask);
    free(s->alibi);
    free(s->sinks);
    *s = (lab_sequence){0};
}

bool lab_sees(const fc_attention *p, const lab_sequence *s, int64_t head, int64_t i, int64_t j)
{
    const int64_t position = p->diagonal == FC_TOP_LEFT ? i : i + s->kv_rows - s->q_rows;
    if (p->causal && j > position)
        return false;
    if (p->has_window && p->window_left >= 0 && j < position - p->window_left)
        return false;
    if (p->has_window && p->window_right >= 0 && j > position + p->window_right)
        return false;
    const int64_t score = (head * s->q_rows + i) * s->kv_rows + j;
    if (s->mask && !s->mask[score])
        return false;
    return !(s->bias && isinf(s->bias[score]) && s->bias[score] < 0);
}
