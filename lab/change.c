/* change.c: see change.h. */
#include "change.h"

#include "core/convert.h"
#include "results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The elements of a sequence's keys or values, each once however many heads share it. */
static uint8_t *mark_elements(const lab_tensors *t, lab_tensor tensor)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    uint8_t *marks = lab_zeroed(buffer->elements, 1);
    for (int64_t b = 0; b < t->problem.batch; b++)
        for (int64_t head = 0; head < t->problem.kv_heads; head++)
            for (int64_t row = 0; row < t->spans[b].kv_rows; row++)
                for (int64_t dim = 0; dim < buffer->sizes[3]; dim++)
                    marks[lab_element(t, tensor, b, head, row, dim)] = 1;
    return marks;
}

static bool is_floating(fc_type type)
{
    return type == FC_F64 || type == FC_F32 || type == FC_F16 || type == FC_BF16;
}

static bool doubles_exactly(const lab_tensors *t)
{
    const lab_buffer *v = &t->buffer[LAB_V];
    uint8_t *marks = mark_elements(t, LAB_V);
    bool exact = true;
    for (int64_t i = 0; exact && i < v->elements; i++) {
        const double value = marks[i] ? fc_load(v->type, lab_elements(v), i) : 0;
        exact = !isfinite(value) || lab_round(v->type, 2 * value) == 2 * value;
    }
    free(marks);
    return exact;
}

/* Nothing but the scores tells the keys apart. */
static bool ignores_order(const fc_attention *p)
{
    return !p->causal && !p->has_window && !p->has_alibi && !p->has_bias && !p->has_mask &&
           p->dropout_p == 0 && !p->paged;
}

/* Instructions may take subnormal numbers for 0, so that twice one is more than twice nothing. */
bool lab_change_applies(const lab_tensors *t, lab_change change)
{
    if (!is_floating(t->buffer[LAB_V].type) || !is_floating(t->buffer[LAB_K].type))
        return false;
    if (change == LAB_DOUBLE_V)
        return t->of.values != CASE_SUBNORMAL && doubles_exactly(t);
    return ignores_order(&t->problem) && t->of.layout != CASE_REPEATED;
}

static void scale_values(lab_tensors *t, double factor)
{
    const lab_buffer *v = &t->buffer[LAB_V];
    uint8_t *marks = mark_elements(t, LAB_V);
    for (int64_t i = 0; i < v->elements; i++)
        if (marks[i])
            fc_store(v->type, lab_elements(v), i, factor * fc_load(v->type, lab_elements(v), i));
    free(marks);
}

static void swap_elements(const lab_buffer *buffer, int64_t left, int64_t right)
{
    uint8_t kept[8], *elements = lab_elements(buffer);
    const size_t bytes = (size_t)buffer->element_bytes;
    memcpy(kept, elements + (size_t)left * bytes, bytes);
    memcpy(elements + (size_t)left * bytes, elements + (size_t)right * bytes, bytes);
    memcpy(elements + (size_t)right * bytes, kept, bytes);
}

static void reverse_rows(lab_tensors *t, lab_tensor tensor)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    for (int64_t b = 0; b < t->problem.batch; b++)
        for (int64_t head = 0; head < t->problem.kv_heads; head++)
            for (int64_t row = 0, last = t->spans[b].kv_rows - 1; row < last - row; row++)
                for (int64_t dim = 0; dim < buffer->sizes[3]; dim++)
                    swap_elements(buffer, lab_element(t, tensor, b, head, row, dim),
                                  lab_element(t, tensor, b, head, last - row, dim));
}

/* Where q, k and v share an allocation it is q's. */
static fc_status upload(lab_tensors *t, lab_tensor tensor)
{
    const lab_buffer *buffer = &t->buffer[t->buffer[tensor].borrowed ? LAB_Q : tensor];
    return t->memory.upload(t->memory.user, buffer->memory, buffer->image,
                            lab_buffer_bytes(buffer));
}

static fc_status apply(lab_tensors *t, lab_change change, double factor)
{
    if (change == LAB_DOUBLE_V) {
        scale_values(t, factor);
        return upload(t, LAB_V);
    }
    reverse_rows(t, LAB_K);
    reverse_rows(t, LAB_V);
    const fc_status status = upload(t, LAB_K);
    return status == FC_OK ? upload(t, LAB_V) : status;
}

fc_status lab_change_make(lab_tensors *t, lab_change change)
{
    return apply(t, change, 2);
}

fc_status lab_change_undo(lab_tensors *t, lab_change change)
{
    return apply(t, change, 0.5);
}
