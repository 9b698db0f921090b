/* forward.c: out[i] = Σ_j softmax(score[i])[j] · dropout[i][j] · v[j], row by row in double. */
#include "reference/reference.h"
#include "reference/row.h"

static void attend_row(const fc_row *r, fc_score *scores)
{
    const fc_attention *p = r->problem;
    const fc_buffers *b = r->buffers;
    double out[FC_MAX_DIM] = {0}, v[FC_MAX_DIM];
    const double lse = fc_score_row(r, scores);
    for (int64_t key = r->first_key; key < r->end_key; key++) {
        const fc_score score = scores[key - r->first_key];
        if (score.value == -(double)INFINITY)
            continue; /* not visible: its value may be NaN */
        fc_load_value(r, key, v);
        fc_add_scaled(out, fc_weight(score, lse) * fc_dropout(r, key), v, p->value_dim);
    }
    fc_store_vector(p->out_type, b->out,
                    fc_q_index(p, &p->out_strides, &r->sequence, r->head, r->row),
                    p->out_strides.dim, p->value_dim, out);
    if (b->lse)
        b->lse[fc_q_index(p, &p->lse_strides, &r->sequence, r->head, r->row)] = (float)lse;
}

static fc_status run_forward(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                             fc_stream stream)
{
    (void)g;
    (void)stream;
    const fc_attention *p = &plan->problem;
    fc_score *all_scores = b->workspace;
#pragma omp parallel num_threads(plan->context->threads)
    {
        fc_score *scores = fc_reference_scores(all_scores, p->kv_length);
        fc_row r;
        for (int64_t batch = 0; batch < p->batch; batch++) {
            const fc_sequence sequence = fc_sequence_at(p, b, batch);
#pragma omp for collapse(2) nowait
            for (int64_t head = 0; head < p->q_heads; head++)
                for (int64_t row = 0; row < sequence.q_rows; row++) {
                    fc_load_row(&r, p, b, sequence, head, row);
                    attend_row(&r, scores);
                }
        }
    }
    return FC_OK;
}

const fc_kernel fc_reference_forward = {
    .name = "reference",
    .summary = "double precision on the CPU, every feature; slow, the truth others are held to",
    .direction = FC_FORWARD,
    .accepts = fc_reference_accepts,
    .workspace_bytes = fc_reference_scores_bytes,
    .run = run_forward,
};
