/* blocks.c: see blocks.h. */
#include "blocks.h"

enum { MOST_BYTES = 1 << 16, MOST_WORKSPACE_BYTES = 1 << 20 };

typedef struct axis {
    int64_t size;
    int64_t stride;
} axis;

/* Room for the elements that four axes reach and for nothing else. False: more than MOST_BYTES. */
static bool reserve(fuzz_block *b, size_t item_bytes, const axis axes[4])
{
    double low = 0, high = 0, elements = 1;
    for (int i = 0; i < 4; i++) {
        const double reach = ((double)axes[i].size - 1) * (double)axes[i].stride;
        *(reach < 0 ? &low : &high) += reach;
        elements *= (double)axes[i].size;
    }
    const bool empty = elements == 0; /* whatever the strides, nothing is there */
    const double bytes = empty ? 0 : (high - low + 1) * (double)item_bytes;
    if (bytes > MOST_BYTES)
        return false;
    b->bytes = (size_t)bytes;
    b->memory = malloc(b->bytes);
    FUZZ_REQUIRE(b->memory);
    b->origin = b->memory + (empty ? 0 : (size_t)-low * item_bytes);
    return true;
}

static bool reserve_array(fuzz_block *b, size_t item_bytes, int64_t count)
{
    return reserve(b, item_bytes, (const axis[4]){{count, 1}, {1, 1}, {1, 1}, {1, 1}});
}

static bool is_f8(fc_type type)
{
    return type == FC_F8_E4M3 || type == FC_F8_E5M2;
}

static fc_type kv_type(const fc_attention *p)
{
    return p->kv_type ? p->kv_type : p->q_type;
}

static fc_type tensor_type(const fc_attention *p, int tensor)
{
    switch (tensor) {
    case Q: return p->q_type;
    case K:
    case V: return kv_type(p);
    case LSE: return FC_F32;
    default: return p->out_type ? p->out_type : is_f8(p->q_type) ? FC_BF16 : p->q_type;
    }
}

static bool reserve_tensor(fuzz_block *b, const fc_attention *p, int tensor)
{
    const fc_strides *const all_strides[TENSORS] = {
        &p->q_strides,    &p->k_strides,  &p->v_strides,  &p->out_strides, &p->lse_strides,
        &p->dout_strides, &p->dq_strides, &p->dk_strides, &p->dv_strides,
    };
    const bool of_keys = tensor == K || tensor == V || tensor == DK || tensor == DV;
    const bool of_scores = tensor == Q || tensor == K || tensor == DQ || tensor == DK;
    const bool packed = of_keys ? p->packed_kv : p->packed_q;
    const bool paged = of_keys && p->paged;
    int64_t rows = of_keys ? p->kv_length : p->q_length;
    int64_t dim = of_scores || !p->value_dim ? p->head_dim : p->value_dim;
    if (packed)
        rows = of_keys ? p->packed_kv_rows : p->packed_q_rows;
    if (paged)
        rows = p->page_size;
    if (tensor == LSE)
        dim = 1;
    axis axes[4] = {{packed  ? 1
                     : paged ? p->page_count
                             : p->batch,
                     0},
                    {of_keys ? p->kv_heads : p->q_heads, 0},
                    {rows, 0},
                    {dim, 0}};
    fc_strides s = *all_strides[tensor];
    if (!s.batch && !s.head && !s.row && !s.dim) {
        const bool rows_first = (packed || paged) && tensor != LSE;
        s.dim = 1;
        s.head = rows_first ? dim : rows * dim;
        s.row = rows_first ? axes[1].size * dim : dim;
        s.batch = axes[1].size * rows * dim;
    }
    axes[0].stride = s.batch;
    axes[1].stride = s.head;
    axes[2].stride = s.row;
    axes[3].stride = s.dim ? s.dim : 1;
    return reserve(b, fc_type_bytes(tensor_type(p, tensor)), axes);
}

/* An axis that repeats is stored once, even where the problem has none of it. */
static axis repeatable(int64_t size, int64_t stride)
{
    return stride ? (axis){size, stride} : (axis){1, 0};
}

static bool reserve_scores(fuzz_block *b, const fc_attention *p, size_t item_bytes, fc_broadcast s)
{
    const axis axes[4] = {repeatable(p->batch, s.batch),
                          repeatable(p->q_heads, s.head),
                          repeatable(p->q_length, s.row),
                          {p->kv_length, s.key ? s.key : 1}};
    return reserve(b, item_bytes, axes);
}

static bool reserve_scale(fuzz_block *b, const fc_attention *p, const fc_scaling *s, fc_type type,
                          bool of_keys)
{
    if (!is_f8(type))
        return true;
    const int64_t rows = of_keys ? p->kv_length : p->q_length;
    const int64_t blocks = s->block_rows ? (rows + s->block_rows - 1) / s->block_rows : 1;
    return reserve(b, sizeof(float),
                   (const axis[4]){{p->batch, s->batch},
                                   {of_keys ? p->kv_heads : p->q_heads, s->head},
                                   {blocks, s->block},
                                   {1, 1}});
}

static bool reserve_index_arrays(fuzz_block *blocks, const fc_attention *p)
{
    const int64_t pages = p->paged ? (p->kv_length + p->page_size - 1) / p->page_size : 0;
    const int64_t stride = p->page_table_stride ? p->page_table_stride : pages;
    const axis page_table[4] = {{p->batch, stride}, {pages, 1}, {1, 1}, {1, 1}};
    return (!p->packed_q || reserve_array(&blocks[CU_Q], sizeof(int32_t), p->batch + 1)) &&
           (!p->packed_kv || reserve_array(&blocks[CU_KV], sizeof(int32_t), p->batch + 1)) &&
           (!p->has_kv_lengths || reserve_array(&blocks[KV_LENGTHS], sizeof(int32_t), p->batch)) &&
           (!p->paged || reserve(&blocks[PAGE_TABLE], sizeof(int32_t), page_table));
}

static bool reserve_options(fuzz_block *blocks, const fc_attention *p)
{
    const axis alibi[4] = {{p->batch, p->alibi_batch_stride}, {p->q_heads, 1}, {1, 1}, {1, 1}};
    const size_t bias_bytes = fc_type_bytes(p->bias_type ? p->bias_type : FC_F32);
    return reserve_scale(&blocks[Q_SCALE], p, &p->q_scaling, p->q_type, false) &&
           reserve_scale(&blocks[K_SCALE], p, &p->k_scaling, kv_type(p), true) &&
           reserve_scale(&blocks[V_SCALE], p, &p->v_scaling, kv_type(p), true) &&
           (!p->has_alibi || reserve(&blocks[ALIBI], sizeof(float), alibi)) &&
           (!p->has_mask || reserve_scores(&blocks[MASK], p, 1, p->mask_strides)) &&
           (!p->has_bias || (reserve_scores(&blocks[BIAS], p, bias_bytes, p->bias_strides) &&
                             reserve_scores(&blocks[DBIAS], p, sizeof(float), p->bias_strides))) &&
           (!p->has_sinks || (reserve_array(&blocks[SINKS], sizeof(float), p->q_heads) &&
                              reserve_array(&blocks[DSINKS], sizeof(float), p->q_heads)));
}

static bool reserve_workspace(fuzz_block *b, const fc_plan *plan, fc_direction direction)
{
    b->bytes = fc_plan_workspace_bytes(plan, direction);
    if (b->bytes > MOST_WORKSPACE_BYTES)
        return false;
    void *memory = NULL;
    FUZZ_REQUIRE(!b->bytes || !posix_memalign(&memory, FC_WORKSPACE_ALIGNMENT, b->bytes));
    b->memory = b->origin = memory;
    return true;
}

bool fuzz_blocks_reserve(fuzz_block blocks[BLOCKS], const fc_attention *p, const fc_plan *plan)
{
    for (int tensor = 0; tensor < TENSORS; tensor++)
        if (!reserve_tensor(&blocks[tensor], p, tensor))
            return false;
    return reserve_index_arrays(blocks, p) && reserve_options(blocks, p) &&
           reserve_workspace(&blocks[FORWARD_WORKSPACE], plan, FC_FORWARD) &&
           reserve_workspace(&blocks[BACKWARD_WORKSPACE], plan, FC_BACKWARD);
}

void fuzz_blocks_free(fuzz_block blocks[BLOCKS])
{
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i].memory);
}
