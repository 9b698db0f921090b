/* attend.c: fc_attend, the one-line form, with the context's cache of plans and the workspaces that
 * a CPU context lends. */
#include "core/internal.h"

#include <stdlib.h>

enum { CACHED_PLANS = 64 };

struct fc_plan_cache {
    fc_plan *plans[CACHED_PLANS];
    int next_victim;
};

struct fc_lent_block {
    struct fc_lent_block *next;
    void *memory;
    size_t bytes;
    bool in_use;
};

static fc_plan *find_plan(const struct fc_plan_cache *cache, const fc_attention *request)
{
    for (int i = 0; cache && i < CACHED_PLANS && cache->plans[i]; i++)
        if (memcmp(&cache->plans[i]->request, request, sizeof *request) == 0)
            return cache->plans[i];
    return NULL;
}

/* The cache holds a reference of its own; a plan that is thrown out lives on until its last user
 * lets go of it. */
static void keep_plan(fc_context *context, fc_plan *plan)
{
    if (!context->cache)
        context->cache = calloc(1, sizeof *context->cache);
    if (!context->cache)
        return; /* works without, only slower */
    fc_plan **slot = &context->cache->plans[context->cache->next_victim];
    context->cache->next_victim = (context->cache->next_victim + 1) % CACHED_PLANS;
    fc_plan_destroy(*slot);
    atomic_fetch_add(&plan->references, 1);
    *slot = plan;
}

/* The caller gets a reference, to be given back with fc_plan_destroy. */
static fc_status take_plan(fc_context *context, const fc_attention *problem, fc_plan **plan)
{
    fc_attention request;
    FC_TRY(fc_read_attention(problem, &request));
    pthread_mutex_lock(&context->lock);
    *plan = find_plan(context->cache, &request);
    if (*plan)
        atomic_fetch_add(&(*plan)->references, 1);
    pthread_mutex_unlock(&context->lock);
    if (*plan)
        return FC_OK;

    FC_TRY(fc_plan_create(context, &request, plan));
    pthread_mutex_lock(&context->lock);
    if (!find_plan(context->cache, &request))
        keep_plan(context, *plan);
    pthread_mutex_unlock(&context->lock);
    return FC_OK;
}

static struct fc_lent_block *find_free_block(fc_context *context, size_t bytes)
{
    struct fc_lent_block *best = NULL;
    for (struct fc_lent_block *block = context->lent; block; block = block->next)
        if (!block->in_use && block->bytes >= bytes && (!best || block->bytes < best->bytes))
            best = block;
    return best;
}

/* A block is found in the steady state, and made the first time. Two calls at once get two. */
static struct fc_lent_block *lend(fc_context *context, size_t bytes)
{
    pthread_mutex_lock(&context->lock);
    struct fc_lent_block *block = find_free_block(context, bytes);
    if (block)
        block->in_use = true;
    pthread_mutex_unlock(&context->lock);
    if (block)
        return block;

    const size_t aligned =
        (bytes + FC_WORKSPACE_ALIGNMENT - 1) & ~(size_t)(FC_WORKSPACE_ALIGNMENT - 1);
    block = calloc(1, sizeof *block);
    void *memory = aligned >= bytes ? aligned_alloc(FC_WORKSPACE_ALIGNMENT, aligned) : NULL;
    if (!block || !memory) {
        free(block);
        free(memory);
        return NULL;
    }
    *block = (struct fc_lent_block){.memory = memory, .bytes = aligned, .in_use = true};
    pthread_mutex_lock(&context->lock);
    block->next = context->lent;
    context->lent = block;
    pthread_mutex_unlock(&context->lock);
    return block;
}

static void give_back(fc_context *context, struct fc_lent_block *block)
{
    pthread_mutex_lock(&context->lock);
    block->in_use = false;
    pthread_mutex_unlock(&context->lock);
}

static fc_status forward_with_lent_workspace(fc_context *context, const fc_plan *plan,
                                             const fc_buffers *buffers, fc_stream stream)
{
    fc_buffers read;
    FC_TRY(fc_read_buffers(buffers, &read));
    const size_t bytes = plan->workspace_bytes[FC_FORWARD];
    if (read.workspace || bytes == 0 || context->device_type != FC_CPU)
        return fc_plan_forward(plan, &read, stream);
    struct fc_lent_block *block = lend(context, bytes);
    if (!block)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a workspace of %zu bytes", bytes);
    read.workspace = block->memory;
    read.workspace_bytes = block->bytes;
    const fc_status status = fc_plan_forward(plan, &read, stream);
    give_back(context, block);
    return status;
}

fc_status fc_attend(fc_context *context, const fc_attention *problem, const fc_buffers *buffers,
                    fc_stream stream)
{
    FC_REQUIRE(context, "context is NULL");
    fc_plan *plan;
    FC_TRY(take_plan(context, problem, &plan));
    const fc_status status = forward_with_lent_workspace(context, plan, buffers, stream);
    fc_plan_destroy(plan);
    return status;
}

void fc_release_cache(fc_context *context)
{
    for (int i = 0; context->cache && i < CACHED_PLANS; i++)
        fc_plan_destroy(context->cache->plans[i]);
    free(context->cache);
    while (context->lent) {
        struct fc_lent_block *block = context->lent;
        context->lent = block->next;
        free(block->memory);
        free(block);
    }
}
