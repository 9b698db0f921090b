/* decode.c: attention of few query rows, where reading K and V is the work.
 *
 * The query heads of a KV head go together, so that K and V are read once. The keys of a sequence
 * are split into chunks whose size depends on its length alone; a chunk is a thread's unit of work
 * and leaves for each row a top, a sum and weighted values. Those are merged in the order of the
 * chunks: neither threads nor the batch change a row's bits. */
#include "cpu/cpu.h"
#include "cpu/name.h"
#include "cpu/score.h"
#include "cpu/stream.h"
#include "cpu/thread.h"

/* ---- 1. Shape -------------------------------------------------------------------------------- */

enum { LEAST_CHUNK = 256, MOST_CHUNKS = 64 };

static int64_t chunk_keys(int64_t kv_rows)
{
    const int64_t even = round_up((kv_rows + MOST_CHUNKS - 1) / MOST_CHUNKS, STREAM_KEYS);
    return even > LEAST_CHUNK ? even : LEAST_CHUNK;
}

/* Of any sequence of at most kv_length keys. */
static int64_t most_chunks(int64_t kv_length)
{
    const int64_t chunks = (kv_length + LEAST_CHUNK - 1) / LEAST_CHUNK;
    return chunks < MOST_CHUNKS ? chunks : MOST_CHUNKS;
}

/* What a chunk leaves of a row; its values follow. */
typedef struct partial {
    float top, sum;
    float unused[VEC_LANES - 2];
} partial;

typedef struct decode_shape {
    int64_t group;
    int64_t row_count; /* query rows of a KV head, at most */
    int64_t depth;     /* head_dim in whole steps */
    int64_t columns;   /* value_dim in whole steps */
    int64_t chunks;
    int64_t partial_floats;
} decode_shape;

static decode_shape choose_shape(const fc_attention *p)
{
    const int64_t group = p->q_heads / p->kv_heads;
    const int64_t columns = round_up(p->value_dim, STREAM_STEP);
    return (decode_shape){.group = group,
                          .row_count = group * p->q_length,
                          .depth = round_up(p->head_dim, STREAM_STEP),
                          .columns = columns,
                          .chunks = most_chunks(p->kv_length),
                          .partial_floats = VEC_LANES + columns};
}

/* ---- 2. Workspace: the partial results, then every thread's scratch ---------------------------
 */

typedef struct decode_scratch {
    query_row *rows;        /* [row_count] */
    float *scores;          /* [row_count][STREAM_STRIDE] */
    float *merged;          /* [columns]: a row, its chunks added up */
    stream_element *q;      /* [row_count][depth] */
    stream_element *keys;   /* [STREAM_KEYS][depth], where they can't be read in place */
    stream_element *values; /* [STREAM_KEYS][columns], likewise */
} decode_scratch;

static int64_t scratch_bytes(const decode_shape *s)
{
    const int64_t rows = s->row_count * (int64_t)sizeof(query_row);
    const int64_t floats = s->row_count * STREAM_STRIDE + s->columns;
    const int64_t elements = s->row_count * s->depth + STREAM_KEYS * (s->depth + s->columns);
    return round_up(rows + floats * (int64_t)sizeof(float) +
                        elements * (int64_t)sizeof(stream_element),
                    FC_WORKSPACE_ALIGNMENT);
}

/* More than any machine has stands for all that is too much: such a plan exists, but can't run. */
static int64_t partials_bytes(const fc_attention *p, const decode_shape *s)
{
    const double floats = (double)p->batch * (double)p->kv_heads * (double)s->chunks *
                          (double)s->row_count * (double)s->partial_floats;
    if (floats > 0x1p54)
        return INT64_C(1) << 60;
    const int64_t count = p->batch * p->kv_heads * s->chunks * s->row_count;
    return round_up(count * s->partial_floats * (int64_t)sizeof(float), FC_WORKSPACE_ALIGNMENT);
}

static size_t workspace_bytes(const fc_attention *p, int threads)
{
    const decode_shape shape = choose_shape(p);
    return (size_t)(partials_bytes(p, &shape) + threads * scratch_bytes(&shape));
}

static decode_scratch scratch_of(const fc_attention *p, const decode_shape *s, void *workspace,
                                 int thread)
{
    uint8_t *base = (uint8_t *)workspace + partials_bytes(p, s) + thread * scratch_bytes(s);
    decode_scratch scratch = {.rows = (query_row *)(void *)base};
    scratch.scores = (float *)(void *)(scratch.rows + s->row_count);
    scratch.merged = scratch.scores + s->row_count * STREAM_STRIDE;
    scratch.q = (stream_element *)(scratch.merged + s->columns);
    scratch.keys = scratch.q + s->row_count * s->depth;
    scratch.values = scratch.keys + STREAM_KEYS * s->depth;
    return scratch;
}

typedef struct decode {
    const fc_attention *p;
    const fc_buffers *b;
    decode_shape shape;
    score_rules rules;
    decode_scratch scratch;
    fc_sequence sequence;
    int64_t kv_head;
    int64_t row_count; /* of this sequence */
    bool careful;      /* the chunk's values are added key by key */
} decode;

static float *partial_at(const decode *w, int64_t chunk, int64_t row)
{
    const decode_shape *s = &w->shape;
    const int64_t head = w->sequence.batch * w->p->kv_heads + w->kv_head;
    const int64_t index = (head * s->chunks + chunk) * s->row_count + row;
    return (float *)w->b->workspace + index * s->partial_floats;
}

/* ---- 3. Steps -------------------------------------------------------------------------------- */

static void load_queries(decode *w)
{
    const fc_attention *p = w->p;
    const int64_t depth = w->shape.depth;
    for (int64_t i = 0; i < w->row_count; i++) {
        const int64_t row = i / w->shape.group;
        const int64_t head = w->kv_head * w->shape.group + i % w->shape.group;
        stream_element *q = w->scratch.q + i * depth;
        memset(q, 0, (size_t)depth * sizeof *q);
        w->scratch.rows[i] = query_row_at(p, &w->sequence, head, row);
        stream_copy_row(p->q_type, w->b->q, fc_q_index(p, &p->q_strides, &w->sequence, head, row),
                        p->q_strides.dim, p->head_dim,
                        f8_scale(w->b->q_scale, &p->q_scaling, w->sequence.batch, head, row), q);
    }
}

/* What dropout and the scales of FP8 values multiply the weights with: factors, or NULL. */
static const float *weight_factors(const decode *w, const query_row *row, int64_t block,
                                   key_span span, const stream_rows *values, float *factors)
{
    const bool drops = w->p->dropout_p > 0;
    if (!drops && !values->scaled)
        return NULL;
    for (int64_t key = span.first; key < span.end; key++)
        factors[key] = 1;
    if (drops)
        dropout_factors(&w->rules, &w->sequence, row, block, span, factors);
    for (int64_t key = values->first; values->scaled && key < values->end; key++)
        factors[key] *= values->scale[key];
    return factors;
}

/* Marks in `hidden` the keys that a row does not see; they exist where rows differ in their limits,
 * or a mask or bias hides some. */
static void weigh_row(const decode *w, int64_t i, int64_t block, const stream_rows *values,
                      const stream_queries *queries, bool *hidden)
{
    float factors[STREAM_STRIDE];
    query_row *row = &w->scratch.rows[i];
    float *scores = queries->scores + i * STREAM_STRIDE;
    float *out = queries->out + i * queries->out_stride;
    const key_span span = {.first = values->first / SCORE_STEP * SCORE_STEP,
                           .end = round_up(values->end, SCORE_STEP)};
    const key_span mine = span_in_block(row->first_key, row->end_key, block, values->end);
    adjust_scores(&w->rules, &w->sequence, row, block, span, mine, scores);
    for (int64_t key = values->first; hidden && key < values->end; key++)
        hidden[key] = scores[key] == -INFINITY;
    const float shrink =
        weigh_scores(row, span, w->rules.exponent_scale, STREAM_LIFT,
                     weight_factors(w, row, block, span, values, factors), scores, scores);
    for (int64_t at = 0; shrink != 1 && at < w->shape.columns; at += VEC_LANES)
        vec_store(out + at, vec_mul(vec_set(shrink), vec_load(out + at)));
}

static bool rows_differ(const decode *w, key_span all)
{
    if (w->p->has_mask || w->p->has_bias)
        return true;
    for (int64_t i = 0; i < w->row_count; i++)
        if (w->scratch.rows[i].first_key > all.first || w->scratch.rows[i].end_key < all.end)
            return true;
    return false;
}

/* K or V of the keys of `all` that lie in the block. */
static void find_block(const decode *w, bool values, int64_t block, key_span all,
                       stream_rows *found)
{
    const key_rows rows = key_rows_of(w->p, w->b, &w->sequence, w->kv_head, values);
    const key_span seen = span_in_block(all.first, all.end, block, STREAM_KEYS);
    stream_find(&rows, block, seen.first, seen.end > seen.first ? seen.end : seen.first,
                values ? w->scratch.values : w->scratch.keys, found);
}

/* keys are those of this block, and those of the next one on return. */
static void attend_block(const decode *w, const stream_queries *queries, int64_t block,
                         key_span all, stream_rows *keys)
{
    stream_rows values;
    bool hidden[STREAM_KEYS];
    find_block(w, true, block, all, &values);
    stream_score(queries, keys, &values);
    find_block(w, false, block + STREAM_KEYS, all, keys);
    const bool careful = w->careful || (rows_differ(w, all) && !stream_is_tame(&values));
    for (int64_t i = 0; i < w->row_count; i++) {
        weigh_row(w, i, block, &values, queries, careful ? hidden : NULL);
        for (int64_t key = values.first; careful && key < values.end; key++)
            if (!hidden[key])
                stream_add_one(queries, &values, i, key);
    }
    if (!careful)
        stream_add(queries, &values, keys);
}

/* The keys that any of the rows may see, within the chunk. */
static key_span keys_of_chunk(const decode *w, int64_t chunk)
{
    const int64_t keys = chunk_keys(w->sequence.kv_rows), first = chunk * keys;
    key_span span = {.first = INT64_MAX, .end = 0};
    for (int64_t i = 0; i < w->row_count; i++) {
        const query_row *row = &w->scratch.rows[i];
        span.first = row->first_key < span.first ? row->first_key : span.first;
        span.end = row->end_key > span.end ? row->end_key : span.end;
    }
    span.first = span.first > first ? span.first : first;
    span.end = span.end < first + keys ? span.end : first + keys;
    return span;
}

static void attend_keys(decode *w, int64_t chunk, bool careful)
{
    w->careful = careful;
    load_queries(w);
    const stream_queries queries = {.row_count = w->row_count,
                                    .q = w->scratch.q,
                                    .q_stride = w->shape.depth,
                                    .scores = w->scratch.scores,
                                    .out = partial_at(w, chunk, 0) + VEC_LANES,
                                    .out_stride = w->shape.partial_floats};
    for (int64_t i = 0; i < w->row_count; i++)
        memset(queries.out + i * queries.out_stride, 0,
               (size_t)w->shape.columns * sizeof *queries.out);
    const key_span all = keys_of_chunk(w, chunk);
    const int64_t first = all.first / STREAM_KEYS * STREAM_KEYS;
    stream_rows keys;
    if (first < all.end)
        find_block(w, false, first, all, &keys);
    for (int64_t block = first; block < all.end; block += STREAM_KEYS)
        attend_block(w, &queries, block, all, &keys);
    for (int64_t i = 0; i < w->row_count; i++)
        *(partial *)(void *)partial_at(w, chunk, i) =
            (partial){.top = w->scratch.rows[i].top, .sum = w->scratch.rows[i].sum};
}

static bool sums_are_finite(const decode *w, int64_t chunk)
{
    vec zeros = vec_zero();
    for (int64_t i = 0; i < w->row_count; i++) {
        const float *sums = partial_at(w, chunk, i) + VEC_LANES;
        for (int64_t at = 0; at < w->shape.columns; at += VEC_LANES)
            zeros = vec_fma(vec_load(sums + at), vec_zero(), zeros);
    }
    return vec_sum(zeros) == 0;
}

static void attend_chunk(decode *w, int64_t chunk)
{
    attend_keys(w, chunk, false);
    if (STREAM_FINITE_ONLY && !sums_are_finite(w, chunk))
        attend_keys(w, chunk, true);
}

/* Adds the chunks of a row up, in their order. */
static void merge_row(decode *w, int64_t i)
{
    const int64_t keys = chunk_keys(w->sequence.kv_rows), columns = w->shape.columns;
    const int64_t head = w->kv_head * w->shape.group + i % w->shape.group;
    query_row row = query_row_at(w->p, &w->sequence, head, i / w->shape.group);
    float *out = w->scratch.merged;
    memset(out, 0, (size_t)columns * sizeof *out);
    for (int64_t chunk = 0; chunk * keys < w->sequence.kv_rows; chunk++) {
        const float *part = partial_at(w, chunk, i);
        const float *values = part + VEC_LANES;
        const partial sums = *(const partial *)(const void *)part;
        if (sums.sum == 0)
            continue;
        const float top = sums.top > row.top ? sums.top : row.top;
        const float base = top == -INFINITY ? 0 : top;
        const float older = exp2f(row.top - base), newer = exp2f(sums.top - base);
        for (int64_t at = 0; at < columns; at += VEC_LANES) {
            const vec before = vec_mul(vec_set(older), vec_load(out + at));
            vec_store(out + at, vec_fma(vec_set(newer), vec_load(values + at), before));
        }
        row.sum = row.sum * older + sums.sum * newer;
        row.top = top;
    }
    store_row(&w->rules, &w->sequence, &row, out);
}

/* ---- 4. The kernel --------------------------------------------------------------------------- */

static void enter_sequence(decode *w, int64_t batch_and_head)
{
    w->sequence = fc_sequence_at(w->p, w->b, batch_and_head / w->p->kv_heads);
    w->kv_head = batch_and_head % w->p->kv_heads;
    w->row_count = w->sequence.q_rows * w->shape.group;
}

static void attend_item(decode *w, int64_t item)
{
    const int64_t chunk = item % w->shape.chunks;
    enter_sequence(w, item / w->shape.chunks);
    if (chunk * chunk_keys(w->sequence.kv_rows) < w->sequence.kv_rows)
        attend_chunk(w, chunk);
}

static void merge_item(decode *w, int64_t item)
{
    const int64_t row = item % w->shape.row_count;
    enter_sequence(w, item / w->shape.row_count);
    if (row < w->row_count)
        merge_row(w, row);
}

static decode begin_thread(const fc_attention *p, const fc_buffers *b, const decode_shape *shape,
                           int thread)
{
    return (decode){.p = p,
                    .b = b,
                    .shape = *shape,
                    .rules = score_rules_of(p, b),
                    .scratch = scratch_of(p, shape, b->workspace, thread)};
}

static void attend(const fc_attention *p, const fc_buffers *b, int threads)
{
    const decode_shape shape = choose_shape(p);
    const int64_t chunks = p->batch * p->kv_heads * shape.chunks;
    const int64_t rows = p->batch * p->kv_heads * shape.row_count;
    if (works_alone(threads, chunks)) {
        decode w = begin_thread(p, b, &shape, 0);
        for (int64_t item = 0; item < chunks; item++)
            attend_item(&w, item);
        for (int64_t item = 0; item < rows; item++)
            merge_item(&w, item);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        decode w = begin_thread(p, b, &shape, this_thread());
#pragma omp for schedule(dynamic)
        for (int64_t item = 0; item < chunks; item++)
            attend_item(&w, item);
#pragma omp for
        for (int64_t item = 0; item < rows; item++)
            merge_item(&w, item);
    }
}

const fc_cpu_ops FC_CPU_NAME(decode) = {.workspace_bytes = workspace_bytes, .run = attend};
