/* run.c: see run.h. */
#include "run.h"

#include "blocks.h"

enum { MOST_MULTIPLIES = 1 << 15 }; /* of one forward pass */

/* An axis counts even where another is empty: there is a loop over it. */
static double at_least_one(int64_t size)
{
    return size > 1 ? (double)size : 1;
}

static bool is_small(const fc_attention *p)
{
    return at_least_one(p->batch) * at_least_one(p->q_heads) * at_least_one(p->q_length) *
               at_least_one(p->kv_length) * at_least_one(p->head_dim + p->value_dim) <=
           MOST_MULTIPLIES;
}

/* Any bits, or bits that are numbers below 2 in every type. */
static void fill(fuzz_stream *in, fuzz_block *b)
{
    const uint8_t keep = fuzz_chance(in, 3) ? 0xff : 0x3f;
    uint32_t state = fuzz_u8(in) + 1u;
    for (size_t i = 0; i < b->bytes; i++) {
        state = state * 1664525u + 1013904223u;
        b->memory[i] = (uint8_t)(state >> 24) & keep;
    }
}

static void fill_cumulative(fuzz_stream *in, int32_t *cu, int64_t batch, int64_t longest,
                            int64_t rows)
{
    int64_t end = 0;
    for (int64_t i = 0; i <= batch; i++) {
        cu[i] = (int32_t)end;
        const int64_t length = fuzz_u8(in) % (longest + 1);
        end = end + length < rows ? end + length : rows;
        if (end > cu[i] + longest)
            end = cu[i] + longest;
    }
}

static void fill_index_arrays(fuzz_stream *in, const fc_attention *p, fuzz_block blocks[BLOCKS])
{
    if (p->packed_q)
        fill_cumulative(in, blocks[CU_Q].origin, p->batch, p->q_length, p->packed_q_rows);
    if (p->packed_kv)
        fill_cumulative(in, blocks[CU_KV].origin, p->batch, p->kv_length, p->packed_kv_rows);
    int32_t *const kv_lengths = blocks[KV_LENGTHS].origin;
    for (int64_t i = 0; p->has_kv_lengths && i < p->batch; i++)
        kv_lengths[i] =
            (int32_t)(p->page_count || !p->paged ? fuzz_u8(in) % (p->kv_length + 1) : 0);
    int32_t *const pages = blocks[PAGE_TABLE].origin;
    for (size_t i = 0; p->paged && i < blocks[PAGE_TABLE].bytes / sizeof *pages; i++)
        pages[i] = (int32_t)(p->page_count ? fuzz_u8(in) % p->page_count : 0);
}

/* Changes one entry of one index array, by one or to anything. True when there was one. */
static bool spoil_index_array(fuzz_stream *in, fuzz_block blocks[BLOCKS])
{
    const uint8_t start = fuzz_u8(in);
    for (int i = 0; i < 4; i++) {
        fuzz_block *const b = &blocks[CU_Q + (start + i) % 4];
        const size_t count = b->bytes / sizeof(int32_t);
        if (!count)
            continue;
        int32_t *const entry = (int32_t *)b->origin + fuzz_u8(in) % count;
        *entry = (int32_t)FUZZ_PICK(in, *entry + 1, *entry - 1, INT32_MAX, INT32_MIN);
        return true;
    }
    return false;
}

/* Makes one pointer NULL, or odd where its elements are larger than a byte. */
static void spoil_pointer(fuzz_stream *in, fc_buffers *buffers)
{
    static const size_t odd_fields[] = {
        offsetof(fc_buffers, out),       offsetof(fc_buffers, lse),
        offsetof(fc_buffers, alibi),     offsetof(fc_buffers, sinks),
        offsetof(fc_buffers, cu_q),      offsetof(fc_buffers, cu_kv),
        offsetof(fc_buffers, bias),      offsetof(fc_buffers, kv_lengths),
        offsetof(fc_buffers, workspace), offsetof(fc_buffers, page_table)};
    const size_t pointers = offsetof(fc_buffers, dropout_seed) / sizeof(void *) - 1;
    size_t field = sizeof(void *) * (1 + fuzz_u8(in) % pointers);
    uintptr_t value = 0;
    if (fuzz_chance(in, 2)) {
        field = odd_fields[fuzz_u8(in) % (sizeof odd_fields / sizeof odd_fields[0])];
        memcpy(&value, (char *)buffers + field, sizeof value);
        value += 1;
    }
    memcpy((char *)buffers + field, &value, sizeof value);
}

static fc_buffers make_buffers(fuzz_stream *in, const fuzz_block blocks[BLOCKS])
{
    fc_buffers b = fc_buffers_init();
    b.q = blocks[Q].origin;
    b.k = blocks[K].origin;
    b.v = blocks[V].origin;
    b.out = blocks[OUT].origin;
    b.lse = blocks[LSE].origin;
    b.q_scale = blocks[Q_SCALE].origin;
    b.k_scale = blocks[K_SCALE].origin;
    b.v_scale = blocks[V_SCALE].origin;
    b.alibi = blocks[ALIBI].origin;
    b.bias = blocks[BIAS].origin;
    b.mask = blocks[MASK].origin;
    b.sinks = blocks[SINKS].origin;
    b.cu_q = blocks[CU_Q].origin;
    b.cu_kv = blocks[CU_KV].origin;
    b.kv_lengths = blocks[KV_LENGTHS].origin;
    b.page_table = blocks[PAGE_TABLE].origin;
    b.dropout_seed = fuzz_u8(in);
    b.dropout_offset = fuzz_u8(in);
    b.workspace = blocks[FORWARD_WORKSPACE].origin;
    b.workspace_bytes = blocks[FORWARD_WORKSPACE].bytes;
    return b;
}

static fc_gradients make_gradients(const fuzz_block blocks[BLOCKS])
{
    fc_gradients g = fc_gradients_init();
    g.dout = blocks[DOUT].origin;
    g.dq = blocks[DQ].origin;
    g.dk = blocks[DK].origin;
    g.dv = blocks[DV].origin;
    g.dbias = blocks[DBIAS].origin;
    g.dsinks = blocks[DSINKS].origin;
    return g;
}

/* The one-line form must give the same bits as the plan's forward, which was the last to run. */
static void check_attend(fc_context *context, const fc_attention *problem, fc_buffers buffers,
                         const fuzz_block *out)
{
    uint8_t *const planned = malloc(out->bytes);
    FUZZ_REQUIRE(planned);
    memcpy(planned, out->memory, out->bytes);
    buffers.workspace = NULL;
    buffers.workspace_bytes = 0;
    FUZZ_REQUIRE(fc_attend(context, problem, &buffers, NULL) == FC_OK);
    FUZZ_REQUIRE(memcmp(planned, out->memory, out->bytes) == 0);
    free(planned);
}

/* False: no page table could be right. */
static bool has_pages_enough(const fc_attention *p)
{
    return !p->paged || p->page_count || p->has_kv_lengths || !p->kv_length;
}

static void run(fuzz_stream *in, fc_context *context, const fc_attention *problem,
                const fc_plan *plan, fuzz_block blocks[BLOCKS])
{
    fc_buffers buffers = make_buffers(in, blocks);
    fc_gradients gradients = make_gradients(blocks);
    bool spoiled = !has_pages_enough(problem);
    if (fuzz_chance(in, 4) && spoil_index_array(in, blocks))
        spoiled = true;
    if (fuzz_chance(in, 8)) {
        spoil_pointer(in, &buffers);
        spoiled = true;
    }
    const fc_status forward = fc_plan_forward(plan, &buffers, NULL);
    fuzz_check_status(forward);
    FUZZ_REQUIRE(spoiled || forward == FC_OK);
    if (!spoiled && fuzz_chance(in, 2))
        check_attend(context, problem, buffers, &blocks[OUT]);

    buffers.workspace = blocks[BACKWARD_WORKSPACE].origin;
    buffers.workspace_bytes = blocks[BACKWARD_WORKSPACE].bytes;
    fc_status backward = fc_plan_backward(plan, &buffers, &gradients, NULL);
    fuzz_check_status(backward);
    if (gradients.dbias && backward == FC_ERROR_INVALID) {
        gradients.dbias = NULL; /* a bias may be laid out so that no gradient can be */
        backward = fc_plan_backward(plan, &buffers, &gradients, NULL);
    }
    FUZZ_REQUIRE(spoiled || backward == FC_OK);
}

void fuzz_run(fuzz_stream *in, fc_context *context, const fc_attention *problem,
              const fc_plan *plan)
{
    if (!is_small(problem))
        return;
    fuzz_block blocks[BLOCKS] = {0};
    if (fuzz_blocks_reserve(blocks, problem, plan)) {
        for (int i = 0; i < BLOCKS; i++)
            fill(in, &blocks[i]);
        fill_index_arrays(in, problem, blocks);
        run(in, context, problem, plan, blocks);
    }
    fuzz_blocks_free(blocks);
}
