/* sm90.c: the host side of the sm_90 kernels: what they accept, which variant and how many blocks a
 * problem gets, and the launches. */
#include "cuda/sm90/sm90.h"

#include "cuda/sm80/plan.h"
#include "cuda/sm90/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VARIANT_BYTES = 64,
    GROUP_ROWS = 64,      /* query rows of a warpgroup, and of a box of Q */
    TILE_ROWS = 128,      /* of most tiles of prefill.cu */
    PIECE = 64,           /* keys of a box of prefill.cu where there are features */
    LATENCY_KEYS = 384,   /* that latency.cu wants */
    DENSE_KEYS_128 = 256, /* of dense problems with more than 64 dims */
    CROWD = 4,            /* blocks of its smallest variants on a multiprocessor */
    MOST_CROWD_KEYS = 512,
    MOST_DOUBLED_KEYS = 768, /* with more prefill.cu is done earlier */
    WHOLE_KEYS = 128,        /* whole tiles of prefill.cu where all rows see them */
    FEW_KEYS = 64,           /* features.cuh */
    TILE_KEYS = 256,         /* of the largest tile of latency.cu */
    MOST_PAIR_KEYS = 512,    /* of which two blocks have one such tile each */
    MOST_LOOP_KEYS = 384,    /* with more, such pairs of blocks are done before a loop over 128 */
};

typedef struct sm90_plan {
    fc_sm80_plan sm80; /* for buffers that tensor maps do not reach */
    const fc_cuda_function *function;
    sm90_args args; /* all but the pointers */
    int64_t grid[3];
    unsigned cluster; /* blocks */
} sm90_plan;

/* ---- What is accepted ---- */

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
    enum { MOST_GRID_YZ = 65535, MOST_TILES = 1 << 30 };
    if (self == &fc_sm90_latency && p->batch > MOST_GRID_YZ)
        return fc_refuse("batch = " I64 "; a grid has room for %d", p->batch, (int)MOST_GRID_YZ);
    if (p->batch * p->q_heads > MOST_TILES / fc_divide_up(p->q_length + 1, TILE_ROWS))
        return "it counts up to 2^30 tiles of rows";
    return NULL;
}

/* A box of keys has to lie in one page. */
static const char *accepts_pages(const fc_attention *p)
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
        reason = accepts_pages(p);
    if (!reason && self == &fc_sm90_latency && p->packed_kv && p->batch_invariant)
        reason = "packed keys: the longest sequence would decide about the bits of others";
    if (!reason && (!fc_cuda_reads_in_chunks(p) || !fc_sm90_has_maps(p)))
        reason = "the strides of q, k or v are not positive multiples of 16 bytes";
    return reason;
}

/* ---- Which of the two, and of their variants ---- */

static int64_t latency_tiles(const fc_attention *p)
{
    return p->batch * p->q_heads * fc_divide_up(p->q_length, GROUP_ROWS);
}

/* Query heads of one KV head whose rows share a tile: all of them where those of one leave it
 * mostly empty, and a box of 64 rows holds as many of each. */
static int64_t packed_heads(const fc_attention *p)
{
    const int64_t group = p->q_heads / p->kv_heads;
    const bool fits = group <= GROUP_ROWS && GROUP_ROWS % group == 0;
    return fits && p->q_length < TILE_ROWS && !(p->batch_invariant && p->packed_q) ? group : 1;
}

/* Tiles of prefill.cu, of so many rows. */
static int64_t tiles_of(const fc_attention *p, int rows)
{
    const int64_t packed = packed_heads(p);
    return p->batch * (p->q_heads / packed) * fc_divide_up(p->q_length * packed, rows);
}

static int64_t prefill_tiles(const fc_attention *p)
{
    return tiles_of(p, TILE_ROWS);
}

/* Whether each tile has a multiprocessor for itself. */
static bool fits_at_once(const fc_context *context, int64_t tiles)
{
    return tiles <= context->cuda->multiprocessors;
}

static int latency_dim(const fc_attention *p)
{
    return fc_cuda_larger_dim(p) <= 64 ? 64 : 128;
}

/* Whether variants without FEATURES run it. */
static bool is_plain(const fc_attention *p)
{
    return fc_cuda_is_plain(p) && p->scale > 0 && fc_cuda_writes_in_chunks(p);
}

/* Whether rows see all keys, and not too few. */
static bool sees_all(const fc_attention *p)
{
    return is_plain(p) && fc_cuda_is_dense(p) && !fc_cuda_has_limits(p) && p->kv_length >= FEW_KEYS;
}

/* Whether prefill.cu has a variant for that. */
static bool has_whole_tiles(const fc_attention *p)
{
    return p->kv_length > 0 && p->kv_length % WHOLE_KEYS == 0;
}

/* Whether they see the first ones, up to one that depends on the row. */
static bool sees_first(const fc_attention *p)
{
    return is_plain(p) && fc_cuda_is_dense(p) && fc_cuda_ends_with_row(p);
}

/* Whether they see their keys from the first one on, which has variants of its own. */
static bool sees_from_first(const fc_attention *p)
{
    return sees_all(p) || sees_first(p);
}

/* Whether tiles of 64 rows are one round with two blocks on each multiprocessor. prefill.cu has
 * tiles of twice as many rows, and is not done before them. */
static bool doubles(const fc_context *context, const fc_attention *p)
{
    const int64_t tiles = latency_tiles(p), blocks = context->cuda->multiprocessors;
    return latency_dim(p) == 64 && sees_from_first(p) && p->kv_length <= MOST_DOUBLED_KEYS &&
           tiles > blocks && tiles <= 2 * blocks;
}

/* Whether tiles of so many keys leave half of the last one empty. */
static bool waste_half(const fc_attention *p, int tile_keys)
{
    const int64_t rest = p->kv_length % tile_keys;
    return rest > 0 && rest <= tile_keys / 2;
}

/* Many short sequences: tiles of 64 rows, four to a multiprocessor, are done in one round where
 * those of prefill.cu need two. With more keys three: four would take longer than its largest, and
 * of 512 that are whole tiles there so do three. Where rows see different keys, prefill.cu is
 * faster with more than 256 of them up to some one and a half rounds. */
static bool crowds(const fc_context *context, const fc_attention *p)
{
    const int64_t blocks = context->cuda->multiprocessors;
    const int64_t crowd = p->kv_length < LATENCY_KEYS ? CROWD : CROWD - 1;
    const bool needs_two_rounds = 2 * prefill_tiles(p) > 3 * blocks;
    const int64_t most_keys = sees_all(p) && !has_whole_tiles(p) ? MOST_CROWD_KEYS
                              : sees_all(p) || needs_two_rounds  ? LATENCY_KEYS
                                                                 : MOST_CROWD_KEYS / 2;
    return !p->batch_invariant && is_plain(p) && !p->has_kv_lengths && latency_dim(p) == 64 &&
           p->kv_length <= most_keys && prefill_tiles(p) > blocks &&
           latency_tiles(p) <= crowd * blocks;
}

/* With fewer keys the kernel of sm_80 is done earlier. It cannot start before the kernel before it
 * ends. */
static int64_t least_latency_keys(const fc_context *context, const fc_attention *p)
{
    if (!is_plain(p))
        return GROUP_ROWS + 1;
    if (!sees_from_first(p)) {
        const bool few_suit_sm80 =
            fc_cuda_has_limits(p) ? latency_dim(p) == 64 : fc_sm80_has_one_wave(context, p);
        return few_suit_sm80 ? LATENCY_KEYS : GROUP_ROWS + 1;
    }
    if (latency_dim(p) > 64)
        return DENSE_KEYS_128;
    return !p->dependent_launch && fc_sm80_has_one_wave(context, p) ? FC_SM80_FEWEST_KEYS + 1
                                                                    : GROUP_ROWS + 1;
}

/* Tiles of 64 rows, where larger ones would leave multiprocessors idle. */
static bool latency_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    if (p->batch_invariant || p->q_length < GROUP_ROWS)
        return false;
    return crowds(context, p) || (p->kv_length >= least_latency_keys(context, p) &&
                                  (doubles(context, p) || fits_at_once(context, latency_tiles(p))));
}

/* Where there is a tile for most multiprocessors. The longest of packed sequences may not decide
 * about the bits of others. */
static bool prefill_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    if (p->batch_invariant && p->packed_q)
        return true;
    return p->q_length * packed_heads(p) >= GROUP_ROWS &&
           (p->batch_invariant || 2 * prefill_tiles(p) >= context->cuda->multiprocessors);
}

/* Whether two blocks share the keys of tiles of 128 rows, because tiles of 64 would be too many for
 * that: each has one tile of 256 keys then, not two. With up to 384 keys a loop of smaller ones is
 * done earlier. */
static bool pairs_tall(const fc_context *context, const fc_attention *p)
{
    return !p->batch_invariant && latency_dim(p) == 64 && sees_from_first(p) &&
           p->kv_length > MOST_LOOP_KEYS && p->kv_length <= MOST_PAIR_KEYS &&
           !fits_at_once(context, 2 * latency_tiles(p)) &&
           fits_at_once(context, 2 * prefill_tiles(p));
}

/* Two blocks share the keys of a tile where that fills the GPU better; where a row's bits may not
 * depend on how busy it is, always. */
static bool splits_keys(const fc_context *context, const fc_attention *p)
{
    return p->kv_length > GROUP_ROWS &&
           (p->batch_invariant || fits_at_once(context, 2 * latency_tiles(p)) ||
            pairs_tall(context, p));
}

/* Up to 512 keys of 64 dims that two blocks share: a tile for each. */
static bool shares_tiles(const fc_attention *p, bool splits)
{
    return splits && latency_dim(p) == 64 && p->kv_length <= MOST_PAIR_KEYS && sees_from_first(p);
}

/* Whether rows see all keys and the last ones leave room in tiles of 256. The variant for causal
 * rows hides such room while keys come; the one for rows that see all keys would look for the
 * largest score a second time. */
static bool leaves_room(const fc_attention *p)
{
    return sees_all(p) && p->kv_length > TILE_KEYS && p->kv_length < MOST_PAIR_KEYS;
}

static const char *pair_variant(const fc_context *context, const fc_attention *p)
{
    const bool all = sees_all(p) && !leaves_room(p);
    if (pairs_tall(context, p))
        return all ? "k256_tall_pair" : "k256_tall_pair_causal";
    if (all)
        return p->kv_length <= 128 ? "k64_pair" : p->kv_length <= 256 ? "k128_pair" : "k256_pair";
    return p->kv_length <= 128   ? "k64_pair_causal"
           : p->kv_length <= 256 ? "k128_pair_causal"
                                 : "k256_pair_causal";
}

/* Whether scores spread no further than with the default scale: where few keys have nearly all the
 * weight, fixed.cuh's results are less exact than those relative to the largest score. */
static bool spreads_little(const fc_attention *p)
{
    return p->scale * p->scale * (float)p->head_dim <= 1.01f;
}

/* Whether rows see all of so many keys: fixed.cuh then looks for nothing else. */
static bool sees_whole_tile(const fc_attention *p, int keys)
{
    return sees_all(p) && p->kv_length == keys && spreads_little(p);
}

/* One tile of 129 to 256 keys, 64 dims: for 64 rows a block, or `tall`, for 128. */
static const char *one_tile_variant(const fc_attention *p, bool tall)
{
    if (sees_first(p))
        return tall ? "k256_tall_causal" : "k256_one_causal";
    if (sees_whole_tile(p, TILE_KEYS))
        return tall ? "k256_tall_whole" : "k256_one_whole";
    return tall ? "k256_tall_all" : "k256_one_all";
}

/* Tiles of keys that no two blocks share, 64 dims. Blocks that are alone on a multiprocessor take
 * 256 keys at a time; so do blocks of 128 rows, where those of 64 would not be alone. Of causal
 * rows one tile is relative to a constant. */
static const char *unshared_variant(const fc_context *context, const fc_attention *p)
{
    const bool alone = !doubles(context, p);
    if (sees_first(p) && !spreads_little(p))
        return "k128_two_causal";
    if (p->kv_length <= 128)
        return sees_first(p)             ? "k128_one_causal"
               : sees_whole_tile(p, 128) ? "k128_one_whole"
                                         : "k128_one";
    if (p->kv_length <= TILE_KEYS && (alone || fits_at_once(context, prefill_tiles(p))))
        return one_tile_variant(p, !alone);
    if (sees_first(p))
        return "k128_two_causal";
    return !alone || waste_half(p, TILE_KEYS) ? "k128_two_all" : "k256_all";
}

/* Blocks of which four share a multiprocessor, or two of two heads. */
static const char *crowd_variant(const fc_context *context, const fc_attention *p)
{
    const bool fills = latency_tiles(p) > (CROWD - 1) * (int64_t)context->cuda->multiprocessors;
    if (sees_whole_tile(p, 128))
        return fills && p->q_heads % 2 == 0 ? "k128_heads_whole" : "k128_four_whole";
    if (sees_all(p))
        return p->kv_length <= 128 ? "k128_four_all" : "k64_four_all";
    return sees_first(p) ? "k64_four_causal" : "k64_four";
}

/* Few keys a block take small tiles. */
static const char *latency_variant(const fc_context *context, const fc_attention *p)
{
    if (crowds(context, p) && (!doubles(context, p) || waste_half(p, 128)))
        return crowd_variant(context, p);
    const bool splits = splits_keys(context, p);
    if (shares_tiles(p, splits))
        return pair_variant(context, p);
    const int64_t keys = splits ? fc_divide_up(p->kv_length, 2) : p->kv_length;
    if (!is_plain(p))
        return keys <= 64 && latency_dim(p) == 64 ? "k64_full" : "k128_full";
    if (keys <= 64)
        return "k64";
    if (!splits && latency_dim(p) == 64 && sees_from_first(p))
        return unshared_variant(context, p);
    if (sees_all(p))
        return latency_dim(p) > 64 ? "k128_all" : "k256_all";
    return sees_first(p) ? "k128_causal" : "k128";
}

/* The time of all rounds of tiles of so many rows, where a tile takes `cost`. */
static int64_t rounds_cost(const fc_context *context, const fc_attention *p, int rows, int cost)
{
    const int64_t tiles = p->batch * p->q_heads * fc_divide_up(p->q_length, rows);
    return fc_divide_up(tiles, context->cuda->multiprocessors) * cost;
}

/* Whether one round of tiles of 256 rows would wait for those of the last rows, which see the most
 * keys. Of smaller tiles a block then takes two, one of the last rows and one of the first. */
static bool waits_for_last_rows(const fc_context *context, const fc_attention *p)
{
    return sees_first(p) && p->q_length >= 1024 && p->kv_length <= p->q_length &&
           rounds_cost(context, p, 256, 1) == 1;
}

/* Of 64 dims there are tiles of 128, 192 and 256 rows. Larger ones take less time a row, unless the
 * last one of a sequence, or the last round of them, is mostly empty. Where rows see different
 * keys, the largest have a variant of their own. No sequence may decide about the bits of others.
 */
static const char *prefill_variant_64(const fc_context *context, const fc_attention *p)
{
    enum { COST = 128, WIDE_COST = 170, TALL_COST = 221 };
    const char *tall = fc_cuda_has_limits(p) ? "d64_tall_limits" : "d64_tall";
    if (p->batch_invariant)
        return !p->packed_kv && p->kv_length >= 1024 ? tall : "d64";
    if (waits_for_last_rows(context, p))
        return "d64";
    const int64_t cost = rounds_cost(context, p, 128, COST);
    const int64_t tall_cost = rounds_cost(context, p, 256, TALL_COST);
    const int64_t wide_cost =
        fc_cuda_has_limits(p) ? INT64_MAX : rounds_cost(context, p, 192, WIDE_COST);
    if (tall_cost < cost && tall_cost < wide_cost)
        return tall;
    return wide_cost < cost ? "d64_wide" : "d64";
}

/* The dims and the tile of a variant of prefill.cu; of dims from 129 to 192 there is none with
 * FEATURES. */
static const char *prefill_variant(const fc_context *context, const fc_attention *p)
{
    const int64_t larger = fc_cuda_larger_dim(p);
    if (!is_plain(p))
        return larger <= 64 ? "d64_full" : larger <= 128 ? "d128_full" : "d256_full";
    if (larger <= 64)
        return prefill_variant_64(context, p);
    if (larger <= 96)
        return "d96";
    if (larger <= 128)
        return "d128";
    if (larger <= 192)
        return p->value_dim <= 128 ? "d192_128" : "d192";
    return "d256";
}

/* Where rows see all keys, nothing has to be looked up, and no tile of keys is cut, some variants
 * have another that looks for nothing else. */
static const char *without_limits(const fc_attention *p, const char *variant)
{
    static const char *const names[][2] = {
        {"d64_tall", "d64_tall_all"}, {"d128", "d128_all"}, {"d256", "d256_all"}};
    if (!fc_cuda_is_dense(p) || fc_cuda_has_limits(p) || !has_whole_tiles(p) ||
        packed_heads(p) > 1 || !fc_sm90_out_has_map(p, 1))
        return variant;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(variant, names[i][0]) == 0)
            return names[i][1];
    return variant;
}

/* Where every block has one tile of rows, some have another that looks for no next one. */
static const char *for_one_round(const fc_context *context, const fc_attention *p,
                                 const char *variant)
{
    static const struct {
        const char *name, *once;
        int rows; /* of a tile */
    } all[] = {{"d64", "d64_once", TILE_ROWS},
               {"d64_tall_all", "d64_tall_all_once", 2 * TILE_ROWS},
               {"d128", "d128_once", TILE_ROWS},
               {"d128_all", "d128_all_once", TILE_ROWS}};
    if (p->batch_invariant) /* the number of tiles may not decide about a row's bits */
        return variant;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(variant, all[i].name) == 0 && fits_at_once(context, tiles_of(p, all[i].rows)))
            return all[i].once;
    return variant;
}

static const char *prefill_name(const fc_context *context, const fc_attention *p)
{
    return for_one_round(context, p, without_limits(p, prefill_variant(context, p)));
}

static void name_variant(const fc_kernel *self, const fc_plan *plan, char name[VARIANT_BYTES])
{
    const fc_attention *p = &plan->problem;
    if (self == &fc_sm90_latency)
        snprintf(name, VARIANT_BYTES, "%s_d%d_%s_%s", self->name, latency_dim(p),
                 latency_variant(plan->context, p), fc_type_name(p->q_type));
    else
        snprintf(name, VARIANT_BYTES, "%s_%s_%s", self->name, prefill_name(plan->context, p),
                 fc_type_name(p->q_type));
}

/* ---- Plans ---- */

/* A block a multiprocessor, which takes tile after tile; two at a time where the first rows see few
 * keys and the last ones many. Or a block a tile, if the kernel looks for no next one. */
static void lay_out_prefill(const fc_plan *plan, sm90_plan *s)
{
    const fc_attention *p = &plan->problem;
    const int64_t packed = packed_heads(p);
    const int64_t tiles = fc_divide_up(p->q_length * packed, s->function->shape.query_tile);
    const int64_t sequences = p->batch * (p->q_heads / packed);
    const int64_t all_tiles = tiles * sequences;
    const int64_t resident = plan->context->cuda->multiprocessors;
    const bool one_each = s->function->shape.grid == GRID_EACH || all_tiles <= resident;
    const bool pairs = !one_each && fc_cuda_ends_with_row(p);
    const int64_t parcels = pairs ? fc_divide_up(tiles, 2) : tiles;
    s->args.attention.packed_heads = fc_cuda_divisor(packed);
    s->args.order.stores_boxes = fc_sm90_out_has_map(p, (int)packed);
    s->args.order.tiles = (int)tiles;
    s->args.order.takes_pairs = pairs;
    s->args.order.parcels = fc_cuda_divisor(parcels);
    s->args.order.head_groups = fc_cuda_divisor(p->q_heads / packed);
    s->args.order.all_parcels = (int)(parcels * sequences);
    s->grid[0] = one_each ? all_tiles : resident;
    s->grid[1] = s->grid[2] = 1;
}

static void lay_out_latency(const fc_plan *plan, sm90_plan *s)
{
    const fc_attention *p = &plan->problem;
    s->cluster = splits_keys(plan->context, p) ? 2 : 1;
    s->grid[0] = fc_divide_up(p->q_length, s->function->shape.query_tile) * s->cluster;
    const int heads = s->function->shape.heads;
    s->grid[1] = heads > 1 ? p->q_heads / heads : p->q_heads;
    s->grid[2] = p->batch;
    /* A pair's variants for causal rows look for that limit alone: behind the last key. */
    if (shares_tiles(p, s->cluster == 2) && leaves_room(p))
        s->args.attention.window_right = (int)(p->q_length + p->kv_length);
}

static fc_status prepare_plan(const fc_kernel *self, const fc_plan *plan, sm90_plan *s)
{
    char name[VARIANT_BYTES];
    name_variant(self, plan, name);
    FC_TRY(fc_cuda_find_kernel(plan, name, &s->function));
    FC_TRY(fc_sm80_prepare_prefill(plan, &s->sm80));
    s->args.attention = fc_cuda_arguments(&plan->problem);
    s->args.scale = plan->problem.scale;
    if (self == &fc_sm90_latency)
        lay_out_latency(plan, s);
    else
        lay_out_prefill(plan, s);
    const bool in_pieces = self == &fc_sm90_prefill && !is_plain(&plan->problem);
    return fc_sm90_make_maps(plan, self == &fc_sm90_prefill,
                             in_pieces ? PIECE : s->function->shape.kv_tile, &s->args);
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
    return fc_sm90_has_rows(p) && fc_cuda_is_aligned(b->q) && fc_cuda_is_aligned(b->k) &&
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
        .dependent = plan->problem.dependent_launch,
        .args = &args,
    };
    bool pushed;
    FC_TRY(fc_cuda_enter(plan->context->cuda, &pushed));
    fc_status status = fc_sm90_place_maps(&args, b);
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
