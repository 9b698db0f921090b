/* backward_block.h: one block of query rows against one block of keys. With P the weights, dO that
 * of the rows and m what dropout multiplies with:
 *
 *   P = exp(score - lse)    dP = dO·Vᵀ    dS = P · (m · dP - delta)
 *   dV += (P · m)ᵀ·dO       dK += dSᵀ·Q   dQ += dS·K                                            */
#ifndef FC_CPU_BACKWARD_BLOCK_H
#define FC_CPU_BACKWARD_BLOCK_H

#include "cpu/backward_load.h"

/* ---- P and dS ------------------------------------------------------------------------------- */

/* Scores are summed as the forward pass does: lse has to fit them. */
static void score_strip(const backward *w, int64_t strip, key_span span)
{
    const backward_shape *s = &w->shape;
    matmul(&(matmul_step){.a = w->scratch.q + strip * s->q_stride,
                          .a_stride = s->q_stride,
                          .b = w->scratch.keys + span.first * s->q_depth,
                          .panel_stride = MATMUL_COLUMNS * s->q_depth,
                          .depth = s->q_depth,
                          .panels = (span.end - span.first) / MATMUL_COLUMNS,
                          .c = w->scratch.weights + strip * WEIGHTS_STRIDE + span.first,
                          .c_stride = WEIGHTS_STRIDE});
}

/* dout · v in two halves: half as many products in a row make a smaller error, and what is left of
 * these sums when delta is taken off is small. */
static void multiply_half(const backward *w, int64_t strip, key_span span, int half, float *to)
{
    const backward_shape *s = &w->shape;
    const int64_t first = half ? s->value_half : 0;
    matmul(&(matmul_step){.a = w->scratch.dout + strip * s->value_stride + first,
                          .a_stride = s->value_stride,
                          .b = w->scratch.values + span.first * s->value_depth +
                               first * MATMUL_COLUMNS,
                          .panel_stride = MATMUL_COLUMNS * s->value_depth,
                          .depth = half ? s->value_depth - s->value_half : s->value_half,
                          .panels = (span.end - span.first) / MATMUL_COLUMNS,
                          .c = to + span.first,
                          .c_stride = WEIGHTS_STRIDE});
}

/* The derivative of cap(x) by x, for x = scale · q·k. */
static void find_slopes(const fc_attention *p, key_span span, const float *products, float *slopes)
{
    const vec factor = vec_set(p->scale / p->softcap);
    for (int64_t j = span.first; j < span.end; j += VEC_LANES) {
        const vec fraction = vec_tanh(vec_mul(vec_load(products + j), factor));
        vec_store(slopes + j, vec_sub(vec_set(1), vec_mul(fraction, fraction)));
    }
}

static void multiply_floats(float *values, const float *factors, key_span span)
{
    for (int64_t j = span.first; j < span.end; j += VEC_LANES)
        vec_store(values + j, vec_mul(vec_load(values + j), vec_load(factors + j)));
}

/* A weight that tells hidden keys from those whose weight is 0, where that matters: if 0 times an
 * element is not 0. */
static float hidden_weight(const backward *w)
{
    return w->tame_keys && w->tame_rows ? 0 : -1;
}

/* The difference to lse comes before the factor log2 e: it is small where a weight is large, and so
 * is then what rounding does to it. Scores become weights and dout · v gradients of the scores;
 * kept is NULL or what dropout multiplies with. */
static void weigh_row(const backward *w, row_state state, key_span span, const float *kept,
                      const float *second, float *scores, float *dscores)
{
    const vec scale = vec_set(w->rules.adjusts ? 1 : w->p->scale), lse = vec_set(-state.lse);
    const vec delta = vec_set(state.delta), none = vec_set(-INFINITY);
    const vec hidden = vec_set(hidden_weight(w));
    for (int64_t j = span.first; j < span.end; j += SCORE_STEP) {
        FC_UNROLL
        for (int64_t i = 0; i < 2; i++) {
            const int64_t at = j + i * VEC_LANES;
            const vec score = vec_load(scores + at);
            const vec exponent = vec_mul(vec_fma(score, scale, lse), vec_set((float)LOG2_E));
            const vec weight = vec_exp2(exponent);
            vec dweight = vec_add(vec_load(dscores + at), vec_load(second + at)), dropped = weight;
            if (kept) {
                dweight = vec_mul(dweight, vec_load(kept + at));
                dropped = vec_mul(dropped, vec_load(kept + at));
            }
            const vec dscore = vec_mul(weight, vec_sub(dweight, delta));
            vec_store(scores + at, vec_where_equal(score, none, hidden, dropped));
            vec_store(dscores + at, vec_where_equal(score, none, vec_zero(), dscore));
        }
    }
}

static void add_dbias(const backward *w, const query_row *row, key_span mine, const float *dscores)
{
    const fc_broadcast *strides = &w->p->bias_strides;
    float *dbias = w->g->dbias + broadcast_index(&w->sequence, row, strides, w->block);
    for (int64_t j = mine.first; j < mine.end; j++)
        dbias[j * strides->key] += dscores[j];
}

static float sum_floats(const float *values, key_span span)
{
    vec sum = vec_zero();
    for (int64_t j = span.first; j < span.end; j += VEC_LANES)
        sum = vec_add(sum, vec_load(values + j));
    return vec_sum(sum);
}

static void fill(float *values, int64_t first, int64_t end, float with)
{
    for (int64_t j = first; j < end; j++)
        values[j] = with;
}

/* Keys of the block that no row of the strip sees. */
static void fill_outside(const backward *w, key_span span, float *weights, float *dscores)
{
    const int64_t end = round_up(w->block_keys, MATMUL_COLUMNS);
    fill(weights, 0, span.first, hidden_weight(w));
    fill(weights, span.end, end, hidden_weight(w));
    fill(dscores, 0, span.first, 0);
    fill(dscores, span.end, end, 0);
}

static void differentiate_row(const backward *w, int64_t i, key_span span)
{
    float kept[LONGEST_KEY_BLOCK], slopes[LONGEST_KEY_BLOCK];
    const query_row *row = &w->scratch.rows[i];
    const bool drops = w->p->dropout_p > 0, caps = w->p->softcap > 0;
    float *scores = w->scratch.weights + i * WEIGHTS_STRIDE;
    float *dscores = w->scratch.dscores + i * WEIGHTS_STRIDE;
    const key_span mine = span_in_block(row->first_key, row->end_key, w->block, w->block_keys);
    if (caps)
        find_slopes(w->p, span, scores, slopes);
    adjust_scores(&w->rules, &w->sequence, row, w->block, span, mine, scores);
    if (drops)
        dropout_factors(&w->rules, &w->sequence, row, w->block, span, kept);
    row_state *state = &w->sums.states[query_sum_row(w, row->head, row->row)];
    weigh_row(w, *state, span, drops ? kept : NULL,
              w->scratch.second + i % MATMUL_ROWS * WEIGHTS_STRIDE, scores, dscores);
    if (w->g->dbias)
        add_dbias(w, row, mine, dscores);
    if (w->g->dsinks)
        state->dscores += sum_floats(dscores, span);
    if (caps)
        multiply_floats(dscores, slopes, span);
    fill_outside(w, span, scores, dscores);
}

/* ---- The sums ------------------------------------------------------------------------------- */

static void add_to_dq(const backward *w, int64_t strip, key_span span)
{
    const backward_shape *s = &w->shape;
    matmul(&(matmul_step){.a = w->scratch.dscores + strip * WEIGHTS_STRIDE + span.first,
                          .a_stride = WEIGHTS_STRIDE,
                          .b = w->scratch.key_rows + span.first * MATMUL_COLUMNS,
                          .panel_stride = s->key_block * MATMUL_COLUMNS,
                          .depth = span.end - span.first,
                          .panels = s->q_columns / MATMUL_COLUMNS,
                          .c = w->scratch.dq + strip * s->q_columns,
                          .c_stride = s->q_columns,
                          .accumulate = true});
}

/* The rows whose strips see any of the keys [first, end). */
static key_span rows_of_keys(const backward *w, int64_t first, int64_t end)
{
    key_span rows = {.first = w->row_count, .end = 0};
    for (int64_t row = 0; row < w->row_count; row += MATMUL_ROWS) {
        const key_span seen = w->strips[row / MATMUL_ROWS];
        if (seen.first >= end || seen.end <= first)
            continue;
        rows.first = row < rows.first ? row : rows.first;
        rows.end = row + MATMUL_ROWS < w->row_count ? row + MATMUL_ROWS : w->row_count;
    }
    return rows;
}

/* sums[key] += Σ_i factors[i][key] · rows[i] */
static void add_to_keys(const backward *w, const float *factors, const float *rows,
                        int64_t row_stride, int64_t columns, float *sums)
{
    for (int64_t key = 0; key < w->block_keys; key += TRANSPOSED_ROWS) {
        const key_span seen_by = rows_of_keys(w, key, key + TRANSPOSED_ROWS);
        if (seen_by.first < seen_by.end)
            matmul_transposed(
                &(transposed_step){.a = factors + seen_by.first * WEIGHTS_STRIDE + key,
                                   .a_stride = WEIGHTS_STRIDE,
                                   .b = rows + seen_by.first * row_stride,
                                   .b_stride = row_stride,
                                   .depth = seen_by.end - seen_by.first,
                                   .columns = columns,
                                   .c = sums + key * columns,
                                   .c_stride = columns});
    }
}

static void add_scaled(float *to, float factor, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += VEC_LANES)
        vec_store(to + i, vec_fma(vec_set(factor), vec_load(from + i), vec_load(to + i)));
}

static void add_pair(const backward *w, int64_t i, int64_t key)
{
    const backward_shape *s = &w->shape;
    const backward_scratch *at = &w->scratch;
    const float weight = at->weights[i * WEIGHTS_STRIDE + key];
    const float dscore = at->dscores[i * WEIGHTS_STRIDE + key];
    add_scaled(at->dv + key * s->value_columns, weight, at->dout + i * s->value_stride,
               s->value_columns);
    add_scaled(at->dk + key * s->q_columns, dscore, at->q + i * s->q_stride, s->q_columns);
    for (int64_t column = 0; column < s->q_columns; column += MATMUL_COLUMNS)
        matmul_add_row(at->key_rows + column * s->key_block, key, dscore,
                       at->dq + i * s->q_columns + column);
}

/* Where 0 times an element is not 0, what a row does not see must be left out of its sums. */
static void add_carefully(const backward *w, int64_t strip, int64_t end)
{
    for (int64_t i = strip; i < end; i++)
        for (int64_t key = 0; key < w->block_keys; key++)
            if (w->scratch.weights[i * WEIGHTS_STRIDE + key] != hidden_weight(w))
                add_pair(w, i, key);
}

/* ---- The block ------------------------------------------------------------------------------ */

static void differentiate_strip(backward *w, int64_t strip)
{
    const int64_t left = w->row_count - strip;
    const int64_t end = strip + (left < MATMUL_ROWS ? left : MATMUL_ROWS);
    const key_span all = keys_of_rows(w->scratch.rows + strip, end - strip);
    const key_span seen = span_in_block(all.first, all.end, w->block, w->block_keys);
    key_span *span = &w->strips[strip / MATMUL_ROWS];
    *span = (key_span){0};
    if (seen.first >= seen.end)
        return;
    *span = (key_span){.first = seen.first / MATMUL_COLUMNS * MATMUL_COLUMNS,
                       .end = round_up(seen.end, MATMUL_COLUMNS)};
    score_strip(w, strip, *span);
    multiply_half(w, strip, *span, 0, w->scratch.dscores + strip * WEIGHTS_STRIDE);
    multiply_half(w, strip, *span, 1, w->scratch.second);
    for (int64_t i = strip; i < end; i++)
        differentiate_row(w, i, *span);
    if (w->tame_keys && w->tame_rows)
        add_to_dq(w, strip, *span);
    else
        add_carefully(w, strip, end);
}

static void differentiate_block(backward *w)
{
    for (int64_t strip = 0; strip < w->row_count; strip += MATMUL_ROWS)
        differentiate_strip(w, strip);
    if (!w->tame_keys || !w->tame_rows)
        return;
    const backward_shape *s = &w->shape;
    const backward_scratch *at = &w->scratch;
    add_to_keys(w, at->weights, at->dout, s->value_stride, s->value_columns, at->dv);
    add_to_keys(w, at->dscores, at->q, s->q_stride, s->q_columns, at->dk);
}

#endif
