/* backward.c: the gradients of forward.c, in double. With w = exp(score - lse) the weight, m the
 * dropout factor and do = dout[i]:
 *
 *   dv[j]     = Σ_i  w·m · do                       delta[i]   = Σ_j  w·m · (do · v[j])
 *   dscore    = w · (m · (do · v[j]) - delta[i])    dq[i]      = Σ_j  dscore · slope · k[j]
 *   dk[j]     = Σ_i  dscore · slope · q[i]          dbias[i,j] = Σ    dscore
 *   dsink[h]  = Σ_i  -exp(sink - lse[i]) · delta[i]
 *
 * A first pass over the query rows finds lse and delta, and dq; a second over the keys gathers what
 * each of them gets. Nothing is added to shared memory, so the order of threads does not matter.
 * lse and delta are computed anew: those of the forward call have been rounded. */
#include "reference/reference.h"
#include "reference/row.h"

typedef struct row_state {
    double lse;
    double delta;
} row_state;

typedef struct backward {
    const fc_attention *p;
    const fc_buffers *b;
    const fc_gradients *g;
    int threads;
    row_state *states; /* [q_heads][rows of all sequences] */
    fc_score *scores;  /* [threads][kv_length] */
} backward;

static int64_t all_rows(const fc_attention *p)
{
    return p->packed_q ? p->packed_q_rows : p->batch * p->q_length;
}

static row_state *state_of(const backward *w, const fc_sequence *sequence, int64_t head,
                           int64_t row)
{
    const int64_t first = w->p->packed_q ? sequence->q_first : sequence->batch * w->p->q_length;
    return &w->states[head * all_rows(w->p) + first + row];
}

/* dscore of one (row, key), whose score and state are known. */
static double score_gradient(const fc_row *r, int64_t key, fc_score score, row_state state,
                             const double *dout)
{
    if (score.value == -(double)INFINITY)
        return 0;
    double v[FC_MAX_DIM];
    fc_load_value(r, key, v);
    const double dweight = fc_dropout(r, key) * fc_dot(dout, v, r->problem->value_dim);
    return fc_weight(score, state.lse) * (dweight - state.delta);
}

static row_state find_state(const fc_row *r, const double *dout, fc_score *scores)
{
    row_state state = {.lse = fc_score_row(r, scores)};
    double v[FC_MAX_DIM];
    for (int64_t key = r->first_key; key < r->end_key; key++) {
        const fc_score score = scores[key - r->first_key];
        if (score.value == -(double)INFINITY)
            continue;
        fc_load_value(r, key, v);
        state.delta += fc_weight(score, state.lse) * fc_dropout(r, key) *
                       fc_dot(dout, v, r->problem->value_dim);
    }
    return state;
}

static void differentiate_row(const backward *w, const fc_row *r, fc_score *scores)
{
    const fc_attention *p = w->p;
    double dout[FC_MAX_DIM], dq[FC_MAX_DIM] = {0}, k[FC_MAX_DIM];
    fc_load_dout(r, w->g, dout);
    const row_state state = find_state(r, dout, scores);
    *state_of(w, &r->sequence, r->head, r->row) = state;
    for (int64_t key = r->first_key; key < r->end_key; key++) {
        const fc_score score = scores[key - r->first_key];
        if (score.value == -(double)INFINITY)
            continue;
        const double dscore = score_gradient(r, key, score, state, dout);
        fc_load_key(r, key, k);
        fc_add_scaled(dq, dscore * score.slope, k, p->head_dim);
    }
    fc_store_vector(p->out_type, w->g->dq,
                    fc_q_index(p, &p->dq_strides, &r->sequence, r->head, r->row), p->dq_strides.dim,
                    p->head_dim, dq);
}

static void differentiate_rows(const backward *w)
{
    const fc_attention *p = w->p;
#pragma omp parallel num_threads(w->threads)
    {
        fc_score *scores = fc_reference_scores(w->scores, p->kv_length);
        fc_row r;
        for (int64_t batch = 0; batch < p->batch; batch++) {
            const fc_sequence sequence = fc_sequence_at(p, w->b, batch);
#pragma omp for collapse(2) nowait
            for (int64_t head = 0; head < p->q_heads; head++)
                for (int64_t row = 0; row < sequence.q_rows; row++) {
                    fc_load_row(&r, p, w->b, sequence, head, row);
                    differentiate_row(w, &r, scores);
                }
        }
    }
}

/* Adds what key `key` of one sequence gets from all the rows that see it. */
static void gather_key(const backward *w, fc_sequence sequence, int64_t kv_head, int64_t key,
                       double *dk, double *dv)
{
    const fc_attention *p = w->p;
    const int64_t group = p->q_heads / p->kv_heads;
    double dout[FC_MAX_DIM];
    fc_row r;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t row = 0; row < sequence.q_rows; row++) {
            fc_load_row(&r, p, w->b, sequence, head, row);
            const fc_score score = fc_score_key(&r, key);
            if (score.value == -(double)INFINITY)
                continue;
            const row_state state = *state_of(w, &sequence, head, row);
            fc_load_dout(&r, w->g, dout);
            const double dscore = score_gradient(&r, key, score, state, dout);
            fc_add_scaled(dk, dscore * score.slope, r.q, p->head_dim);
            fc_add_scaled(dv, fc_weight(score, state.lse) * fc_dropout(&r, key), dout,
                          p->value_dim);
        }
}

/* Index of row `row` of page or sequence `outer`, or of the packed tensor's row (outer = 0). */
static int64_t stored_row(const fc_strides *s, int64_t outer, int64_t kv_head, int64_t row)
{
    return outer * s->batch + kv_head * s->head + row * s->row;
}

/* Gathers one stored row of K and V from every sequence that reads it: a page may have many. */
static void differentiate_stored_row(const backward *w, int64_t outer, int64_t kv_head, int64_t row)
{
    const fc_attention *p = w->p;
    double dk[FC_MAX_DIM] = {0}, dv[FC_MAX_DIM] = {0};
    for (int64_t batch = 0; batch < p->batch; batch++) {
        const fc_sequence sequence = fc_sequence_at(p, w->b, batch);
        if (p->paged) {
            const int64_t first_page = batch * p->page_table_stride;
            for (int64_t key = row; key < sequence.kv_rows; key += p->page_size)
                if (w->b->page_table[first_page + key / p->page_size] == outer)
                    gather_key(w, sequence, kv_head, key, dk, dv);
        } else {
            const int64_t key = row - sequence.kv_first;
            if ((p->packed_kv || batch == outer) && key >= 0 && key < sequence.kv_rows)
                gather_key(w, sequence, kv_head, key, dk, dv);
        }
    }
    fc_store_vector(p->out_type, w->g->dk, stored_row(&p->dk_strides, outer, kv_head, row),
                    p->dk_strides.dim, p->head_dim, dk);
    fc_store_vector(p->out_type, w->g->dv, stored_row(&p->dv_strides, outer, kv_head, row),
                    p->dv_strides.dim, p->value_dim, dv);
}

static void differentiate_keys(const backward *w)
{
    const fc_layout k = fc_tensor_layout(w->p, FC_TENSOR_K);
#pragma omp parallel for collapse(3) num_threads(w->threads)
    for (int64_t outer = 0; outer < k.sizes[0]; outer++)
        for (int64_t kv_head = 0; kv_head < k.sizes[1]; kv_head++)
            for (int64_t row = 0; row < k.sizes[2]; row++)
                differentiate_stored_row(w, outer, kv_head, row);
}

/* Rows of packed queries that belong to no sequence get 0 too: dq is written whole. */
static void clear_unused_dq(const backward *w)
{
    const fc_attention *p = w->p;
    static const double zeros[FC_MAX_DIM];
    for (int64_t row = p->packed_q ? w->b->cu_q[p->batch] : p->packed_q_rows;
         row < p->packed_q_rows; row++)
        for (int64_t head = 0; head < p->q_heads; head++)
            fc_store_vector(p->out_type, w->g->dq,
                            head * p->dq_strides.head + row * p->dq_strides.row, p->dq_strides.dim,
                            p->head_dim, zeros);
}

static void differentiate_sinks(const backward *w)
{
    const fc_attention *p = w->p;
    for (int64_t head = 0; head < p->q_heads; head++) {
        const fc_score sink = {.value = (double)w->b->sinks[head]};
        double dsink = 0;
        for (int64_t batch = 0; batch < p->batch; batch++) {
            const fc_sequence sequence = fc_sequence_at(p, w->b, batch);
            for (int64_t row = 0; row < sequence.q_rows; row++) {
                const row_state state = *state_of(w, &sequence, head, row);
                dsink -= fc_weight(sink, state.lse) * state.delta;
            }
        }
        w->g->dsinks[head] = (float)dsink;
    }
}

/* dscore of (row, key), from scratch. */
static double bias_gradient(const backward *w, int64_t batch, int64_t head, int64_t row,
                            int64_t key)
{
    const fc_sequence sequence = fc_sequence_at(w->p, w->b, batch);
    if (row >= sequence.q_rows || key >= sequence.kv_rows)
        return 0;
    double dout[FC_MAX_DIM];
    fc_row r;
    fc_load_row(&r, w->p, w->b, sequence, head, row);
    fc_load_dout(&r, w->g, dout);
    return score_gradient(&r, key, fc_score_key(&r, key), *state_of(w, &sequence, head, row), dout);
}

/* The sum over all (batch, head, row) that read one stored bias element; an axis with stride 0 is
 * summed over, one with a stride is fixed. */
static double gather_bias(const backward *w, const int64_t at[3], int64_t key)
{
    const fc_attention *p = w->p;
    const fc_broadcast *s = &p->bias_strides;
    const int64_t batch_end = s->batch ? at[0] + 1 : p->batch;
    const int64_t head_end = s->head ? at[1] + 1 : p->q_heads;
    const int64_t row_end = s->row ? at[2] + 1 : p->q_length;
    double sum = 0;
    for (int64_t batch = at[0]; batch < batch_end; batch++)
        for (int64_t head = at[1]; head < head_end; head++)
            for (int64_t row = at[2]; row < row_end; row++)
                sum += bias_gradient(w, batch, head, row, key);
    return sum;
}

static void differentiate_bias(const backward *w)
{
    const fc_attention *p = w->p;
    const fc_broadcast *s = &p->bias_strides;
    const int64_t batches = s->batch ? p->batch : 1, heads = s->head ? p->q_heads : 1,
                  rows = s->row ? p->q_length : 1;
#pragma omp parallel for collapse(4) num_threads(w->threads)
    for (int64_t batch = 0; batch < batches; batch++)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t key = 0; key < p->kv_length; key++)
                    w->g->dbias[batch * s->batch + head * s->head + row * s->row + key * s->key] =
                        (float)gather_bias(w, (int64_t[3]){batch, head, row}, key);
}

static size_t state_count(const fc_attention *p)
{
    return (size_t)(p->q_heads * all_rows(p));
}

static size_t backward_workspace_bytes(const fc_kernel *self, const fc_context *context,
                                       const fc_attention *p)
{
    return state_count(p) * sizeof(row_state) + fc_reference_scores_bytes(self, context, p);
}

static fc_status run_backward(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                              fc_stream stream)
{
    (void)stream;
    const fc_attention *p = &plan->problem;
    row_state *states = b->workspace;
    const backward work = {.p = p,
                           .b = b,
                           .g = g,
                           .threads = plan->context->threads,
                           .states = states,
                           .scores = states ? (fc_score *)(void *)(states + state_count(p)) : NULL};
    differentiate_rows(&work);
    clear_unused_dq(&work);
    differentiate_keys(&work);
    if (g->dsinks)
        differentiate_sinks(&work);
    if (g->dbias)
        differentiate_bias(&work);
    return FC_OK;
}

const fc_kernel fc_reference_backward = {
    .name = "reference_backward",
    .summary = "double precision on the CPU, every feature; slow, the truth others are held to",
    .direction = FC_BACKWARD,
    .accepts = fc_reference_accepts,
    .workspace_bytes = backward_workspace_bytes,
    .run = run_backward,
};
