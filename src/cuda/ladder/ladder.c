/* ladder.c: the host side of every rung: what it accepts, its workspace, its launches. */
#include "cuda/ladder/ladder.h"

#include "core/convert.h"
#include "cuda/device.h"
#include "cuda/ladder/ladder_args.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_LAUNCHES = 3, MOST_GRID_YZ = 65535 };

typedef struct ladder_rung {
    const char *suffixes[MOST_LAUNCHES]; /* of the kernels' names, in the order of the launches */
    int launch_count;
    bool quantised; /* FP8 inputs; all others take f16 */
    size_t (*workspace_bytes)(const fc_attention *problem);
} ladder_rung;

typedef struct ladder_plan {
    const fc_cuda_function *functions[MOST_LAUNCHES];
} ladder_plan;

static const ladder_rung *rung_of(const fc_kernel *kernel)
{
    return kernel->data;
}

static bool is_dense(const fc_attention *p, fc_tensor tensor)
{
    const fc_layout layout = fc_tensor_layout(p, tensor);
    int64_t expected = 1;
    for (int axis = 3; axis >= 0; axis--) {
        if (layout.sizes[axis] > 1 && layout.strides[axis] != expected)
            return false;
        expected *= layout.sizes[axis];
    }
    return true;
}

static const char *refuse_features(const fc_attention *p)
{
    if (p->window_left >= 0 || p->window_right >= 0)
        return "the ladder has no causal or window limits";
    if (p->softcap > 0 || p->has_alibi || p->has_bias || p->has_mask || p->has_sinks)
        return "the ladder has no softcap, ALiBi, bias, mask or sinks";
    if (p->dropout_p > 0)
        return "the ladder has no dropout";
    if (p->packed_q || p->packed_kv || p->paged || p->has_kv_lengths)
        return "the ladder takes plain batches: not packed, not paged, all of one length";
    return NULL;
}

static const char *refuse_types(const ladder_rung *rung, const fc_attention *p)
{
    if (rung->quantised && !fc_type_is_f8(p->q_type))
        return fc_refuse("q_type = %s; this rung takes FP8", fc_type_name(p->q_type));
    if (!rung->quantised && p->q_type != FC_F16)
        return fc_refuse("q_type = %s; this rung takes f16", fc_type_name(p->q_type));
    if (p->kv_type != p->q_type)
        return fc_refuse("kv_type = %s is not q_type = %s", fc_type_name(p->kv_type),
                         fc_type_name(p->q_type));
    if (p->out_type != FC_F16)
        return fc_refuse("out_type = %s; the ladder writes f16", fc_type_name(p->out_type));
    if (p->q_scaling.block || p->k_scaling.block || p->v_scaling.block)
        return "scales per block; the ladder has them per tensor or head";
    return NULL;
}

static const char *refuse_sizes(const fc_attention *p)
{
    if (p->head_dim != p->value_dim || (p->head_dim != 64 && p->head_dim != 128))
        return fc_refuse("head_dim = " I64 ", value_dim = " I64 "; the ladder has 64 and 128",
                         p->head_dim, p->value_dim);
    if (p->q_heads > MOST_GRID_YZ || p->batch > MOST_GRID_YZ / 8)
        return fc_refuse("batch = " I64 ", q_heads = " I64 " are too many for one grid", p->batch,
                         p->q_heads);
    for (fc_tensor tensor = FC_TENSOR_Q; tensor <= FC_TENSOR_LSE; tensor++)
        if (!is_dense(p, tensor))
            return fc_refuse("%s is not dense [batch][head][row][dim]",
                             fc_tensor_layout(p, tensor).name);
    return NULL;
}

static const char *accepts(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    if (!context->cuda)
        return "it runs on CUDA devices";
    if (context->cuda->compute_capability < 80)
        return fc_refuse("compute capability %d.%d; it needs 8.0",
                         context->cuda->compute_capability / 10,
                         context->cuda->compute_capability % 10);
    const char *reason = refuse_types(rung_of(self), p);
    if (!reason)
        reason = refuse_features(p);
    return reason ? reason : refuse_sizes(p);
}

/* One split a 256 keys, 8 at most: it depends on the keys alone, so that a row's bits depend on
 * nothing else. */
static int split_count(const fc_attention *p)
{
    const int64_t wanted = (p->kv_length + 255) / 256;
    return wanted < 1 ? 1 : wanted > 8 ? 8 : (int)wanted;
}

static size_t no_workspace(const fc_attention *p)
{
    (void)p;
    return 0;
}

static size_t query_rows(const fc_attention *p)
{
    return (size_t)p->batch * (size_t)p->q_heads * (size_t)p->q_length;
}

static size_t scores_workspace(const fc_attention *p)
{
    return query_rows(p) * (size_t)p->kv_length * sizeof(float);
}

/* Each split leaves a row's output, maximum and sum. */
static size_t partials_workspace(const fc_attention *p)
{
    return query_rows(p) * (size_t)split_count(p) * ((size_t)p->head_dim + 2) * sizeof(float);
}

static size_t workspace_bytes(const fc_kernel *self, const fc_context *context,
                              const fc_attention *p)
{
    (void)context;
    return rung_of(self)->workspace_bytes(p);
}

void fc_ladder_variant_name(const fc_kernel *kernel, const fc_attention *p,
                            char name[FC_LADDER_VARIANT_BYTES])
{
    const char *element = !rung_of(kernel)->quantised ? ""
                          : p->q_type == FC_F8_E4M3   ? "_e4m3"
                                                      : "_e5m2";
    snprintf(name, FC_LADDER_VARIANT_BYTES, "%s%s_d%d", kernel->name, element, (int)p->head_dim);
}

static fc_status find_functions(const fc_kernel *kernel, const fc_plan *plan, ladder_plan *l)
{
    fc_cuda_device *device = plan->context->cuda;
    const ladder_rung *rung = rung_of(kernel);
    char name[FC_LADDER_VARIANT_BYTES], function_name[2 * FC_LADDER_VARIANT_BYTES];
    fc_ladder_variant_name(kernel, &plan->problem, name);
    const fc_cuda_variant *variant = fc_cuda_find_variant(name);
    if (!variant)
        return fc_fail(FC_ERROR_UNSUPPORTED, "this library was built without kernel %s", name);
    for (int i = 0; i < rung->launch_count; i++) {
        snprintf(function_name, sizeof function_name, "%s%s", name, rung->suffixes[i]);
        FC_TRY(fc_cuda_find_function(device, variant, function_name, &l->functions[i]));
    }
    return FC_OK;
}

static fc_status prepare(const fc_kernel *self, const fc_plan *plan, void **prepared)
{
    ladder_plan *l = calloc(1, sizeof *l);
    if (!l)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a plan");
    const fc_status status = find_functions(self, plan, l);
    if (status == FC_OK)
        *prepared = l;
    else
        free(l);
    return status;
}

static fc_status check_alignment(const fc_buffers *b)
{
    const struct {
        const char *name;
        const void *pointer;
    } tensors[] = {{"q", b->q}, {"k", b->k}, {"v", b->v}, {"out", b->out}};
    for (int i = 0; i < 4; i++)
        FC_REQUIRE((uintptr_t)tensors[i].pointer % 16 == 0,
                   "%s = %p is not aligned to the 16 bytes that the ladder's kernels load at once",
                   tensors[i].name, tensors[i].pointer);
    return FC_OK;
}

static int splits_of(const fc_attention *p, const ladder_plan *l)
{
    return l->functions[0]->shape.grid == GRID_SPLITS ? split_count(p) : 1;
}

static ladder_args arguments(const fc_attention *p, const fc_buffers *b, const ladder_plan *l)
{
    return (ladder_args){
        .q = b->q,
        .k = b->k,
        .v = b->v,
        .out = b->out,
        .lse = b->lse,
        .workspace = b->workspace,
        .q_scale = b->q_scale,
        .k_scale = b->k_scale,
        .v_scale = b->v_scale,
        .q_scale_batch = (int)p->q_scaling.batch,
        .q_scale_head = (int)p->q_scaling.head,
        .k_scale_batch = (int)p->k_scaling.batch,
        .k_scale_head = (int)p->k_scaling.head,
        .v_scale_batch = (int)p->v_scaling.batch,
        .v_scale_head = (int)p->v_scaling.head,
        .batch = (int)p->batch,
        .q_heads = (int)p->q_heads,
        .kv_heads = (int)p->kv_heads,
        .q_length = (int)p->q_length,
        .kv_length = (int)p->kv_length,
        .splits = splits_of(p, l),
        .scale = p->scale,
    };
}

static void set_grid(fc_cuda_launch *launch, const fc_attention *p)
{
    const int grid = launch->function->shape.grid;
    const int64_t tile = launch->function->shape.query_tile;
    const int64_t tiles = (p->q_length + tile - 1) / tile;
    const int64_t all_tiles = tiles * p->q_heads * p->batch;
    launch->grid[0] = (unsigned)tiles;
    launch->grid[1] = (unsigned)p->q_heads;
    launch->grid[2] = (unsigned)(p->batch * (grid == GRID_SPLITS ? split_count(p) : 1));
    if (grid == GRID_RESIDENT) {
        const int64_t at_once = launch->function->blocks_at_once;
        launch->grid[0] = (unsigned)(all_tiles < at_once ? all_tiles : at_once);
        launch->grid[1] = launch->grid[2] = 1;
    }
}

static fc_status run(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                     fc_stream stream)
{
    (void)g;
    const fc_attention *p = &plan->problem;
    const ladder_rung *rung = rung_of(plan->kernels[FC_FORWARD]);
    const ladder_plan *l = plan->prepared[FC_FORWARD];
    if (p->batch == 0 || p->q_length == 0)
        return FC_OK;
    FC_TRY(check_alignment(b));
    const ladder_args args = arguments(p, b, l);
    for (int i = 0; i < rung->launch_count; i++) {
        fc_cuda_launch launch = {.function = l->functions[i], .args = &args};
        set_grid(&launch, p);
        FC_TRY(fc_cuda_run(plan->context->cuda, &launch, stream));
    }
    return FC_OK;
}

void fc_ladder_read_facts(const fc_plan *plan, fc_ladder_facts *facts)
{
    const ladder_rung *rung = rung_of(plan->kernels[FC_FORWARD]);
    const ladder_plan *l = plan->prepared[FC_FORWARD];
    *facts = (fc_ladder_facts){.blocks_a_multiprocessor = INT32_MAX};
    for (int i = 0; i < rung->launch_count; i++) {
        const fc_cuda_function *f = l->functions[i];
        const int shared_bytes = f->static_shared_bytes + f->shape.shared_bytes;
        const int blocks = f->blocks_at_once / plan->context->cuda->multiprocessors;
        if (f->registers > facts->registers)
            facts->registers = f->registers;
        if (shared_bytes > facts->shared_bytes)
            facts->shared_bytes = shared_bytes;
        if (blocks < facts->blocks_a_multiprocessor)
            facts->blocks_a_multiprocessor = blocks;
    }
}

static const ladder_rung plain = {
    .suffixes = {""}, .launch_count = 1, .workspace_bytes = no_workspace};

static const ladder_rung unfused = {
    .suffixes = {"_scores", "_softmax", "_values"},
    .launch_count = 3,
    .workspace_bytes = scores_workspace,
};

static const ladder_rung split_keys = {
    .suffixes = {"", "_merge"},
    .launch_count = 2,
    .workspace_bytes = partials_workspace,
};

static const ladder_rung quantised = {
    .suffixes = {""}, .launch_count = 1, .quantised = true, .workspace_bytes = no_workspace};

#define DEFINE_RUNG(rung_name, how, base, text) \
    const fc_kernel fc_ladder_##rung_name = {   \
        .name = "ladder_" #rung_name,           \
        .summary = text,                        \
        .direction = FC_FORWARD,                \
        .accepts = accepts,                     \
        .workspace_bytes = workspace_bytes,     \
        .prepare = prepare,                     \
        .run = run,                             \
        .data = &(how),                         \
    };
FC_LADDER_RUNGS(DEFINE_RUNG)

#define ADDRESS_OF_RUNG(rung_name, how, base, text) &fc_ladder_##rung_name,
const fc_kernel *const fc_ladder[FC_LADDER_RUNG_COUNT] = {FC_LADDER_RUNGS(ADDRESS_OF_RUNG)};

#define ADDRESS_OF_BASE(rung_name, how, base, text) &fc_ladder_##base,
const fc_kernel *const fc_ladder_bases[FC_LADDER_RUNG_COUNT] = {FC_LADDER_RUNGS(ADDRESS_OF_BASE)};
