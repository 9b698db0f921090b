/* backward_work.h: what the backward kernel works on: how it cuts a sequence, and what lies in the
 * workspace. */
#ifndef FC_CPU_BACKWARD_WORK_H
#define FC_CPU_BACKWARD_WORK_H

#include "cpu/matmul_transposed.h"
#include "cpu/pack.h"
#include "cpu/score.h"

/* ---- Shape: by the dims alone --------------------------------------------------------------- */

enum {
    /* Floats from row to row of what is no power of two, which would put all rows on the same sets
     * of a cache; a strip of keys may stick out of the block. */
    STRIDE_GAP = 16,
    WEIGHTS_STRIDE = LONGEST_KEY_BLOCK + STRIDE_GAP,
    LONGEST_ROW_BLOCK = 64
};

typedef struct backward_shape {
    int64_t kv_heads;
    int64_t group;       /* query heads of a KV head */
    int64_t q_depth;     /* head_dim, as deep as a matrix step goes */
    int64_t q_columns;   /* head_dim, in whole columns of a matrix step */
    int64_t q_stride;    /* from row to row of Q */
    int64_t value_depth; /* the same of value_dim */
    int64_t value_half;  /* of value_depth */
    int64_t value_columns;
    int64_t value_stride;
    int64_t row_block;
    int64_t key_block;
} backward_shape;

static inline backward_shape backward_shape_of(const fc_attention *p)
{
    const int64_t dim = p->head_dim > p->value_dim ? p->head_dim : p->value_dim;
    const int64_t shrink = dim <= 128 ? 1 : dim <= 256 ? 2 : 4;
    const int64_t rows = LONGEST_ROW_BLOCK / (shrink < 2 ? 1 : 2);
    backward_shape s = {.kv_heads = p->kv_heads,
                        .group = p->q_heads / p->kv_heads,
                        .q_depth = round_up(p->head_dim, MATMUL_DEPTH),
                        .q_columns = round_up(p->head_dim, MATMUL_COLUMNS),
                        .value_depth = round_up(p->value_dim, MATMUL_DEPTH),
                        .value_columns = round_up(p->value_dim, MATMUL_COLUMNS),
                        .row_block = rows / MATMUL_ROWS * MATMUL_ROWS,
                        .key_block = LONGEST_KEY_BLOCK / shrink};
    s.value_half = round_up((s.value_depth + 1) / 2, MATMUL_DEPTH);
    s.q_stride = s.q_columns + STRIDE_GAP;
    s.value_stride = s.value_columns + STRIDE_GAP;
    return s;
}

/* ---- Tiles: by the lengths of the sequence and the heads ------------------------------------ */

enum { LEAST_TILE = 256, WIDE_TILE = 512, MOST_TILES = 32, MANY_HEADS = 8 };

/* A wide tile loads its sums less often (2 % of the time); few heads need small ones, so that all
 * threads have something to do. */
static inline int64_t tile_size(const backward_shape *s, int64_t count, int64_t block)
{
    const int64_t even = (count + MOST_TILES - 1) / MOST_TILES;
    const int64_t least =
        s->kv_heads >= MANY_HEADS && count / 4 >= WIDE_TILE ? WIDE_TILE : LEAST_TILE;
    return round_up(even > least ? even : least, block);
}

static inline int64_t tile_count(const backward_shape *s, int64_t count, int64_t block)
{
    const int64_t size = tile_size(s, count, block);
    return (count + size - 1) / size;
}

/* Of any sequence of at most that many: a longer one may have larger tiles, and fewer of them. */
static inline int64_t most_tiles(int64_t count)
{
    const int64_t tiles = (count + LEAST_TILE - 1) / LEAST_TILE;
    return tiles < MOST_TILES ? tiles : MOST_TILES;
}

/* ---- Workspace: sums and states of all rows, then every thread's scratch -------------------- */

typedef struct row_state {
    float lse;
    float delta;   /* dout · out */
    float dscores; /* their sum, where the gradient of the sink is wanted */
} row_state;

/* Rows of a tensor, and of what lies in the workspace for each of them: [head][outer][row]. */
typedef struct sum_rows {
    int64_t outer; /* sequences; 1 when they are packed */
    int64_t rows;
} sum_rows;

static inline sum_rows query_sum_rows(const fc_attention *p)
{
    return p->packed_q ? (sum_rows){1, p->packed_q_rows} : (sum_rows){p->batch, p->q_length};
}

/* Paged keys lie by sequence, in whole pages. */
static inline sum_rows key_sum_rows(const fc_attention *p)
{
    return p->packed_kv ? (sum_rows){1, p->packed_kv_rows}
                        : (sum_rows){p->batch, p->paged ? round_up(p->kv_length, p->page_size)
                                                        : p->kv_length};
}

static inline int64_t sum_row_at(sum_rows r, int64_t head, int64_t outer, int64_t row)
{
    return (head * r.outer + outer) * r.rows + row;
}

typedef struct backward_sums {
    sum_rows q_rows, key_rows;
    row_state *states; /* [q_heads][q_rows] */
    float *dq;         /* [q_heads][q_rows][q_columns] */
    float *dk;         /* [kv_heads][key_rows][q_columns] */
    float *dv;         /* [kv_heads][key_rows][value_columns] */
} backward_sums;

typedef struct backward_scratch {
    query_row *rows; /* [row_block] */
    float *q;        /* [row_block][q_stride] */
    float *dout;     /* [row_block][value_stride] */
    float *dq;       /* [row_block][q_columns] */
    float *weights;  /* [row_block][WEIGHTS_STRIDE]: scores, then P with dropout */
    float *dscores;  /* likewise: dout · v, then the gradient of q · k */
    float *second;   /* [MATMUL_ROWS][WEIGHTS_STRIDE]: the second half of dout · v of a strip */
    float *keys;     /* panels of columns */
    float *values;   /* panels of columns */
    float *key_rows; /* K once more, as panels of rows */
    float *dk;       /* [key_block][q_columns], and room for a strip that sticks out */
    float *dv;       /* [key_block][value_columns], likewise */
    float *staging;
} backward_scratch;

static inline void *take(uint8_t *base, size_t *used, int64_t bytes)
{
    uint8_t *part = base ? base + *used : NULL;
    *used += (size_t)round_up(bytes, FC_WORKSPACE_ALIGNMENT);
    return part;
}

static inline float *take_floats(uint8_t *base, size_t *used, int64_t count)
{
    return take(base, used, count * (int64_t)sizeof(float));
}

/* Both return the bytes; base may be NULL. */
static inline size_t lay_out_scratch(const backward_shape *s, uint8_t *base, backward_scratch *to)
{
    const int64_t padded_keys = round_up(s->key_block, TRANSPOSED_ROWS);
    const int64_t widest = s->q_columns > s->value_columns ? s->q_columns : s->value_columns;
    size_t used = 0;
    to->rows = take(base, &used, s->row_block * (int64_t)sizeof(query_row));
    to->q = take_floats(base, &used, s->row_block * s->q_stride);
    to->dout = take_floats(base, &used, s->row_block * s->value_stride);
    to->dq = take_floats(base, &used, s->row_block * s->q_columns);
    to->weights = take_floats(base, &used, s->row_block * WEIGHTS_STRIDE);
    to->dscores = take_floats(base, &used, s->row_block * WEIGHTS_STRIDE);
    to->second = take_floats(base, &used, (int64_t)MATMUL_ROWS * WEIGHTS_STRIDE);
    to->keys = take_floats(base, &used, s->key_block * s->q_depth);
    to->values = take_floats(base, &used, s->key_block * s->value_depth);
    to->key_rows = take_floats(base, &used, s->key_block * s->q_columns);
    to->dk = take_floats(base, &used, padded_keys * s->q_columns);
    to->dv = take_floats(base, &used, padded_keys * s->value_columns);
    to->staging = take_floats(base, &used, VEC_LANES * staging_stride(widest));
    return used;
}

static inline size_t lay_out_sums(const fc_attention *p, const backward_shape *s, uint8_t *base,
                                  backward_sums *to)
{
    to->q_rows = query_sum_rows(p);
    to->key_rows = key_sum_rows(p);
    const int64_t queries = sum_row_at(to->q_rows, p->q_heads, 0, 0);
    const int64_t keys = sum_row_at(to->key_rows, p->kv_heads, 0, 0);
    size_t used = 0;
    to->states = take(base, &used, queries * (int64_t)sizeof(row_state));
    to->dq = take_floats(base, &used, queries * s->q_columns);
    to->dk = take_floats(base, &used, keys * s->q_columns);
    to->dv = take_floats(base, &used, keys * s->value_columns);
    return used;
}

/* More than any machine has stands for all that is too much: such a plan exists, but can't run. */
static inline bool is_too_much(const fc_attention *p)
{
    const sum_rows q = query_sum_rows(p), k = key_sum_rows(p);
    const double queries = (double)p->q_heads * (double)q.outer * (double)q.rows;
    const double keys = (double)p->kv_heads * (double)k.outer * (double)k.rows;
    return queries + keys > 0x1p44;
}

static inline size_t backward_workspace_bytes(const fc_attention *p, int threads)
{
    const backward_shape shape = backward_shape_of(p);
    backward_sums sums;
    backward_scratch scratch;
    if (is_too_much(p))
        return (size_t)1 << 60;
    return lay_out_sums(p, &shape, NULL, &sums) +
           (size_t)threads * lay_out_scratch(&shape, NULL, &scratch);
}

#endif
