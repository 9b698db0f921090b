/* backward.c: the gradients of attention, in one pass over all pairs of query rows and keys.
 *
 * The rows of a KV head (row by row, and for each row all query heads of the group) and its keys
 * are cut into tiles. A pair of tiles is a thread's unit of work:
 *   pack K, V -> for each block of rows: P, dS -> dQ += dS·K, dK += dSᵀ·Q, dV += Pᵀ·dO
 *
 * In step t the key tile i meets the row tile (i + t) mod n: no two units of a step share rows or
 * keys, and a barrier ends the step. Neither tiles nor the order in which a sum is made depend on
 * the threads or on the rest of the batch: its bits do not either. */
#include "cpu/backward_block.h"
#include "cpu/backward_store.h"
#include "cpu/cpu.h"
#include "cpu/name.h"
#include "cpu/thread.h"

/* ---- 1. Before: sums of 0, and what is known of each row ------------------------------------ */

static void clear_dbias(const backward *w)
{
    const fc_attention *p = w->p;
    const fc_broadcast *s = &p->bias_strides;
    const int64_t batches = s->batch ? p->batch : 1, heads = s->head ? p->q_heads : 1,
                  rows = s->row ? p->q_length : 1;
#pragma omp for collapse(3)
    for (int64_t batch = 0; batch < batches; batch++)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t key = 0; key < p->kv_length; key++)
                    w->g->dbias[batch * s->batch + head * s->head + row * s->row + key * s->key] =
                        0;
}

static void clear_sums(const backward *w)
{
    const int64_t queries = sum_row_at(w->sums.q_rows, w->p->q_heads, 0, 0);
    const int64_t keys = sum_row_at(w->sums.key_rows, w->p->kv_heads, 0, 0);
    const size_t q_bytes = (size_t)w->shape.q_columns * sizeof(float);
    const size_t value_bytes = (size_t)w->shape.value_columns * sizeof(float);
#pragma omp for nowait
    for (int64_t row = 0; row < queries; row++)
        memset(w->sums.dq + row * w->shape.q_columns, 0, q_bytes);
#pragma omp for
    for (int64_t row = 0; row < keys; row++) {
        memset(w->sums.dk + row * w->shape.q_columns, 0, q_bytes);
        memset(w->sums.dv + row * w->shape.value_columns, 0, value_bytes);
    }
    if (w->g->dbias)
        clear_dbias(w);
}

/* In the order and with the operations of matmul.h. */
static float dot_as_matmul(const float *a, const float *b, int64_t first, int64_t end)
{
    float lanes[VEC_LANES];
    vec sum = vec_zero();
    for (int64_t i = first; i < end; i++)
        sum = vec_fma(vec_set(a[i]), vec_set(b[i]), sum);
    vec_store(lanes, sum);
    return lanes[0];
}

/* Delta is summed as dout · v is: where a row sees a single key, out is v, and their difference has
 * to be exactly 0. */
static row_state state_of_row(const backward *w, int64_t head, int64_t row)
{
    const fc_attention *p = w->p;
    float *out = w->scratch.dout, *dout = out + w->shape.value_stride;
    load_padded(p->out_type, w->b->out, fc_q_index(p, &p->out_strides, &w->sequence, head, row),
                p->out_strides.dim, p->value_dim, w->shape.value_columns, 1, out);
    load_padded(p->out_type, w->g->dout, fc_q_index(p, &p->dout_strides, &w->sequence, head, row),
                p->dout_strides.dim, p->value_dim, w->shape.value_columns, 1, dout);
    const int64_t half = w->shape.value_half;
    return (row_state){.lse = read_lse(w, head, row),
                       .delta = dot_as_matmul(dout, out, 0, half) +
                                dot_as_matmul(dout, out, half, w->shape.value_depth)};
}

static void find_states(backward *w)
{
    const fc_attention *p = w->p;
    for (int64_t batch = 0; batch < p->batch; batch++) {
        w->sequence = fc_sequence_at(p, w->b, batch);
#pragma omp for collapse(2) nowait
        for (int64_t head = 0; head < p->q_heads; head++)
            for (int64_t row = 0; row < w->sequence.q_rows; row++)
                w->sums.states[query_sum_row(w, head, row)] = state_of_row(w, head, row);
    }
#pragma omp barrier
}

/* ---- 2. The pass ---------------------------------------------------------------------------- */

typedef struct tile {
    int64_t first, end;
} tile;

static tile tile_at(const backward_shape *s, int64_t index, int64_t count, int64_t block)
{
    const int64_t size = tile_size(s, count, block), first = index * size;
    return (tile){.first = first, .end = first + size < count ? first + size : count};
}

/* Row i of a KV head is query row i / group of the sequence, head i % group of the group. Says
 * whether any of the rows sees a key of the block. */
static bool enter_rows(backward *w, int64_t first, int64_t end)
{
    const int64_t group = w->shape.group;
    w->row_count = end - first < w->shape.row_block ? end - first : w->shape.row_block;
    for (int64_t i = 0; i < w->row_count; i++)
        w->scratch.rows[i] = query_row_at(
            w->p, &w->sequence, w->kv_head * group + (first + i) % group, (first + i) / group);
    const key_span all = keys_of_rows(w->scratch.rows, w->row_count);
    return all.first < w->block + w->block_keys && all.end > w->block;
}

static void differentiate_tiles(backward *w, tile rows, tile keys)
{
    for (w->block = keys.first; w->block < keys.end; w->block += w->shape.key_block) {
        const int64_t left = keys.end - w->block;
        w->block_keys = left < w->shape.key_block ? left : w->shape.key_block;
        bool loaded = false;
        for (int64_t row = rows.first; row < rows.end; row += w->shape.row_block) {
            if (!enter_rows(w, row, rows.end))
                continue;
            if (!loaded)
                load_keys(w);
            loaded = true;
            load_rows(w);
            differentiate_block(w);
            store_dq_sums(w);
        }
        if (loaded)
            store_key_sums(w);
    }
}

static int64_t step_count(const backward *w, const fc_sequence *s)
{
    const int64_t row_tiles = tile_count(&w->shape, s->q_rows * w->shape.group, w->shape.row_block);
    const int64_t key_tiles = tile_count(&w->shape, s->kv_rows, w->shape.key_block);
    return row_tiles > key_tiles ? row_tiles : key_tiles;
}

static void differentiate_pair(backward *w, int64_t batch, int64_t kv_head, int64_t key_tile,
                               int64_t step)
{
    w->sequence = fc_sequence_at(w->p, w->b, batch);
    w->kv_head = kv_head;
    const int64_t all_rows = w->sequence.q_rows * w->shape.group, all_keys = w->sequence.kv_rows;
    const int64_t steps = step_count(w, &w->sequence);
    if (step >= steps || key_tile >= tile_count(&w->shape, all_keys, w->shape.key_block))
        return;
    const int64_t row_tile = (key_tile + step) % steps;
    if (row_tile < tile_count(&w->shape, all_rows, w->shape.row_block))
        differentiate_tiles(w, tile_at(&w->shape, row_tile, all_rows, w->shape.row_block),
                            tile_at(&w->shape, key_tile, all_keys, w->shape.key_block));
}

/* Sequences and heads that share elements of dbias go one after another. */
static void take_step(backward *w, int64_t step)
{
    const fc_attention *p = w->p;
    const bool share_batch = w->g->dbias && !p->bias_strides.batch;
    const bool share_heads = w->g->dbias && !p->bias_strides.head;
    const int64_t batches = share_batch ? 1 : p->batch, heads = share_heads ? 1 : p->kv_heads;
    const int64_t key_tiles = most_tiles(p->kv_length);
#pragma omp for collapse(3) schedule(dynamic)
    for (int64_t batch = 0; batch < batches; batch++)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t key_tile = 0; key_tile < key_tiles; key_tile++)
                for (int64_t b = batch; b < (share_batch ? p->batch : batch + 1); b++)
                    for (int64_t h = head; h < (share_heads ? p->kv_heads : head + 1); h++)
                        differentiate_pair(w, b, h, key_tile, step);
}

static void take_all_steps(backward *w)
{
    int64_t steps = 0;
    for (int64_t batch = 0; batch < w->p->batch; batch++) {
        const fc_sequence sequence = fc_sequence_at(w->p, w->b, batch);
        const int64_t needed = step_count(w, &sequence);
        steps = needed > steps ? needed : steps;
    }
    for (int64_t step = 0; step < steps; step++)
        take_step(w, step);
}

/* ---- 3. The kernel -------------------------------------------------------------------------- */

static void differentiate(const fc_attention *p, const fc_buffers *b, const fc_gradients *g,
                          int threads)
{
    (void)threads; /* without OpenMP there is one */
#pragma omp parallel num_threads(threads)
    {
        backward w = {
            .p = p, .b = b, .g = g, .shape = backward_shape_of(p), .rules = score_rules_of(p, b)};
        uint8_t *scratch =
            (uint8_t *)b->workspace + lay_out_sums(p, &w.shape, b->workspace, &w.sums);
        scratch += (size_t)this_thread() * lay_out_scratch(&w.shape, NULL, &w.scratch);
        lay_out_scratch(&w.shape, scratch, &w.scratch);
        clear_sums(&w);
        find_states(&w);
        take_all_steps(&w);
        store_gradients(&w);
    }
}

const fc_cpu_ops FC_CPU_NAME(backward) = {.workspace_bytes = backward_workspace_bytes,
                                          .run_backward = differentiate};
