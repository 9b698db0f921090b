/* prefill.c: attention of many query rows.
 *
 * A tile is up to tile_rows query rows that share a KV head: row by row, and for each row all query
 * heads of the group. A thread owns a tile and walks the keys in blocks:
 *   pack K, V -> for each strip of MATMUL_ROWS rows: scores -> hide -> weights -> out += P·V
 *
 * Blocks begin at multiples of key_block keys and strips at multiples of MATMUL_ROWS rows, whatever
 * the tile, the batch and the number of threads: a row's arithmetic is always the same. */
#include "cpu/cpu.h"
#include "cpu/name.h"
#include "cpu/pack.h"
#include "cpu/score.h"
#include "cpu/thread.h"

/* ---- 1. Shape -------------------------------------------------------------------------------- */

/* Floats from row to row of a strip's scores: a block and room for a vector that sticks out, and
 * not a power of two, which would put all rows on the same sets of a cache. */
enum { STRIP_STRIDE = LONGEST_KEY_BLOCK + 16, STRIP_ELEMENTS = MATMUL_ROWS * STRIP_STRIDE };

enum {
    LEAST_TILE_ROWS = 4 * MATMUL_ROWS,
    MOST_TILE_ROWS = 256,
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

static prefill_shape choose_shape(const fc_attention *p, int threads)
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
    float *scores;    /* [MATMUL_ROWS][STRIP_STRIDE] */
    operand *weights; /* as scores, and in their place where an operand is a float */
    operand *staging;
} prefill_scratch;

static void *take(uint8_t *base, size_t *used, int64_t bytes)
{
    uint8_t *part = base ? base + *used : NULL;
    *used += (size_t)round_up(bytes, SCRATCH_ALIGNMENT);
    return part;
}

/* Returns the bytes; base may be NULL. */
static size_t lay_out(const prefill_shape *s, uint8_t *base, prefill_scratch *scratch)
{
    const int64_t element = (int64_t)sizeof(operand);
    const int64_t widest = s->depth > s->columns ? s->depth : s->columns;
    size_t used = 0;
    scratch->rows = take(base, &used, s->tile_rows * (int64_t)sizeof(query_row));
    scratch->q = take(base, &used, s->tile_rows * s->depth * element);
    scratch->keys = take(base, &used, s->key_block * s->depth * element);
    scratch->values = take(base, &used, s->key_block * s->columns * element);
    scratch->out = take(base, &used, s->tile_rows * s->columns * (int64_t)sizeof(float));
    scratch->scores = take(base, &used, STRIP_ELEMENTS * (int64_t)sizeof(float));
    scratch->staging = take(base, &used, VEC_LANES * staging_stride(widest) * element);
    scratch->weights = (operand *)(void *)scratch->scores;
    if (sizeof(operand) != sizeof(float))
        scratch->weights = take(base, &used, STRIP_ELEMENTS * element);
    return used;
}

static size_t workspace_bytes(const fc_attention *p, int threads)
{
    prefill_scratch scratch;
    const prefill_shape shape = choose_shape(p, threads);
    return (size_t)threads * lay_out(&shape, NULL, &scratch);
}

/* ---- 3. Steps -------------------------------------------------------------------------------- */

typedef struct prefill {
    const fc_attention *p;
    const fc_buffers *b;
    prefill_shape shape;
    score_rules rules;
    prefill_scratch scratch;
    fc_sequence sequence;
    int64_t kv_head;
    int64_t row_count; /* of the tile */
    bool tame;         /* the block's values: 0 times each of them is 0 */
} prefill;

static int64_t padded_rows(const prefill *w)
{
    return round_up(w->row_count, MATMUL_ROWS);
}

/* Row i of the tile is query row i / group of the sequence, head i % group of the KV head. */
static void load_queries(prefill *w, int64_t tile_first)
{
    const fc_attention *p = w->p;
    const int64_t depth = w->shape.depth, group = w->shape.group;
    for (int64_t i = 0; i < padded_rows(w); i++) {
        operand *q = w->scratch.q + i * depth;
        memset(q, 0, (size_t)depth * sizeof *q);
        if (i >= w->row_count)
            continue;
        const int64_t row = (tile_first + i) / group;
        const int64_t head = w->kv_head * group + (tile_first + i) % group;
        w->scratch.rows[i] = query_row_at(p, &w->sequence, head, row);
        operand_load_row(p->q_type, w->b->q, fc_q_index(p, &p->q_strides, &w->sequence, head, row),
                         p->q_strides.dim, p->head_dim,
                         f8_scale(w->b->q_scale, &p->q_scaling, w->sequence.batch, head, row), q);
    }
    memset(w->scratch.out, 0, (size_t)(padded_rows(w) * w->shape.columns) * sizeof *w->scratch.out);
}

/* The keys that any of these rows may see. */
static key_span keys_of_rows(const query_row *rows, int64_t count)
{
    key_span span = {.first = INT64_MAX, .end = 0};
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].first_key >= rows[i].end_key)
            continue;
        span.first = rows[i].first_key < span.first ? rows[i].first_key : span.first;
        span.end = rows[i].end_key > span.end ? rows[i].end_key : span.end;
    }
    return span;
}

static void pack_block(prefill *w, int64_t block, int64_t block_keys)
{
    const key_rows keys = key_rows_of(w->p, w->b, &w->sequence, w->kv_head, false);
    const key_rows values = key_rows_of(w->p, w->b, &w->sequence, w->kv_head, true);
    const prefill_scratch *s = &w->scratch;
    pack_keys(&keys, block, block_keys, w->shape.depth, s->staging, s->keys);
    w->tame = pack_values(&values, block, block_keys, w->shape.key_block, w->shape.columns,
                          s->staging, s->values);
}

static void score_strip(const prefill *w, int64_t strip, key_span span)
{
    const int64_t depth = w->shape.depth;
    matmul(&(matmul_step){.a = w->scratch.q + strip * depth,
                          .a_stride = depth,
                          .b = w->scratch.keys + span.first * depth,
                          .panel_stride = MATMUL_COLUMNS * depth,
                          .depth = depth,
                          .panels = (span.end - span.first) / MATMUL_COLUMNS,
                          .c = w->scratch.scores + span.first,
                          .c_stride = STRIP_STRIDE});
}

static void scale_row(float *values, int64_t count, float factor)
{
    for (int64_t i = 0; i < count; i += VEC_LANES)
        vec_store(values + i, vec_mul(vec_set(factor), vec_load(values + i)));
}

/* The weight that tells a key which the row does not see from one whose weight is small. */
static const float hidden_weight = -1;

static void weigh_row(prefill *w, int64_t i, int64_t strip_row, int64_t block, key_span span)
{
    float factors[LONGEST_KEY_BLOCK];
    bool hidden[LONGEST_KEY_BLOCK];
    query_row *row = &w->scratch.rows[i];
    float *scores = w->scratch.scores + strip_row * STRIP_STRIDE;
    operand *weights = w->scratch.weights + strip_row * STRIP_STRIDE;
    const bool drops = w->p->dropout_p > 0;
    const key_span mine = span_in_block(row->first_key, row->end_key, block, span.end);
    adjust_scores(&w->rules, &w->sequence, row, block, span, mine, scores);
    if (drops)
        dropout_factors(&w->rules, &w->sequence, row, block, span, factors);
    for (int64_t j = span.first; !w->tame && j < span.end; j++)
        hidden[j] = scores[j] == -INFINITY;
    const float shrink =
        weigh_scores(row, span, w->rules.exponent_scale, drops ? factors : NULL, scores, weights);
    for (int64_t j = span.first; !w->tame && j < span.end; j++)
        if (hidden[j])
            weights[j] = operand_of(hidden_weight);
    if (shrink != 1)
        scale_row(w->scratch.out + i * w->shape.columns, w->shape.columns, shrink);
}

static void add_values(const prefill *w, int64_t strip, key_span span)
{
    matmul(&(matmul_step){.a = w->scratch.weights + span.first,
                          .a_stride = STRIP_STRIDE,
                          .b = w->scratch.values + span.first * MATMUL_COLUMNS,
                          .panel_stride = w->shape.key_block * MATMUL_COLUMNS,
                          .depth = span.end - span.first,
                          .panels = w->shape.columns / MATMUL_COLUMNS,
                          .c = w->scratch.out + strip * w->shape.columns,
                          .c_stride = w->shape.columns,
                          .accumulate = true});
}

/* Where 0 · v is not 0, a key must not be added to the rows that do not see it. */
static void add_values_carefully(const prefill *w, int64_t strip, int64_t row_count, key_span span)
{
    const int64_t columns = w->shape.columns;
    for (int64_t i = 0; i < row_count; i++) {
        const operand *weights = w->scratch.weights + i * STRIP_STRIDE;
        float *out = w->scratch.out + (strip + i) * columns;
        for (int64_t key = span.first; key < span.end; key++) {
            const float weight = operand_value(weights[key]);
            if (weight == hidden_weight)
                continue;
            for (int64_t column = 0; column < columns; column += MATMUL_COLUMNS)
                matmul_add_row(w->scratch.values + column * w->shape.key_block, key, weight,
                               out + column);
        }
    }
}

/* ---- 4. The kernel --------------------------------------------------------------------------- */

static void attend_strip(prefill *w, int64_t strip, int64_t block, int64_t block_keys)
{
    const int64_t left = w->row_count - strip;
    const int64_t row_count = left < MATMUL_ROWS ? left : MATMUL_ROWS;
    const key_span all = keys_of_rows(w->scratch.rows + strip, row_count);
    const key_span seen = span_in_block(all.first, all.end, block, block_keys);
    if (seen.first >= seen.end)
        return;
    const key_span span = {.first = seen.first / MATMUL_COLUMNS * MATMUL_COLUMNS,
                           .end = round_up(seen.end, MATMUL_COLUMNS)};
    score_strip(w, strip, span);
    for (int64_t i = 0; i < row_count; i++)
        weigh_row(w, strip + i, i, block, span);
    if (w->tame)
        add_values(w, strip, span);
    else
        add_values_carefully(w, strip, row_count, span);
}

static void attend_tile(prefill *w, int64_t tile)
{
    const int64_t key_block = w->shape.key_block;
    const int64_t all_rows = w->sequence.q_rows * w->shape.group;
    const int64_t left = all_rows - tile * w->shape.tile_rows;
    w->row_count = left < w->shape.tile_rows ? left : w->shape.tile_rows;
    load_queries(w, tile * w->shape.tile_rows);
    const key_span keys = keys_of_rows(w->scratch.rows, w->row_count);
    for (int64_t block = keys.first / key_block * key_block; block < keys.end; block += key_block) {
        const int64_t past = w->sequence.kv_rows - block;
        const int64_t block_keys = past < key_block ? past : key_block;
        pack_block(w, block, block_keys);
        for (int64_t strip = 0; strip < w->row_count; strip += MATMUL_ROWS)
            attend_strip(w, strip, block, block_keys);
    }
    for (int64_t i = 0; i < w->row_count; i++)
        store_row(&w->rules, &w->sequence, &w->scratch.rows[i],
                  w->scratch.out + i * w->shape.columns);
}

/* Later tiles see more keys where attention is causal, so that they come first. */
static void attend(const fc_attention *p, const fc_buffers *b, int threads)
{
    const prefill_shape shape = choose_shape(p, threads);
#pragma omp parallel num_threads(threads)
    {
        prefill w = {.p = p, .b = b, .shape = shape, .rules = score_rules_of(p, b)};
        const size_t bytes = lay_out(&shape, NULL, &w.scratch);
        lay_out(&shape, (uint8_t *)b->workspace + (size_t)this_thread() * bytes, &w.scratch);
        matmul_begin();
        for (int64_t batch = 0; batch < p->batch; batch++) {
            w.sequence = fc_sequence_at(p, b, batch);
            const int64_t rows = w.sequence.q_rows * shape.group;
            const int64_t tiles = (rows + shape.tile_rows - 1) / shape.tile_rows;
#pragma omp for collapse(2) schedule(dynamic) nowait
            for (int64_t kv_head = 0; kv_head < p->kv_heads; kv_head++)
                for (int64_t tile = 0; tile < tiles; tile++) {
                    w.kv_head = kv_head;
                    attend_tile(&w, tiles - 1 - tile);
                }
        }
        matmul_end();
    }
}

const fc_cpu_ops FC_CPU_NAME(prefill) = {.workspace_bytes = workspace_bytes, .run = attend};
