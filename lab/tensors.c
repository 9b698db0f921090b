/* tensors.c: see tensors.h. */
#include "tensors.h"

#include "core/convert.h"
#include "core/internal.h"
#include "geometry.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>

size_t lab_buffer_bytes(const lab_buffer *buffer)
{
    return (size_t)(buffer->elements * buffer->element_bytes) + 2 * (size_t)LAB_GUARD_BYTES;
}

void *lab_elements(const lab_buffer *buffer)
{
    return buffer->image + LAB_GUARD_BYTES;
}

void *lab_pointer(const lab_buffer *buffer)
{
    if (!buffer->name)
        return NULL;
    return (uint8_t *)buffer->memory + LAB_GUARD_BYTES + buffer->origin * buffer->element_bytes;
}

static bool has_keys(lab_tensor tensor)
{
    return tensor == LAB_K || tensor == LAB_V || tensor == LAB_DK || tensor == LAB_DV;
}

static bool has_query_rows(lab_tensor tensor)
{
    return tensor == LAB_Q || tensor == LAB_OUT || tensor == LAB_LSE || tensor == LAB_DOUT ||
           tensor == LAB_DQ;
}

int64_t lab_element(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t head, int64_t row,
                    int64_t dim)
{
    const fc_attention *p = &t->problem;
    const lab_buffer *buffer = &t->buffer[tensor];
    if (has_query_rows(tensor))
        row += t->spans[b].q_first;
    if (has_keys(tensor) && p->paged) {
        const int32_t *table = lab_elements(&t->buffer[LAB_PAGE_TABLE]);
        b = table[b * p->page_table_stride + row / p->page_size];
        row %= p->page_size;
    } else if (has_keys(tensor)) {
        row += t->spans[b].kv_first;
    }
    return buffer->origin + b * buffer->strides[0] + head * buffer->strides[1] +
           row * buffer->strides[2] + dim * buffer->strides[3];
}

/* out and lse are written for the rows of the sequences, gradients whole. */
uint8_t *lab_written_elements(const lab_tensors *t, lab_tensor tensor)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const int64_t *sizes = buffer->sizes, *strides = buffer->strides;
    uint8_t *written = lab_zeroed(buffer->elements, 1);
    const bool packed_rows = t->problem.packed_q && (tensor == LAB_OUT || tensor == LAB_LSE);
    const lab_span *last = packed_rows && t->problem.batch ? &t->spans[t->problem.batch - 1] : NULL;
    const int64_t rows = !packed_rows ? sizes[2] : last ? last->q_first + last->q_rows : 0;
    for (int64_t a = 0; a < sizes[0]; a++)
        for (int64_t h = 0; h < sizes[1]; h++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t d = 0; d < sizes[3]; d++)
                    written[buffer->origin + a * strides[0] + h * strides[1] + i * strides[2] +
                            d * strides[3]] = 1;
    return written;
}

bool lab_shares_out(const lab_tensors *t, lab_tensor tensor)
{
    enum { LARGE = 1 << 17 }; /* elements: about ten milliseconds of one thread */
    const bool overlap = t->of.shares_pages || t->of.layout == CASE_REPEATED;
    return t->buffer[tensor].elements >= LARGE && !overlap;
}

double lab_scale(const lab_tensors *t, lab_tensor tensor, int64_t b, int64_t head, int64_t row)
{
    const fc_attention *p = &t->problem;
    const fc_scaling scaling = tensor == LAB_Q   ? p->q_scaling
                               : tensor == LAB_K ? p->k_scaling
                                                 : p->v_scaling;
    const lab_buffer *scales = &t->buffer[tensor == LAB_Q   ? LAB_Q_SCALE
                                          : tensor == LAB_K ? LAB_K_SCALE
                                                            : LAB_V_SCALE];
    if (tensor == LAB_DOUT || !scales->name)
        return 1;
    const int64_t block = scaling.block_rows ? row / scaling.block_rows : 0;
    return fc_load(FC_F32, lab_elements(scales),
                   b * scaling.batch + head * scaling.head + block * scaling.block);
}

static int64_t rows_of(const lab_tensors *t, lab_tensor tensor, int64_t b)
{
    return has_keys(tensor) ? t->spans[b].kv_rows : t->spans[b].q_rows;
}

static void fill_row(lab_tensors *t, lab_tensor tensor, int64_t b, int64_t h, int64_t i)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const int64_t first = lab_element(t, tensor, b, h, i, 0);
    const double scale = lab_scale(t, tensor, b, h, i);
    double values[FC_MAX_DIM];
    lab_row_values(t, tensor, (lab_place){b, h, i, 0}, buffer->sizes[3], values);
    for (int64_t d = 0; d < buffer->sizes[3]; d++)
        fc_store(buffer->type, lab_elements(buffer), first + d * buffer->strides[3],
                 values[d] / scale);
}

static void fill_tensor(lab_tensors *t, lab_tensor tensor)
{
    if (!t->buffer[tensor].name)
        return;
#pragma omp parallel if (lab_shares_out(t, tensor))
    for (int64_t b = 0; b < t->problem.batch; b++) {
        const int64_t heads = t->buffer[tensor].sizes[1], rows = rows_of(t, tensor, b);
#pragma omp for collapse(2) nowait
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i++)
                fill_row(t, tensor, b, h, i);
    }
}

static void fill_bias_and_mask(lab_tensors *t)
{
    const lab_buffer *bias = &t->buffer[LAB_BIAS], *mask = &t->buffer[LAB_MASK];
    if (!bias->name && !mask->name)
        return;
    for (int64_t b = 0; b < t->problem.batch; b++)
        for (int64_t h = 0; h < t->problem.q_heads; h++)
            for (int64_t i = 0; i < t->spans[b].q_rows; i++)
                for (int64_t j = 0; j < t->spans[b].kv_rows; j++) {
                    const lab_place at = {b, h, i, j};
                    if (bias->name)
                        fc_store(bias->type, lab_elements(bias),
                                 lab_element(t, LAB_BIAS, b, h, i, j),
                                 lab_parameter(t, LAB_BIAS, at));
                    if (mask->name)
                        ((uint8_t *)lab_elements(mask))[lab_element(t, LAB_MASK, b, h, i, j)] =
                            lab_mask_value(t, at);
                }
}

/* Scales, slopes, sinks: every element, also those no sequence is long enough to use. */
static void fill_parameters(lab_tensors *t, lab_tensor tensor)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    if (!buffer->name)
        return;
    for (int64_t a = 0; a < buffer->elements; a++)
        fc_store(FC_F32, lab_elements(buffer), a,
                 lab_parameter(t, tensor, (lab_place){0, a, 0, 0}));
}

static void fill_lengths(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    int32_t *cu_q = p->packed_q ? lab_elements(&t->buffer[LAB_CU_Q]) : NULL;
    int32_t *cu_kv = p->packed_kv ? lab_elements(&t->buffer[LAB_CU_KV]) : NULL;
    int32_t *lengths = p->has_kv_lengths ? lab_elements(&t->buffer[LAB_KV_LENGTHS]) : NULL;
    if (cu_q)
        cu_q[0] = 0;
    if (cu_kv)
        cu_kv[0] = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        const lab_span *span = &t->spans[b];
        if (cu_q)
            cu_q[b + 1] = (int32_t)(span->q_first + span->q_rows);
        if (cu_kv)
            cu_kv[b + 1] = (int32_t)(span->kv_first + span->kv_rows);
        if (lengths)
            lengths[b] = (int32_t)span->kv_rows;
    }
}

/* Pages are dealt in shuffled order; entries past a sequence's last page stay poisoned. */
static void fill_page_table(lab_tensors *t)
{
    const fc_attention *p = &t->problem;
    if (!p->paged)
        return;
    int32_t *deck = lab_zeroed(p->page_count, sizeof *deck);
    for (int64_t i = 0; i < p->page_count; i++) {
        const int64_t other = (int64_t)(lab_hash(t->of.seed, (uint64_t)i) % (uint64_t)(i + 1));
        deck[i] = deck[other];
        deck[other] = (int32_t)i;
    }
    int32_t *table = lab_elements(&t->buffer[LAB_PAGE_TABLE]);
    int64_t dealt = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < lab_geometry_pages(p, t->spans[b].kv_rows); i++) {
            const bool shared = t->of.shares_pages && b > 0 && i == 0;
            table[b * p->page_table_stride + i] = shared ? table[0] : deck[dealt++];
        }
    free(deck);
}

/* The row whose position is next to the key's: without mask and bias, if any row sees it, this. */
static int64_t nearest_row(const fc_attention *p, const lab_sequence *s, int64_t j)
{
    const int64_t row = p->diagonal == FC_TOP_LEFT ? j : j - (s->kv_rows - s->q_rows);
    return row < 0 ? 0 : row < s->q_rows ? row : s->q_rows - 1;
}

static bool key_is_seen(const lab_tensors *t, const lab_sequence *s, int64_t kv_head, int64_t j)
{
    const int64_t group = t->problem.q_heads / t->problem.kv_heads;
    if (s->q_rows == 0)
        return false;
    if (!s->mask && !s->bias)
        return lab_sees(&t->problem, s, kv_head * group, nearest_row(&t->problem, s, j), j);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < s->q_rows; i++)
            if (lab_sees(&t->problem, s, h, i, j))
                return true;
    return false;
}

static void spoil_key(lab_tensors *t, int64_t b, int64_t kv_head, int64_t j)
{
    const lab_buffer *k = &t->buffer[LAB_K], *v = &t->buffer[LAB_V];
    for (int64_t d = 0; d < t->problem.head_dim; d++)
        fc_store(k->type, lab_elements(k), lab_element(t, LAB_K, b, kv_head, j, d), NAN);
    for (int64_t d = 0; d < t->problem.value_dim; d++)
        fc_store(v->type, lab_elements(v), lab_element(t, LAB_V, b, kv_head, j, d), NAN);
}

static void spoil_hidden_keys(lab_tensors *t)
{
    if (t->of.layout == CASE_REPEATED || t->of.shares_pages)
        return;
    for (int64_t b = 0; b < t->problem.batch; b++) {
        lab_sequence s;
        lab_sequence_read_visibility(t, b, &s);
        for (int64_t h = 0; h < t->problem.kv_heads; h++)
            for (int64_t j = 0; j < s.kv_rows; j++)
                if (!key_is_seen(t, &s, h, j))
                    spoil_key(t, b, h, j);
        lab_sequence_free(&s);
    }
}

/* By all threads: what takes the time is getting the pages. */
static uint8_t *poisoned_image(size_t bytes)
{
    enum { PIECE_BYTES = 1 << 20 };
    uint8_t *image = lab_zeroed((int64_t)bytes, 1);
#pragma omp parallel for if (bytes >= 16 * (size_t)PIECE_BYTES)
    for (size_t first = 0; first < bytes; first += PIECE_BYTES)
        memset(image + first, LAB_POISON,
               bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES);
    return image;
}

static fc_status allocate(lab_tensors *t)
{
    for (lab_tensor tensor = 0; tensor < LAB_TENSOR_COUNT; tensor++) {
        lab_buffer *buffer = &t->buffer[tensor];
        if (buffer->borrowed) {
            buffer->image = t->buffer[LAB_Q].image;
            buffer->memory = t->buffer[LAB_Q].memory;
        } else if (buffer->name) {
            const size_t bytes = lab_buffer_bytes(buffer);
            buffer->image = tensor < LAB_INPUT_COUNT ? poisoned_image(bytes) : NULL;
            buffer->memory = t->memory.allocate(t->memory.user, bytes);
            if (!buffer->memory)
                return FC_ERROR_MEMORY;
        }
    }
    return FC_OK;
}

static fc_status upload_inputs(const lab_tensors *t)
{
    fc_status status = FC_OK;
    for (lab_tensor tensor = 0; tensor < LAB_INPUT_COUNT && status == FC_OK; tensor++) {
        const lab_buffer *buffer = &t->buffer[tensor];
        if (buffer->name && !buffer->borrowed)
            status = t->memory.upload(t->memory.user, buffer->memory, buffer->image,
                                      lab_buffer_bytes(buffer));
    }
    return status;
}

fc_status lab_tensors_create(const fc_case *c, const lab_memory *memory, lab_tensors *t)
{
    *t = (lab_tensors){.of = *c, .memory = *memory};
    lab_geometry_make(t);
    fc_status status = allocate(t);
    if (status == FC_OK) {
        static const lab_tensor parameters[] = {LAB_Q_SCALE, LAB_K_SCALE, LAB_V_SCALE, LAB_ALIBI,
                                                LAB_SINKS};
        fill_lengths(t);
        fill_page_table(t);
        for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
            fill_parameters(t, parameters[i]);
        fill_bias_and_mask(t);
        fill_tensor(t, LAB_Q);
        fill_tensor(t, LAB_K);
        fill_tensor(t, LAB_V);
        fill_tensor(t, LAB_DOUT);
        spoil_hidden_keys(t);
        status = upload_inputs(t);
    }
    if (status != FC_OK)
        lab_tensors_destroy(t);
    return status;
}

void lab_tensors_destroy(lab_tensors *t)
{
    for (lab_tensor tensor = 0; tensor < LAB_TENSOR_COUNT; tensor++) {
        lab_buffer *buffer = &t->buffer[tensor];
        if (buffer->borrowed)
            continue;
        free(buffer->image);
        if (buffer->memory)
            t->memory.release(t->memory.user, buffer->memory);
    }
    free(t->spans);
    *t = (lab_tensors){0};
}
