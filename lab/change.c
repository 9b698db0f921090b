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
#pragma omp parallel for collapse(2) if (lab_shares_out(t, tensor))
    for (int64_t b = 0; b < t->problem.batch; b++)
        for (int64_t head = 0; head < t->problem.kv_heads; head++)
            for (int64_t row = 0; row < t->spans[b].kv_rows; row++) {
                const int64_t first = lab_element(t, tensor, b, head, row, 0);
                for (int64_t dim = 0; dim < buffer->sizes[3]; dim++)
                    marks[first + dim * buffer->strides[3]] = 1;
            }
    return marks;
}

static bool is_floating(fc_type type)
{
    return type == FC_F64 || type == FC_F32 || type == FC_F16 || type == FC_BF16;
}

/* What becomes of every element of a tensor. */
typedef struct element_change {
    lab_tensor tensor;
    double factor, addend;
} element_change;

static const element_change doubling = {LAB_V, 2, 0}, halving = {LAB_V, 0.5, 0};
static const element_change shifting = {LAB_K, 1, LAB_KEY_SHIFT},
                            shifting_back = {LAB_K, 1, -LAB_KEY_SHIFT};

static bool is_exact(const lab_tensors *t, element_change change)
{
    const lab_buffer *buffer = &t->buffer[change.tensor];
    uint8_t *marks = mark_elements(t, change.tensor);
    bool exact = true;
    for (int64_t i = 0; exact && i < buffer->elements; i++) {
        if (!marks[i])
            continue;
        const double value = fc_load(buffer->type, lab_elements(buffer), i);
        const double changed = change.factor * value + change.addend;
        exact = !isfinite(value) || (lab_round(buffer->type, changed) == changed &&
                                     (changed - change.addend) / change.factor == value);
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

/* A sink stays where it is when the scores move, and the soft-cap bends the move. */
static bool ignores_shift(const fc_attention *p)
{
    return p->softcap == 0 && !p->has_sinks;
}

/* Instructions may take subnormal numbers for 0, so that twice one is more than twice nothing. */
bool lab_change_applies(const lab_tensors *t, lab_change change)
{
    if (!is_floating(t->buffer[LAB_V].type) || !is_floating(t->buffer[LAB_K].type))
        return false;
    if (change == LAB_DOUBLE_V)
        return t->of.values != CASE_SUBNORMAL && is_exact(t, doubling);
    if (change == LAB_SHIFT_KEYS)
        return ignores_shift(&t->problem) && is_exact(t, shifting);
    return ignores_order(&t->problem) && t->of.layout != CASE_REPEATED;
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
#pragma omp parallel for collapse(2) if (lab_shares_out(t, tensor))
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

static fc_status change_elements(lab_tensors *t, element_change change)
{
    const lab_buffer *buffer = &t->buffer[change.tensor];
    uint8_t *marks = mark_elements(t, change.tensor);
#pragma omp parallel for if (lab_shares_out(t, change.tensor))
    for (int64_t i = 0; i < buffer->elements; i++)
        if (marks[i])
            fc_store(buffer->type, lab_elements(buffer), i,
                     change.factor * fc_load(buffer->type, lab_elements(buffer), i) +
                         change.addend);
    free(marks);
    return upload(t, change.tensor);
}

static fc_status reverse_keys(lab_tensors *t)
{
    reverse_rows(t, LAB_K);
    reverse_rows(t, LAB_V);
    const fc_status status = upload(t, LAB_K);
    return status == FC_OK ? upload(t, LAB_V) : status;
}

fc_status lab_change_make(lab_tensors *t, lab_change change)
{
    switch (change) {
    case LAB_DOUBLE_V: return change_elements(t, doubling);
    case LAB_SHIFT_KEYS: return change_elements(t, shifting);
    default: return reverse_keys(t);
    }
}

fc_status lab_change_undo(lab_tensors *t, lab_change change)
{
    switch (change) {
    case LAB_DOUBLE_V: return change_elements(t, halving);
    case LAB_SHIFT_KEYS: return change_elements(t, shifting_back);
    default: return reverse_keys(t);
    }
}
