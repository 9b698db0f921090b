/* pack.h: K and V of one block of keys, as the panels that matmul.h wants. Types, strides, pages
 * and FP8 scales end here: past the packing there are only operands. */
#ifndef FC_CPU_PACK_H
#define FC_CPU_PACK_H

#include "cpu/load.h"
#include "cpu/matmul.h"

enum { LONGEST_KEY_BLOCK = 512 / sizeof(operand) };

/* Elements from row to row of the staging area: whole vectors. */
static inline int64_t staging_stride(int64_t dim)
{
    enum { VECTOR = VEC_LANES * OPERAND_GROUP };
    return round_up(dim, VECTOR);
}

/* Row `i` of `count` as operands, with zeros up to `width`; all zeros when it is not there. Stays
 * where it is when it already looks like that. */
static inline const operand *stage_row(const key_rows *r, const int64_t *index, int64_t first,
                                       int64_t i, int64_t count, int64_t width, operand *staging)
{
    const int64_t present = i < count ? r->dim : 0;
    if (present == width && operand_in_place(r->problem->kv_type, r->strides->dim, r->scales))
        return (const operand *)r->base + index[i];
    if (present)
        operand_load_row(r->problem->kv_type, r->base, index[i], r->strides->dim, r->dim,
                         key_scale(r, first + i), staging);
    memset(staging + present, 0, (size_t)(width - present) * sizeof *staging);
    return staging;
}

/* Keys become columns. Operands that lie side by side move together, as one word: two of 16 bits
 * like one of 32. */
static inline void transpose_rows(const operand *const rows[VEC_LANES], int64_t words, operand *to)
{
    for (int64_t word = 0; word < words; word += VEC_LANES) {
        vec block[VEC_LANES];
        FC_UNROLL
        for (int i = 0; i < VEC_LANES; i++)
            block[i] = vec_load(rows[i] + word * OPERAND_GROUP);
        vec_transpose(block);
        const int64_t here = words - word < VEC_LANES ? words - word : VEC_LANES;
        if (here == VEC_LANES) {
            FC_UNROLL
            for (int i = 0; i < VEC_LANES; i++)
                vec_store(to + (word + i) * MATMUL_COLUMNS * OPERAND_GROUP, block[i]);
        } else {
            for (int i = 0; i < here; i++)
                vec_store(to + (word + i) * MATMUL_COLUMNS * OPERAND_GROUP, block[i]);
        }
    }
}

/* The same where a word is two lanes. */
static inline void spread_rows(const operand *const rows[VEC_LANES], int64_t words, operand *to)
{
    for (int64_t word = 0; word < words; word++)
        for (int64_t i = 0; i < VEC_LANES; i++)
            memcpy(to + (word * MATMUL_COLUMNS + i) * OPERAND_GROUP, rows[i] + word * OPERAND_GROUP,
                   OPERAND_GROUP * sizeof *to);
}

/* The panels hold whole columns: keys past `count` are zeros. */
static void pack_keys(const key_rows *r, int64_t first, int64_t count, int64_t depth,
                      operand *staging, operand *panels)
{
    int64_t index[LONGEST_KEY_BLOCK] = {0};
    const int64_t stride = staging_stride(r->dim);
    find_rows(r, first, count, index);
    for (int64_t key = 0; key < round_up(count, MATMUL_COLUMNS); key += VEC_LANES) {
        const operand *rows[VEC_LANES];
        for (int64_t i = 0; i < VEC_LANES; i++)
            rows[i] = stage_row(r, index, first, key + i, count, stride, staging + i * stride);
        operand *to = panels + key / MATMUL_COLUMNS * MATMUL_COLUMNS * depth +
                      key % MATMUL_COLUMNS * OPERAND_GROUP;
        if (OPERAND_GROUP * sizeof(operand) == sizeof(float))
            transpose_rows(rows, depth / OPERAND_GROUP, to);
        else
            spread_rows(rows, depth / OPERAND_GROUP, to);
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
    for (int64_t key = 0; key < round_up(count, MATMUL_COLUMNS); key += OPERAND_GROUP) {
        const operand *rows[OPERAND_GROUP];
        for (int64_t i = 0; i < OPERAND_GROUP; i++) {
            rows[i] = stage_row(r, index, first, key + i, count, stride, staging + i * stride);
            tame = operand_row_is_tame(rows[i], stride) && tame;
        }
        for (int64_t column = 0; column < columns; column += MATMUL_COLUMNS)
            operand_interleave(rows, column, MATMUL_COLUMNS,
                               panels + column * key_block + key * MATMUL_COLUMNS);
    }
    return tame;
}

#endif
