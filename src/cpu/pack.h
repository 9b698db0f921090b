/* pack.h: K and V of one block of keys, as the panels that matmul.h wants. Types, strides, pages
 * and FP8 scales end here: past the packing there are only operands. */
#ifndef FC_CPU_PACK_H
#define FC_CPU_PACK_H

#include "cpu/load.h"
#include "cpu/matmul.h"

enum { LONGEST_KEY_BLOCK = 128 };

/* Elements from row to row of the staging area: whole vectors. */
static inline int64_t staging_stride(int64_t dim)
{
    enum { VECTOR = VEC_LANES * OPERAND_PAIR };
    return round_up(dim, VECTOR);
}

/* Row `i` of `count` as operands, with zeros up to `width`; all zeros when it is not there. */
static inline void stage_row(const key_rows *r, const int64_t *index, int64_t first, int64_t i,
                             int64_t count, int64_t width, operand *to)
{
    const int64_t present = i < count ? r->dim : 0;
    if (present)
        operand_load_row(r->problem->kv_type, r->base, index[i], r->strides->dim, r->dim,
                         key_scale(r, first + i), to);
    memset(to + present, 0, (size_t)(width - present) * sizeof *to);
}

/* Keys become columns. Pairs of 16-bit operands move together, as one 32-bit word. */
static inline void transpose_rows(const operand *staging, int64_t stride, int64_t words, float *to)
{
    const float *from = (const float *)(const void *)staging;
    const int64_t row_words = stride / OPERAND_PAIR;
    for (int64_t word = 0; word < words; word += VEC_LANES) {
        vec block[VEC_LANES];
        FC_UNROLL
        for (int i = 0; i < VEC_LANES; i++)
            block[i] = vec_load(from + i * row_words + word);
        vec_transpose(block);
        const int64_t here = words - word < VEC_LANES ? words - word : VEC_LANES;
        if (here == VEC_LANES) {
            FC_UNROLL
            for (int i = 0; i < VEC_LANES; i++)
                vec_store(to + (word + i) * MATMUL_COLUMNS, block[i]);
        } else {
            for (int i = 0; i < here; i++)
                vec_store(to + (word + i) * MATMUL_COLUMNS, block[i]);
        }
    }
}

/* The panels hold whole columns: keys past `count` are zeros. */
static void pack_keys(const key_rows *r, int64_t first, int64_t count, int64_t depth,
                      operand *staging, operand *panels)
{
    int64_t index[LONGEST_KEY_BLOCK] = {0};
    const int64_t stride = staging_stride(r->dim);
    find_rows(r, first, count, index);
    for (int64_t key = 0; key < round_up(count, MATMUL_COLUMNS); key += VEC_LANES) {
        for (int64_t i = 0; i < VEC_LANES; i++)
            stage_row(r, index, first, key + i, count, stride, staging + i * stride);
        float *to = (float *)(void *)(panels + key / MATMUL_COLUMNS * MATMUL_COLUMNS * depth);
        transpose_rows(staging, stride, depth / OPERAND_PAIR, to + key % MATMUL_COLUMNS);
    }
}

static inline void copy_panel_row(const operand *restrict row, int64_t stride, operand *restrict to)
{
    if (OPERAND_PAIR == 1)
        memcpy(to, row, MATMUL_COLUMNS * sizeof *to);
    else
        for (int64_t column = 0; column < MATMUL_COLUMNS; column++) {
            to[2 * column] = row[column];
            to[2 * column + 1] = row[stride + column];
        }
}

/* Values stay rows. Says whether all are tame: a weight of 0 then silences them. */
static bool pack_values(const key_rows *r, int64_t first, int64_t count, int64_t key_block,
                        int64_t columns, operand *staging, operand *panels)
{
    int64_t index[LONGEST_KEY_BLOCK] = {0};
    const int64_t stride = staging_stride(columns);
    bool tame = true;
    find_rows(r, first, count, index);
    for (int64_t key = 0; key < round_up(count, MATMUL_COLUMNS); key += OPERAND_PAIR) {
        for (int64_t i = 0; i < OPERAND_PAIR; i++) {
            operand *row = staging + i * stride;
            stage_row(r, index, first, key + i, count, stride, row);
            tame = tame && operand_row_is_tame(row, stride);
        }
        for (int64_t column = 0; column < columns; column += MATMUL_COLUMNS)
            copy_panel_row(staging + column, stride,
                           panels + column * key_block + key * MATMUL_COLUMNS);
    }
    return tame;
}

#endif
