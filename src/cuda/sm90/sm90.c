/* sm90.c: the host side of the sm_90 kernels: what they accept, which variant and how many blocks a
 * problem gets, the tensor maps, and the launches. */
#include "cuda/sm90/sm90.h"

#include "cuda/sm80/plan.h"
#include "cuda/sm90/sm90_args.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    VARIANT_BYTES = 64,
    GROUP_ROWS = 64,    /* query rows of a warpgroup, and of a box of Q */
    WARP_ROWS = 16,     /* of a warp, and of a box of out */
    PANEL_DIMS = 64,    /* dims of a box */
    PIECE = 64,         /* keys of a box of prefill.cu where there are features */
    LATENCY_KEYS = 384, /* that latency.cu wants */
    LONG_ROWS = 4096,   /* from so many keys on blocks that work longest are worth a thought */
    SECTION_BYTES = 24 << 20, /* of K and V that stay in the L2 cache */
};

typedef struct sm90_plan {
    fc_sm80_plan sm80; /* for buffers that tensor maps do not reach */
    const fc_cuda_function *function;
    sm90_args args; /* all but the pointers */
    int64_t grid[3];
    unsigned cluster; /* blocks */
} sm90_plan;

/* ---- What is accepted ---- */

/* A tensor map steps forward, by multiples of 16 bytes below 2^40. */
static bool is_mapped(int64_t stride, int64_t size)
{
    return size <= 1 || (stride > 0 && stride < (int64_t)1 << 38);
}

static bool tensor_is_mapped(fc_strides s, int64_t rows, int64_t heads, int64_t batch)
{
    return is_mapped(s.row, rows) && is_mapped(s.head, heads) && is_mapped(s.batch, batch);
}

/* The tensors as their maps see them; pages take the place of the batch. */
static int64_t rows_of_q(const fc_attention *p)
{
    return p->packed_q ? p->packed_q_rows : p->q_length;
}

static int64_t batch_of_q(const fc_attention *p)
{
    return p->packed_q ? 1 : p->batch;
}

static int64_t rows_of_kv(const fc_attention *p)
{
    return p->packed_kv ? p->packed_kv_rows : p->paged ? p->page_size : p->kv_length;
}

static int64_t batch_of_kv(const fc_attention *p)
{
    return p->packed_kv ? 1 : p->paged ? p->page_count : p->batch;
}

static bool inputs_are_mapped(const fc_attention *p)
{
    return tensor_is_mapped(p->q_strides, rows_of_q(p), p->q_heads, batch_of_q(p)) &&
           tensor_is_mapped(p->k_strides, rows_of_kv(p), p->kv_heads, batch_of_kv(p)) &&
           tensor_is_mapped(p->v_strides, rows_of_kv(p), p->kv_heads, batch_of_kv(p));
}

static const char *accepts_dims(const fc_attention *p, int64_t most)
{
    if (p->head_dim > most || p->value_dim > most)
        return fc_refuse("head_dim = " I64 ", value_dim = " I64 "; it has up to " I64, p->head_dim,
                         p->value_dim, most);
    return NULL;
}

/* Blocks of latency.cu are counted in three ways, tiles of prefill.cu in one. */
static const char *accepts_count(const fc_kernel *self, const fc_attention *p)
{
    enum { MOST_GRID_YZ = 65535, LEAST_TILE_ROWS = 128, MOST_TILES = 1 << 30 };
    if (self == &fc_sm90_latency && p->batch > MOST_GRID_YZ)
        return fc_refuse("batch = " I64 "; a grid has room for %d", p->batch, (int)MOST_GRID_YZ);
    if (p->batch * p->q_heads > MOST_TILES / fc_divide_up(p->q_length + 1, LEAST_TILE_ROWS))
        return "it counts up to 2^30 tiles of rows";
    return NULL;
}

/* Tensor maps read on past the end of a sequence. What lies there is hidden, but where it is
 * infinite or NaN, rows are computed a second way (again.cuh): slowly, and with other bits. Prefill
 * clears it. */
static const char *accepts_in_latency(const fc_attention *p)
{
    if (!fc_cuda_is_plain(p))
        return "it has no soft-cap, ALiBi, bias, mask, dropout or pages";
    if (p->scale <= 0)
        return fc_refuse("scale = %g; it takes positive ones", (double)p->scale);
    if (p->has_kv_lengths)
        return "it has no kv_lengths";
    if (p->packed_kv && p->batch_invariant)
        return "packed keys: a row's bits could depend on its neighbours";
    if (!fc_cuda_writes_in_chunks(p))
        return "rows of out are not whole 16-byte chunks of its own type";
    return NULL;
}

static const char *accepts_in_prefill(const fc_attention *p)
{
    if (p->paged && p->page_size % PIECE)
        return fc_refuse("page_size = " I64 "; it takes multiples of %d", p->page_size, (int)PIECE);
    return NULL;
}

static const char *accepts(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    if (context->cuda && context->cuda->compute_capability != 90)
        return fc_refuse("compute capability %d.%d; it needs 9.0",
                         context->cuda->compute_capability / 10,
                         context->cuda->compute_capability % 10);
    const char *reason = fc_cuda_refuse(context, p);
    if (!reason)
        reason = accepts_dims(p, self == &fc_sm90_latency ? 128 : 256);
    if (!reason)
        reason = accepts_count(self, p);
    if (!reason)
        reason = self == &fc_sm90_latency ? accepts_in_latency(p) : accepts_in_prefill(p);
    if (!reason && (!fc_cuda_reads_in_chunks(p) || !inputs_are_mapped(p)))
        reason = "the strides of q, k or v are not positive multiples of 16 bytes";
    return reason;
}

/* ---- Which of the two, and of their variants ---- */

static int64_t latency_tiles(const fc_attention *p)
{
    return p->batch * p->q_heads * fc_divide_up(p->q_length, GROUP_ROWS);
}

/* Tiles of 64 rows, where larger ones would leave multiprocessors idle; with fewer keys the kernel
 * of sm_80 is done earlier. */
static bool latency_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    return !p->batch_invariant && p->q_length >= GROUP_ROWS && p->kv_length >= LATENCY_KEYS &&
           latency_tiles(p) <= context->cuda->multiprocessors;
}

/* Where there is a tile for most multiprocessors. The longest of packed sequences may not decide
 * about the bits of others. */
static bool prefill_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    enum { TILE_ROWS = 128 };
    (void)self;
    if (p->batch_invariant && p->packed_q)
        return true;
    return p->q_length >= GROUP_ROWS &&
           (p->batch_invariant ||
            2 * p->batch * p->q_heads * fc_divide_up(p->q_length, TILE_ROWS) >=
                context->cuda->multiprocessors);
}

/* Whether rows see different keys. */
static bool has_limits(const fc_attention *p)
{
    return p->window_left >= 0 || p->window_right >= 0;
}

/* Two blocks share the keys of a tile where that fills the GPU better; where a row's bits may not
 * depend on how busy it is, always. */
static bool splits_keys(const fc_context *context, const fc_attention *p)
{
    return p->kv_length > GROUP_ROWS &&
           (p->batch_invariant || 2 * latency_tiles(p) <= context->cuda->multiprocessors);
}

static int latency_dim(const fc_attention *p)
{
    return fc_cuda_larger_dim(p) <= 64 ? 64 : 128;
}

/* Few keys a block take small tiles. The largest have no room for what rows that see few keys need
 * besides; where two blocks share them, the variant of the mission shape. */
static const char *latency_variant(const fc_context *context, const fc_attention *p)
{
    const bool splits = splits_keys(context, p);
    const int64_t keys = splits ? fc_divide_up(p->kv_length, 2) : p->kv_length;
    if (keys <= 64)
        return "k64";
    const bool may_see_few = has_limits(p) || p->packed_kv;
    if (keys <= 128 || may_see_few || latency_dim(p) > 64)
        return "k128";
    return splits ? "k256_pair" : "k256";
}

/* Whether prefill's variants without FEATURES run it. */
static bool is_plain(const fc_attention *p)
{
    return fc_cuda_is_plain(p) && p->scale > 0 && fc_cuda_writes_in_chunks(p);
}

/* Tiles of 192 rows take less time a row than those of 128, unless the last round of them leaves
 * too many multiprocessors idle; where rows see different keys, only long ones. No sequence may
 * decide about the bits of others. */
static bool takes_wide_tiles(const fc_context *context, const fc_attention *p)
{
    enum { WIDE_ROWS = 192, WIDE_COST = 163, ROWS = 128 };
    const int64_t sequences = p->batch * p->q_heads, blocks = context->cuda->multiprocessors;
    if (p->batch_invariant)
        return !p->packed_kv && p->kv_length >= (has_limits(p) ? LONG_ROWS : 1024);
    if (has_limits(p))
        return p->kv_length >= LONG_ROWS;
    return WIDE_COST * fc_divide_up(sequences * fc_divide_up(p->q_length, WIDE_ROWS), blocks) <
           ROWS * fc_divide_up(sequences * fc_divide_up(p->q_length, ROWS), blocks);
}

/* The dims and the tile of a variant of prefill.cu; of dims from 129 to 192 there is none with
 * FEATURES. */
static const char *prefill_variant(const fc_context *context, const fc_attention *p)
{
    const int64_t larger = fc_cuda_larger_dim(p);
    if (!is_plain(p))
        return larger <= 64 ? "d64_full" : larger <= 128 ? "d128_full" : "d256_full";
    if (larger <= 64)
        return takes_wide_tiles(context, p) ? "d64_wide" : "d64";
    if (larger <= 128)
        return "d128";
    if (larger <= 192)
        return p->value_dim <= 128 ? "d192_128" : "d192";
    return "d256";
}

static void name_variant(const fc_kernel *self, const fc_plan *plan, char name[VARIANT_BYTES])
{
    const fc_attention *p = &plan->problem;
    if (self == &fc_sm90_latency)
        snprintf(name, VARIANT_BYTES, "%s_d%d_%s_%s", self->name, latency_dim(p),
                 latency_variant(plan->context, p), fc_type_name(p->q_type));
    else
        snprintf(name, VARIANT_BYTES, "%s_%s_%s", self->name, prefill_variant(plan->context, p),
                 fc_type_name(p->q_type));
}

/* ---- Tensor maps ---- */

/* A tensor map has no empty axis. */
static bool has_rows(const fc_attention *p)
{
    return p->batch > 0 && rows_of_q(p) > 0 && rows_of_kv(p) > 0 && batch_of_kv(p) > 0;
}

/* A tensor as boxes of PANEL_DIMS × box_rows. What lies outside reads as 0. The address comes with
 * the call. */
static fc_status make_map(tensor_map *map, fc_type type, int64_t dims, int64_t rows, int64_t heads,
                          int64_t batch, fc_strides strides, int box_rows)
{
    enum { ELEMENT_BYTES = 2, ANY_ADDRESS = 16, NO_STEP = 16 };
    const int64_t steps[] = {rows > 1 ? strides.row * ELEMENT_BYTES : NO_STEP,
                             heads > 1 ? strides.head * ELEMENT_BYTES : NO_STEP,
                             batch > 1 ? strides.batch * ELEMENT_BYTES : NO_STEP};
    const cuuint64_t sizes[] = {(cuuint64_t)dims, (cuuint64_t)rows, (cuuint64_t)heads,
                                (cuuint64_t)batch};
    const cuuint64_t step_bytes[] = {(cuuint64_t)steps[0], (cuuint64_t)steps[1],
                                     (cuuint64_t)steps[2]};
    const cuuint32_t box[] = {PANEL_DIMS, (cuuint32_t)box_rows, 1, 1};
    const cuuint32_t element_steps[] = {1, 1, 1, 1};
    return fc_cuda_check(
        fc_cuda()->tensor_map_encode(
            map,
            type == FC_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
            (void *)(uintptr_t)ANY_ADDRESS, sizes, step_bytes, box, element_steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "making a tensor map");
}

static fc_status encode_maps(const fc_kernel *self, const fc_plan *plan, sm90_plan *s)
{
    const fc_attention *p = &plan->problem;
    if (!has_rows(p))
        return FC_OK; /* sm_80 runs it */
    const bool in_pieces = self == &fc_sm90_prefill && !is_plain(p);
    const int keys = in_pieces ? PIECE : s->function->shape.kv_tile;
    FC_TRY(make_map(&s->args.q, p->q_type, p->head_dim, rows_of_q(p), p->q_heads, batch_of_q(p),
                    p->q_strides, GROUP_ROWS));
    FC_TRY(make_map(&s->args.k, p->q_type, p->head_dim, rows_of_kv(p), p->kv_heads, batch_of_kv(p),
                    p->k_strides, keys));
    FC_TRY(make_map(&s->args.v, p->q_type, p->value_dim, rows_of_kv(p), p->kv_heads, batch_of_kv(p),
                    p->v_strides, keys));
    if (!s->args.stores_boxes)
        return FC_OK;
    return make_map(&s->args.out, p->q_type, p->value_dim, rows_of_q(p), p->q_heads, batch_of_q(p),
                    p->out_strides, WARP_ROWS);
}

static fc_status make_maps(const fc_kernel *self, const fc_plan *plan, sm90_plan *s)
{
    bool pushed;
    FC_TRY(fc_cuda_enter(plan->context->cuda, &pushed));
    const fc_status status = encode_maps(self, plan, s);
    fc_cuda_leave(pushed);
    return status;
}

static fc_status place_maps(sm90_args *args, const fc_buffers *b)
{
    const fc_cuda_driver *cuda = fc_cuda();
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->q, (void *)(uintptr_t)b->q), "placing q");
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->k, (void *)(uintptr_t)b->k), "placing k");
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->v, (void *)(uintptr_t)b->v), "placing v");
    if (args->stores_boxes)
        FC_CUDA_TRY(cuda->tensor_map_replace(&args->out, b->out), "placing out");
    return FC_OK;
}

/* ---- Plans ---- */

/* Heads whose keys and values the L2 cache holds at once. */
static int section_of(const fc_attention *p)
{
    const int64_t kv_bytes = p->kv_length * (p->head_dim + p->value_dim) * 2;
    const int64_t heads = SECTION_BYTES / (kv_bytes ? kv_bytes : 1) * (p->q_heads / p->kv_heads);
    const int64_t most = p->batch * p->q_heads;
    return (int)(heads < 1 ? 1 : heads > most ? most : heads);
}

/* A block a multiprocessor, which takes tile after tile. Long rows of different lengths get a block
 * a tile instead: the GPU hands those out as others end. */
static void lay_out_prefill(const fc_plan *plan, sm90_plan *s)
{
    const fc_attention *p = &plan->problem;
    s->args.tiles = (int)fc_divide_up(p->q_length, s->function->shape.query_tile);
    s->args.sequences = (int)(p->batch * p->q_heads);
    s->args.section = section_of(p);
    s->args.stores_boxes =
        fc_cuda_writes_in_chunks(p) &&
        tensor_is_mapped(p->out_strides, rows_of_q(p), p->q_heads, batch_of_q(p));
    const int64_t tiles = (int64_t)s->args.tiles * s->args.sequences;
    const int64_t blocks = plan->context->cuda->multiprocessors;
    const bool one_each = tiles < blocks || (has_limits(p) && p->kv_length >= LONG_ROWS);
    s->grid[0] = one_each ? tiles : blocks;
    s->grid[1] = s->grid[2] = 1;
}

static void lay_out_latency(const fc_plan *plan, sm90_plan *s)
{
    const fc_attention *p = &plan->problem;
    s->cluster = splits_keys(plan->context, p) ? 2 : 1;
    s->grid[0] = fc_divide_up(p->q_length, GROUP_ROWS) * s->cluster;
    s->grid[1] = p->q_heads;
    s->grid[2] = p->batch;
}

static fc_status prepare_plan(const fc_kernel *self, const fc_plan *plan, sm90_plan *s)
{
    char name[VARIANT_BYTES];
    name_variant(self, plan, name);
    FC_TRY(fc_cuda_find_kernel(plan, name, &s->function));
    FC_TRY(fc_sm80_prepare_prefill(plan, &s->sm80));
    s->args.attention = fc_cuda_arguments(&plan->problem);
    if (self == &fc_sm90_latency)
        lay_out_latency(plan, s);
    else
        lay_out_prefill(plan, s);
    return make_maps(self, plan, s);
}

static fc_status prepare(const fc_kernel *self, const fc_plan *plan, void **prepared)
{
    sm90_plan *s = aligned_alloc(_Alignof(sm90_plan), sizeof *s);
    if (!s)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a plan");
    *s = (sm90_plan){.cluster = 1};
    const fc_status status = prepare_plan(self, plan, s);
    if (status == FC_OK)
        *prepared = s;
    else
        free(s);
    return status;
}

/* ---- Runs ---- */

/* Tensor maps begin at multiples of 16 bytes, and plain stores have as many. */
static bool can_map(const fc_attention *p, const fc_buffers *b)
{
    return has_rows(p) && fc_cuda_is_aligned(b->q) && fc_cuda_is_aligned(b->k) &&
           fc_cuda_is_aligned(b->v) && (!is_plain(p) || fc_cuda_is_aligned(b->out));
}

static fc_status run(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                     fc_stream stream)
{
    (void)g;
    const sm90_plan *s = plan->prepared[FC_FORWARD];
    if (!can_map(&plan->problem, b))
        return fc_sm80_run(plan, &s->sm80, b, stream);
    sm90_args args = s->args;
    fc_cuda_set_pointers(&args.attention, b);
    if (!fc_cuda_is_aligned(b->out))
        args.attention.more.vector_stores = 0;
    const fc_cuda_launch launch = {
        .function = s->function,
        .grid = {(unsigned)s->grid[0], (unsigned)s->grid[1], (unsigned)s->grid[2]},
        .cluster = s->cluster,
        .args = &args,
    };
    bool pushed;
    FC_TRY(fc_cuda_enter(plan->context->cuda, &pushed));
    fc_status status = place_maps(&args, b);
    if (status == FC_OK)
        status = fc_cuda_run(plan->context->cuda, &launch, stream);
    fc_cuda_leave(pushed);
    return status;
}

const fc_kernel fc_sm90_prefill = {
    .name = "sm90_prefill",
    .summary = "warpgroup products and tensor maps of Hopper, many query rows",
    .direction = FC_FORWARD,
    .accepts = accepts,
    .suits = prefill_suits,
    .prepare = prepare,
    .run = run,
};

const fc_kernel fc_sm90_latency = {
    .name = "sm90_latency",
    .summary = "the same for few blocks' worth of rows, two blocks sharing the keys",
    .direction = FC_FORWARD,
    .accepts = accepts,
    .suits = latency_suits,
    .prepare = prepare,
    .run = run,
};
