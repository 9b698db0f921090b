/* load.h: rows of elements of any type and stride, to and from floats. */
#ifndef FC_CPU_LOAD_H
#define FC_CPU_LOAD_H

#include "core/sequence.h"
#include "cpu/vec.h"

static inline int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* fc_type_bytes for the compiler to see through. */
static inline int64_t element_bytes(fc_type type)
{
    switch (type) {
    case FC_F64: return 8;
    case FC_F32: return 4;
    case FC_F16:
    case FC_BF16: return 2;
    default: return 1;
    }
}

static inline const uint8_t *element_at(fc_type type, const void *base, int64_t index)
{
    return (const uint8_t *)base + index * element_bytes(type);
}

static inline void load_neighbours(fc_type type, const uint8_t *from, int64_t count, float factor,
                                   float *to)
{
    const int64_t bytes = element_bytes(type);
    const vec factors = vec_set(factor);
    int64_t i = 0;
    for (; i + VEC_LANES <= count; i += VEC_LANES)
        vec_store(to + i, vec_mul(factors, vec_load_as(type, from + i * bytes)));
    for (; i < count; i++)
        to[i] = factor * (float)fc_load(type, from, i);
}

/* to[i] = factor · base[index + i · stride] */
static inline void load_floats(fc_type type, const void *base, int64_t index, int64_t stride,
                               int64_t count, float factor, float *to)
{
    const uint8_t *from = element_at(type, base, index);
    switch (stride == 1 ? type : FC_TYPE_AUTO) {
    case FC_F32: load_neighbours(FC_F32, from, count, factor, to); break;
    case FC_F16: load_neighbours(FC_F16, from, count, factor, to); break;
    case FC_BF16: load_neighbours(FC_BF16, from, count, factor, to); break;
    case FC_F8_E4M3: load_neighbours(FC_F8_E4M3, from, count, factor, to); break;
    case FC_F8_E5M2: load_neighbours(FC_F8_E5M2, from, count, factor, to); break;
    default:
        for (int64_t i = 0; i < count; i++)
            to[i] = factor * (float)fc_load(type, base, index + i * stride);
    }
}

/* to[i] = base[index + i · stride], of 16 bits */
static inline void load_halves(const void *base, int64_t index, int64_t stride, int64_t count,
                               uint16_t *to)
{
    const uint16_t *from = (const uint16_t *)base + index;
    if (stride == 1)
        memcpy(to, from, (size_t)count * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * stride];
}

/* base[index + i · stride] = factor · values[i] */
static inline void store_floats(fc_type type, void *base, int64_t index, int64_t stride,
                                int64_t count, float factor, const float *values)
{
    const vec factors = vec_set(factor);
    uint8_t *to = (uint8_t *)base + index * element_bytes(type);
    int64_t i = 0;
    if (stride == 1 && type != FC_F64)
        for (; i + VEC_LANES <= count; i += VEC_LANES) {
            const vec scaled = vec_mul(factors, vec_load(values + i));
            if (type == FC_F32)
                vec_store(to + 4 * i, scaled);
            else if (type == FC_F16)
                vec_store_f16(to + 2 * i, scaled);
            else
                vec_store_bf16(to + 2 * i, scaled);
        }
    for (; i < count; i++)
        fc_store(type, base, index + i * stride, (double)(factor * values[i]));
}

/* One of K and V, as one KV head of one sequence sees it. */
typedef struct key_rows {
    const fc_attention *problem;
    const fc_buffers *buffers;
    const fc_sequence *sequence;
    int64_t kv_head;
    const void *base;
    const fc_strides *strides;
    const float *scales; /* FP8; NULL: 1 */
    const fc_scaling *scaling;
    int64_t dim; /* elements of a row */
} key_rows;

static inline key_rows key_rows_of(const fc_attention *p, const fc_buffers *b, const fc_sequence *s,
                                   int64_t kv_head, bool values)
{
    return (key_rows){.problem = p,
                      .buffers = b,
                      .sequence = s,
                      .kv_head = kv_head,
                      .base = values ? b->v : b->k,
                      .strides = values ? &p->v_strides : &p->k_strides,
                      .scales = values ? b->v_scale : b->k_scale,
                      .scaling = values ? &p->v_scaling : &p->k_scaling,
                      .dim = values ? p->value_dim : p->head_dim};
}

/* Where the rows of `count` keys begin; a page is looked up once. */
static inline void find_rows(const key_rows *r, int64_t first, int64_t count, int64_t *index)
{
    const fc_attention *p = r->problem;
    for (int64_t done = 0; done < count;) {
        const int64_t left = count - done;
        const int64_t in_page = p->paged ? p->page_size - (first + done) % p->page_size : left;
        const int64_t run = in_page < left ? in_page : left;
        const int64_t start =
            fc_kv_index(p, r->buffers, r->strides, r->sequence, r->kv_head, first + done);
        for (int64_t i = 0; i < run; i++)
            index[done + i] = start + i * r->strides->row;
        done += run;
    }
}

static inline float f8_scale(const float *scales, const fc_scaling *s, int64_t batch, int64_t head,
                             int64_t row)
{
    if (!scales)
        return 1;
    const int64_t block = s->block_rows ? row / s->block_rows : 0;
    return scales[batch * s->batch + head * s->head + block * s->block];
}

static inline float key_scale(const key_rows *r, int64_t key)
{
    return f8_scale(r->scales, r->scaling, r->sequence->batch, r->kv_head, key);
}

#endif
