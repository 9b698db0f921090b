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
#include "cpu/prefill_work.h"
#include "cpu/thread.h"

/* ---- 1. Steps -------------------------------------------------------------------------------- */

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
}

static void begin_sums(prefill *w)
{
    const prefill_scratch *s = &w->scratch;
    const int64_t rows = padded_rows(w);
    memset(s->out, 0, (size_t)(rows * w->shape.columns) * sizeof *s->out);
    memset(s->sums, 0, (size_t)(rows * VEC_LANES) * sizeof *s->sums);
    for (int64_t i = 0; i < rows + VEC_LANES; i++)
        s->tops[i] = -INFINITY;
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
                          .c_stride = SCORES_STRIDE});
}

static void scale_row(float *values, int64_t count, float factor)
{
    for (int64_t i = 0; i < count; i += VEC_LANES)
        vec_store(values + i, vec_mul(vec_set(factor), vec_load(values + i)));
}

/* The weight that tells a key which the row does not see from one whose weight is small. */
static const float hidden_weight = -1;

/* Rows that see all of the span, and have nothing but a scale, are taken as they are. */
static void adjust_strip(prefill *w, const softmax_strip *strip, const query_row *rows,
                         int64_t block)
{
    for (int64_t i = 0; i < strip->row_count; i++) {
        const key_span span = strip->span;
        const key_span mine = span_in_block(rows[i].first_key, rows[i].end_key, block, span.end);
        if (w->rules.adjusts || mine.first > span.first || mine.end < span.end)
            adjust_scores(&w->rules, &w->sequence, &rows[i], block, span, mine,
                          strip->scores + i * SCORES_STRIDE);
    }
}

static void weigh_row(prefill *w, const softmax_strip *strip, const query_row *row, int64_t i,
                      int64_t block)
{
    float factors[LONGEST_KEY_BLOCK];
    bool hidden[LONGEST_KEY_BLOCK];
    const key_span span = strip->span;
    const float *scores = strip->scores + i * SCORES_STRIDE;
    operand *weights = strip->weights + i * WEIGHTS_STRIDE;
    const bool drops = w->p->dropout_p > 0;
    if (drops)
        dropout_factors(&w->rules, &w->sequence, row, block, span, factors);
    for (int64_t j = span.first; !w->tame && j < span.end; j++)
        hidden[j] = scores[j] == -INFINITY;
    weigh_strip_row(strip, i, drops ? factors : NULL);
    for (int64_t j = span.first; !w->tame && j < span.end; j++)
        if (hidden[j])
            weights[j] = operand_of(hidden_weight);
}

static void weigh_strip(prefill *w, int64_t first_row, int64_t row_count, int64_t block,
                        key_span span)
{
    float shrink[MATMUL_ROWS + VEC_LANES];
    const prefill_scratch *s = &w->scratch;
    const softmax_strip strip = {.row_count = row_count,
                                 .span = span,
                                 .scale = w->rules.exponent_scale,
                                 .scores = s->scores,
                                 .stride = SCORES_STRIDE,
                                 .weights = s->weights,
                                 .weights_stride = WEIGHTS_STRIDE,
                                 .tops = s->tops + first_row,
                                 .sums = s->sums + first_row * VEC_LANES,
                                 .shrink = shrink};
    const query_row *rows = s->rows + first_row;
    adjust_strip(w, &strip, rows, block);
    raise_tops(&strip);
    const bool in_pairs = VEC_REGISTERS == 32 && w->tame && w->p->dropout_p == 0;
    int64_t i = 0;
    for (; in_pairs && i + 2 <= row_count; i += 2)
        weigh_row_pair(&strip, i);
    for (; i < row_count; i++)
        weigh_row(w, &strip, &rows[i], i, block);
    for (i = 0; i < row_count; i++)
        if (shrink[i] != 1)
            scale_row(s->out + (first_row + i) * w->shape.columns, w->shape.columns, shrink[i]);
}

static void add_values(const prefill *w, int64_t strip, key_span span)
{
    matmul(&(matmul_step){.a = w->scratch.weights + span.first,
                          .a_stride = WEIGHTS_STRIDE,
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
        const operand *weights = w->scratch.weights + i * WEIGHTS_STRIDE;
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

/* ---- 2. The kernel --------------------------------------------------------------------------- */

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
    weigh_strip(w, strip, row_count, block, span);
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
    begin_sums(w);
    const key_span keys = keys_of_rows(w->scratch.rows, w->row_count);
    for (int64_t block = keys.first / key_block * key_block; block < keys.end; block += key_block) {
        const int64_t past = w->sequence.kv_rows - block;
        const int64_t block_keys = past < key_block ? past : key_block;
        pack_block(w, block, block_keys);
        for (int64_t strip = 0; strip < w->row_count; strip += MATMUL_ROWS)
            attend_strip(w, strip, block, block_keys);
    }
    for (int64_t i = 0; i < w->row_count; i++) {
        query_row *row = &w->scratch.rows[i];
        row->top = w->scratch.tops[i];
        row->sum = vec_sum(vec_load(w->scratch.sums + i * VEC_LANES));
        store_row(&w->rules, &w->sequence, row, w->scratch.out + i * w->shape.columns);
    }
}

static prefill begin_thread(const fc_attention *p, const fc_buffers *b, const prefill_shape *shape,
                            int thread)
{
    prefill w = {.p = p, .b = b, .shape = *shape, .rules = score_rules_of(p, b)};
    const size_t bytes = lay_out(shape, NULL, &w.scratch);
    lay_out(shape, (uint8_t *)b->workspace + (size_t)thread * bytes, &w.scratch);
    return w;
}

/* Returns how many tiles the KV heads of the sequence have together. */
static int64_t enter_sequence(prefill *w, int64_t batch)
{
    w->sequence = fc_sequence_at(w->p, w->b, batch);
    const int64_t rows = w->sequence.q_rows * w->shape.group;
    w->tiles = (rows + w->shape.tile_rows - 1) / w->shape.tile_rows;
    return w->p->kv_heads * w->tiles;
}

/* Later tiles see more keys where attention is causal, so that they come first. */
static void attend_item(prefill *w, int64_t item)
{
    w->kv_head = item / w->tiles;
    attend_tile(w, w->tiles - 1 - item % w->tiles);
}

static void attend_alone(const fc_attention *p, const fc_buffers *b, const prefill_shape *shape)
{
    prefill w = begin_thread(p, b, shape, 0);
    matmul_begin();
    for (int64_t batch = 0; batch < p->batch; batch++) {
        const int64_t items = enter_sequence(&w, batch);
        for (int64_t item = 0; item < items; item++)
            attend_item(&w, item);
    }
    matmul_end();
}

static void attend_together(const fc_attention *p, const fc_buffers *b, const prefill_shape *shape,
                            int threads)
{
    (void)threads; /* without OpenMP there is one */
#pragma omp parallel num_threads(threads)
    {
        prefill w = begin_thread(p, b, shape, this_thread());
        matmul_begin();
        for (int64_t batch = 0; batch < p->batch; batch++) {
            const int64_t items = enter_sequence(&w, batch);
#pragma omp for schedule(dynamic) nowait
            for (int64_t item = 0; item < items; item++)
                attend_item(&w, item);
        }
        matmul_end();
    }
}

static void attend(const fc_attention *p, const fc_buffers *b, int threads)
{
    const prefill_shape shape = choose_shape(p, threads);
    const int64_t rows = p->q_length * shape.group;
    const int64_t most_tiles = (rows + shape.tile_rows - 1) / shape.tile_rows;
    if (works_alone(threads, p->batch * p->kv_heads * most_tiles))
        attend_alone(p, b, &shape);
    else
        attend_together(p, b, &shape, threads);
}

static size_t workspace_bytes(const fc_attention *p, int threads)
{
    prefill_scratch scratch;
    const prefill_shape shape = choose_shape(p, threads);
    return (size_t)threads * lay_out(&shape, NULL, &scratch);
}

const fc_cpu_ops FC_CPU_NAME(prefill) = {.workspace_bytes = workspace_bytes, .run = attend};
