/* sm80.c: the host side of the sm_80 kernels: what they accept, which variant and how many blocks a
 * problem gets, and the launches. */
#include "cuda/sm80/sm80.h"

#include "cuda/sm80/plan.h"
#include "cuda/variants.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_GRID_YZ = 65535,
    VARIANT_BYTES = 64,
    PREFILL_ROWS = 128,
    PREFILL_KEYS = 64, /* whole tiles of every variant */
    LATENCY_ROWS = 16,
    ROUND_ROWS = 32, /* of a block that takes all keys of 257 to 512 at once */
    TALL_ROWS = 80,
    /* A split takes at least this many keys: joining splits costs a launch. */
    LEAST_SPLIT_KEYS = 512,
    SPLIT_STEP = 256, /* splits begin at its multiples: whole tiles of every variant */
    /* Keys of a split where a row's bits may not depend on how busy the GPU is. */
    INVARIANT_SPLIT_KEYS = 2048,
};

/* ---- What is accepted ---- */

static const char *accepts(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    if (context->cuda && context->cuda->compute_capability < 80)
        return fc_refuse("compute capability %d.%d; it needs 8.0",
                         context->cuda->compute_capability / 10,
                         context->cuda->compute_capability % 10);
    return fc_cuda_refuse(context, p);
}

static const char *accepts_latency(const fc_kernel *self, const fc_context *context,
                                   const fc_attention *p)
{
    if (fc_cuda_larger_dim(p) > 256)
        return fc_refuse("head_dim = " I64 ", value_dim = " I64 "; it has up to 256", p->head_dim,
                         p->value_dim);
    return accepts(self, context, p);
}

/* ---- Which of the two ---- */

/* Query heads of one KV head whose rows share a tile: all of them where the rows of one leave it
 * mostly empty, so that K and V are read once for all. */
static int64_t packed_heads(const fc_attention *p, int64_t tile_rows)
{
    return p->q_length < tile_rows ? p->q_heads / p->kv_heads : 1;
}

static bool is_plain(const fc_attention *p)
{
    return fc_cuda_is_plain(p) && fc_cuda_reads_in_chunks(p) && fc_cuda_writes_in_chunks(p) &&
           fc_cuda_larger_dim(p) <= 256;
}

/* Of so many rows each, where so many heads share a tile. */
static int64_t blocks_of(const fc_attention *p, int64_t packed, int64_t rows)
{
    return p->batch * (p->q_heads / packed) * fc_divide_up(p->q_length * packed, rows);
}

/* Whether blocks of 32 rows, which take up to 512 keys at once, need more than two rounds, and
 * blocks of 80 one. On an L4 that is so with 8 heads of 512 rows: 56 blocks in place of three
 * rounds, the last of 12, or of prefill's 32 blocks for 58 multiprocessors. With few keys their
 * last team has none. */
static bool suits_tall(const fc_context *context, const fc_attention *p)
{
    const int64_t multiprocessors = context->cuda->multiprocessors;
    return is_plain(p) && fc_cuda_is_dense(p) && !p->batch_invariant && p->scale >= 0 &&
           fc_cuda_larger_dim(p) <= 64 && p->kv_length > 384 && p->kv_length <= 512 &&
           p->q_length >= LATENCY_ROWS && blocks_of(p, 1, ROUND_ROWS) > 2 * multiprocessors &&
           blocks_of(p, 1, TALL_ROWS) <= multiprocessors;
}

/* Prefill gives a block 128 rows. Where that leaves more than half of the multiprocessors without
 * one, or other tiles suit the number of these, tiles that split the keys are faster. */
static bool latency_suits(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    (void)self;
    const int64_t packed = packed_heads(p, PREFILL_ROWS), rows = p->q_length * packed;
    if (p->batch_invariant)
        return rows <= LATENCY_ROWS;
    return rows <= LATENCY_ROWS || suits_tall(context, p) ||
           2 * blocks_of(p, packed, PREFILL_ROWS) < context->cuda->multiprocessors;
}

/* ---- Variants ---- */

static int dim_of_variant(const fc_attention *p)
{
    static const int dims[] = {64, 128, 256};
    for (int i = 0; i < 3; i++)
        if (fc_cuda_larger_dim(p) <= dims[i])
            return dims[i];
    return FC_MAX_DIM;
}

/* The variant of latency.cu whose warps take all keys of a row at once: so many keys at most; where
 * rows see all of exactly so many, _all; of up to 512 the first ones, _causal. "": none does. */
static const char *one_round(const fc_context *context, const fc_attention *p)
{
    if (fc_cuda_larger_dim(p) > 64 || p->kv_length > 512)
        return "";
    const bool sees_all = !fc_cuda_has_limits(p);
    if (p->kv_length <= FC_SM80_FEWEST_KEYS)
        return sees_all && p->kv_length == FC_SM80_FEWEST_KEYS ? "_k128_all" : "_k128";
    if (p->kv_length <= 256)
        return sees_all && p->kv_length == 256 ? "_k256_all" : "_k256";
    if (suits_tall(context, p))
        return sees_all && p->kv_length == 512 ? "_k512_tall_all" : "_k512_tall";
    if (sees_all && p->kv_length == 512)
        return "_k512_all";
    return fc_cuda_ends_with_row(p) ? "_k512_causal" : "_k512";
}

/* Where rows see all keys, in whole tiles, and nothing lies in memory that would have to be looked
 * up. */
static bool prefill_sees_all(const fc_attention *p)
{
    return fc_cuda_is_dense(p) && !fc_cuda_has_limits(p) && p->kv_length > 0 &&
           p->kv_length % PREFILL_KEYS == 0;
}

/* Where rows see the first keys, and nothing else has to be looked up. With 256 dims, which heat
 * the GPU so much that it lowers its clock, it made no difference. */
static bool prefill_sees_first(const fc_attention *p)
{
    return fc_cuda_is_dense(p) && fc_cuda_ends_with_row(p) && dim_of_variant(p) <= 128;
}

/* Whether a block may have the shared memory that a variant's budget allows it. */
static bool has_room(const fc_context *context, const char *variant)
{
    const fc_cuda_variant *found = fc_cuda_find_variant(variant);
    return found && found->most_shared_bytes <= context->cuda->most_shared_bytes;
}

/* With 256 dims a block has 64 rows, and an L4 room for one at a time. Where there is more, blocks
 * of 128 take less time, unless the last one is half empty: wide.cu's, or prefill.cu's own in what
 * an A100 has. wide.cu's begin and end with nothing beside them, for which it takes many keys to
 * make up. "": as they are. */
static const char *large_blocks(const fc_context *context, const fc_attention *p)
{
    enum { ROWS = 64, LARGE_ROWS = PREFILL_ROWS };
    const int64_t rows = fc_divide_up(p->q_length, ROWS) * ROWS;
    const int64_t large_rows = fc_divide_up(p->q_length, LARGE_ROWS) * LARGE_ROWS;
    if (dim_of_variant(p) != 256 || 10 * large_rows > 11 * rows || p->kv_length < 256 ||
        p->batch_invariant)
        return "";
    if (has_room(context, "sm80_prefill_d256_wide_f16"))
        return fc_cuda_has_limits(p) && p->kv_length < 1024 ? "" : "_wide";
    return has_room(context, "sm80_prefill_d256_tall_f16") ? "_tall" : "";
}

/* A variant that looks for less than what the plain one takes, or has other blocks. */
static void name_special(const fc_kernel *kernel, const fc_plan *plan, const attention_args *args,
                         char name[VARIANT_BYTES])
{
    const fc_attention *p = &plan->problem;
    name[0] = 0;
    if (p->scale < 0 || args->packed_heads.divisor > 1)
        return;
    if (kernel == &fc_sm80_prefill)
        snprintf(name, VARIANT_BYTES, "%s%s", large_blocks(plan->context, p),
                 prefill_sees_all(p)     ? "_all"
                 : prefill_sees_first(p) ? "_causal"
                                         : "");
    else if (fc_cuda_is_dense(p))
        snprintf(name, VARIANT_BYTES, "%s", one_round(plan->context, p));
}

static fc_status find_functions(const fc_kernel *kernel, const fc_plan *plan, fc_sm80_plan *s)
{
    const fc_attention *p = &plan->problem;
    char special[VARIANT_BYTES], name[2 * VARIANT_BYTES];
    name_special(kernel, plan, &s->args, special);
    for (int full = is_plain(p) ? 0 : 1; full < 2; full++) {
        snprintf(name, sizeof name, "%s_d%d%s_%s%s", kernel->name, dim_of_variant(p),
                 full ? "" : special, fc_type_name(p->q_type), full ? "_full" : "");
        FC_TRY(fc_cuda_find_kernel(plan, name, full ? &s->full : &s->plain));
    }
    return s->args.splits.divisor > 1 ? fc_cuda_find_kernel(plan, "sm80_merge", &s->merge) : FC_OK;
}

bool fc_sm80_has_one_wave(const fc_context *context, const fc_attention *p)
{
    return blocks_of(p, packed_heads(p, LATENCY_ROWS), LATENCY_ROWS) <=
           context->cuda->multiprocessors;
}

/* Splits that give every multiprocessor a block. It is asked for the workspace before there is a
 * plan, and again for the plan. */
static void split_keys(const fc_context *context, const fc_attention *p, attention_args *args)
{
    const int64_t blocks = blocks_of(p, args->packed_heads.divisor, LATENCY_ROWS);
    int64_t splits = blocks > 0 ? context->cuda->multiprocessors / blocks : 1;
    if (splits > p->kv_length / LEAST_SPLIT_KEYS)
        splits = p->kv_length / LEAST_SPLIT_KEYS;
    if (p->batch_invariant)
        splits = fc_divide_up(p->kv_length, INVARIANT_SPLIT_KEYS);
    if (splits > ARGS_MOST_SPLITS)
        splits = ARGS_MOST_SPLITS;
    if (splits < 2)
        return;
    const int64_t keys = fc_divide_up(fc_divide_up(p->kv_length, splits), SPLIT_STEP) * SPLIT_STEP;
    args->keys_per_split = (int)keys;
    args->splits = fc_cuda_divisor(fc_divide_up(p->kv_length, keys));
}

static attention_args latency_arguments(const fc_context *context, const fc_attention *p)
{
    attention_args args = fc_cuda_arguments(p);
    args.packed_heads = fc_cuda_divisor(packed_heads(p, LATENCY_ROWS));
    split_keys(context, p, &args);
    return args;
}

static attention_args prefill_arguments(const fc_attention *p)
{
    enum { WIDEST_SLICE = 128 }; /* value dims of a block of the variant for large dims */
    attention_args args = fc_cuda_arguments(p);
    args.packed_heads = fc_cuda_divisor(packed_heads(p, PREFILL_ROWS));
    if (fc_cuda_larger_dim(p) > 256)
        args.more.value_slices = fc_cuda_divisor(fc_divide_up(p->value_dim, WIDEST_SLICE));
    return args;
}

/* ---- Plans ---- */

/* Each split leaves a row's output and its logarithm of the sum. */
static size_t latency_workspace(const fc_kernel *self, const fc_context *context,
                                const fc_attention *p)
{
    (void)self;
    const attention_args args = latency_arguments(context, p);
    return args.splits.divisor > 1 ? fc_cuda_partial_bytes(&args) : 0;
}

static fc_status prepare_latency_plan(const fc_plan *plan, fc_sm80_plan *s)
{
    s->args = latency_arguments(plan->context, &plan->problem);
    return find_functions(&fc_sm80_latency, plan, s);
}

fc_status fc_sm80_prepare_prefill(const fc_plan *plan, fc_sm80_plan *s)
{
    s->args = prefill_arguments(&plan->problem);
    return find_functions(&fc_sm80_prefill, plan, s);
}

static fc_status prepare(const fc_kernel *self, const fc_plan *plan, void **prepared)
{
    fc_sm80_plan *s = calloc(1, sizeof *s);
    if (!s)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a plan");
    const fc_status status =
        self == &fc_sm80_latency ? prepare_latency_plan(plan, s) : fc_sm80_prepare_prefill(plan, s);
    if (status == FC_OK)
        *prepared = s;
    else
        free(s);
    return status;
}

/* ---- Runs ---- */

/* Blocks of a sequence stand together, so that the L2 cache holds its keys. Where its rows see
 * different numbers of them, so do as many sequences as the GPU has room for: of fewer, long blocks
 * would be left for the end. */
static int64_t sequences_of_group(const fc_attention *p, const fc_cuda_function *function,
                                  int64_t blocks)
{
    const bool all_alike = !fc_cuda_ends_with_row(p);
    return all_alike || function->blocks_at_once < blocks ? 1 : function->blocks_at_once / blocks;
}

/* blocks: of a sequence. */
static fc_status launch_groups(const fc_plan *plan, const fc_cuda_function *function,
                               attention_args *args, int64_t blocks, fc_stream stream)
{
    const int64_t head_groups = plan->problem.q_heads / args->packed_heads.divisor;
    const int64_t sequences = plan->problem.batch * head_groups;
    int64_t groups = fc_divide_up(sequences, sequences_of_group(&plan->problem, function, blocks));
    if (groups > MOST_GRID_YZ)
        groups = MOST_GRID_YZ;
    const int64_t together = fc_divide_up(sequences, groups);
    args->head_groups = fc_cuda_divisor(head_groups);
    args->sequences = fc_cuda_divisor(together);
    const fc_cuda_launch one = {
        .function = function,
        .grid = {(unsigned)(blocks * together), (unsigned)fc_divide_up(sequences, together), 1},
        .args = args,
    };
    return fc_cuda_run(plan->context->cuda, &one, stream);
}

/* A grid holds so many sequences; more of them take more launches. */
static fc_status launch_tiles(const fc_plan *plan, const fc_cuda_function *function,
                              attention_args *args, int64_t blocks_x, int64_t blocks_y,
                              fc_stream stream)
{
    const int64_t batch = plan->problem.batch;
    for (int64_t first = 0; first < batch; first += MOST_GRID_YZ) {
        const int64_t left = batch - first;
        args->first_batch = (int)first;
        const fc_cuda_launch one = {
            .function = function,
            .grid = {(unsigned)blocks_x, (unsigned)blocks_y,
                     (unsigned)(left < MOST_GRID_YZ ? left : MOST_GRID_YZ)},
            .args = args,
        };
        FC_TRY(fc_cuda_run(plan->context->cuda, &one, stream));
    }
    return FC_OK;
}

fc_status fc_sm80_run(const fc_plan *plan, const fc_sm80_plan *s, const fc_buffers *b,
                      fc_stream stream)
{
    const fc_attention *p = &plan->problem;
    if (p->batch == 0 || p->q_length == 0)
        return FC_OK;
    attention_args args = s->args;
    fc_cuda_set_pointers(&args, b);
    const bool inputs_aligned =
        fc_cuda_is_aligned(b->q) && fc_cuda_is_aligned(b->k) && fc_cuda_is_aligned(b->v);
    const bool plain = s->plain && inputs_aligned && fc_cuda_is_aligned(b->out);
    const fc_cuda_function *function = plain ? s->plain : s->full;
    args.more.vector_loads = inputs_aligned && fc_cuda_reads_in_chunks(p);
    args.more.vector_stores = args.more.vector_stores && fc_cuda_is_aligned(b->out);
    const int64_t packed = args.packed_heads.divisor;
    const int64_t tiles = fc_divide_up(p->q_length * packed, function->shape.query_tile);
    if (function->shape.grid == GRID_GROUPS)
        return launch_groups(plan, function, &args, tiles * args.more.value_slices.divisor, stream);
    FC_TRY(launch_tiles(plan, function, &args, tiles * args.splits.divisor, p->q_heads / packed,
                        stream));
    return s->merge ? launch_tiles(plan, s->merge, &args,
                                   fc_divide_up(p->q_length, s->merge->shape.query_tile),
                                   p->q_heads, stream)
                    : FC_OK;
}

static fc_status run(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                     fc_stream stream)
{
    (void)g;
    return fc_sm80_run(plan, plan->prepared[FC_FORWARD], b, stream);
}

const fc_kernel fc_sm80_prefill = {
    .name = "sm80_prefill",
    .summary = "tensor cores of sm_80 and newer, many query rows, every feature",
    .direction = FC_FORWARD,
    .accepts = accepts,
    .prepare = prepare,
    .run = run,
};

const fc_kernel fc_sm80_latency = {
    .name = "sm80_latency",
    .summary = "tensor cores of sm_80 and newer, few query rows, the keys split over warps",
    .direction = FC_FORWARD,
    .accepts = accepts_latency,
    .suits = latency_suits,
    .workspace_bytes = latency_workspace,
    .prepare = prepare,
    .run = run,
};
