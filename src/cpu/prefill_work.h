/* prefill_work.h: what a thread of prefill.c works with: the shape of its tiles, its scratch memory
 * and where it stands. */
#ifndef FC_CPU_PREFILL_WORK_H
#define FC_CPU_PREFILL_WORK_H

#include "cpu/pack.h"
#include "cpu/softmax.h"

/* ---- 1. Shape -------------------------------------------------------------------------------- */

/* Elements from row to row of a strip's scores: a block and one line of the cache, so that rows
 * begin with a line, but not all of them in the same sets of the cache. Weights take the place of
 * their scores. */
enum {
    SCORES_STRIDE = LONGEST_KEY_BLOCK + 64 / sizeof(float),
    WEIGHTS_STRIDE = SCORES_STRIDE * sizeof(float) / sizeof(operand)
};

enum {
    LEAST_TILE_ROWS = 4 * MATMUL_ROWS,
    MOST_TILE_ROWS = 512,
    TILE_BYTES = 192 * 1024, /* of q and out together */
    SCRATCH_ALIGNMENT = FC_WORKSPACE_ALIGNMENT
};

typedef struct prefill_shape {
    int64_t group;   /* query heads of a KV head */
    int64_t depth;   /* head_dim, padded */
    int64_t columns; /* value_dim, padded */
    int64_t key_block;
    int64_t tile_rows;
} prefill_shape;

/* By the dims alone: this is what a row's bits depend on. */
static int64_t choose_key_block(const fc_attention *p)
{
    const int64_t dim = p->head_dim > p->value_dim ? p->head_dim : p->value_dim;
    return dim <= 128   ? LONGEST_KEY_BLOCK
           : dim <= 256 ? LONGEST_KEY_BLOCK / 2
                        : LONGEST_KEY_BLOCK / 4;
}

/* Large tiles pack K and V less often; smaller ones give every thread something to do. */
static int64_t choose_tile_rows(const fc_attention *p, const prefill_shape *s, int threads)
{
    const int64_t row_bytes =
        s->depth * (int64_t)sizeof(operand) + s->columns * (int64_t)sizeof(float);
    const int64_t most =
        TILE_BYTES / row_bytes < MOST_TILE_ROWS ? TILE_BYTES / row_bytes : MOST_TILE_ROWS;
    /* In double: a packed batch may be described with more rows than 64 bits count. */
    const double all_rows = (double)p->batch * (double)p->q_heads * (double)p->q_length;
    const double fair = all_rows / (3.0 * threads);
    const int64_t wanted = fair > (double)most ? most : (int64_t)fair;
    const int64_t rows = wanted > LEAST_TILE_ROWS ? wanted : LEAST_TILE_ROWS;
    return (rows < most ? rows : most) / MATMUL_ROWS * MATMUL_ROWS;
}

static inline prefill_shape choose_shape(const fc_attention *p, int threads)
{
    prefill_shape s = {.group = p->q_heads / p->kv_heads,
                       .depth = round_up(p->head_dim, MATMUL_DEPTH),
                       .columns = round_up(p->value_dim, MATMUL_COLUMNS),
                       .key_block = choose_key_block(p)};
    s.tile_rows = choose_tile_rows(p, &s, threads);
    return s;
}

/* ---- 2. Scratch of one thread ---------------------------------------------------------------- */

typedef struct prefill_scratch {
    query_row *rows;  /* [tile_rows] */
    operand *q;       /* [tile_rows][depth] */
    operand *keys;    /* panels [key_block / MATMUL_COLUMNS][depth][MATMUL_COLUMNS] */
    operand *values;  /* panels [columns / MATMUL_COLUMNS][key_block][MATMUL_COLUMNS] */
    float *out;       /* [tile_rows][columns] */
    float *tops;      /* [tile_rows] and room for a vector, see softmax.h */
    float *sums;      /* [tile_rows][VEC_LANES] */
    float *scores;    /* [MATMUL_ROWS][SCORES_STRIDE] */
    operand *weights; /* [MATMUL_ROWS][WEIGHTS_STRIDE], in the same place */
    operand *staging;
} prefill_scratch;

static void *take(uint8_t *base, size_t *used, int64_t bytes)
{
    void *part = (void *)((uintptr_t)base + *used); /* as numbers: NULL can't be added to */
    *used += (size_t)round_up(bytes, SCRATCH_ALIGNMENT);
    return part;
}

/* Returns the bytes; base may be NULL. */
static inline size_t lay_out(const prefill_shape *s, uint8_t *base, prefill_scratch *scratch)
{
    const int64_t element = (int64_t)sizeof(operand);
    const int64_t widest = s->depth > s->columns ? s->depth : s->columns;
    size_t used = 0;
    scratch->rows = take(base, &used, s->tile_rows * (int64_t)sizeof(query_row));
    scratch->q = take(base, &used, s->tile_rows * s->depth * element);
    scratch->keys = take(base, &used, s->key_block * s->depth * element);
    scratch->values = take(base, &used, s->key_block * s->columns * element);
    scratch->out = take(base, &used, s->tile_rows * s->columns * (int64_t)sizeof(float));
    scratch->tops = take(base, &used, (s->tile_rows + VEC_LANES) * (int64_t)sizeof(float));
    scratch->sums = take(base, &used, s->tile_rows * VEC_LANES * (int64_t)sizeof(float));
    scratch->scores =
        take(base, &used, (int64_t)MATMUL_ROWS * SCORES_STRIDE * (int64_t)sizeof(float));
    scratch->staging = take(base, &used, VEC_LANES * staging_stride(widest) * element);
    scratch->weights = (operand *)(void *)scratch->scores;
    return used;
}

/* ---- 3. Where it stands ---------------------------------------------------------------------- */

typedef struct prefill {
    const fc_attention *p;
    const fc_buffers *b;
    prefill_shape shape;
    score_rules rules;
    prefill_scratch scratch;
    fc_sequence sequence;
    int64_t kv_head;
    int64_t tiles;     /* of a KV head of the sequence */
    int64_t row_count; /* of the tile */
    bool tame;         /* the block's values: 0 times each of them is 0 */
} prefill;

#endif
