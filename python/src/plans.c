/* plans.c: contexts, plans and CPU workspaces, kept from call to call. */
#include "plans.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64, SLOTS = 512, WAYS = 4, KEPT_WORKSPACES = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fc_context *cpu_context, *cuda_contexts[MOST_DEVICES];
static cached_plan *slots[SLOTS];
static int next_way;
static workspace *idle_workspaces;
static int idle_count;
static bool forked_with_threads;

/* A forked child has none of the parent's OpenMP threads and maybe a half-done update of what lies
 * here: it begins anew, and on one thread, because the OpenMP runtime still counts on those. */
static void begin_anew(void)
{
    pthread_mutex_init(&lock, NULL);
    forked_with_threads = forked_with_threads || cpu_context;
    cpu_context = NULL;
    memset(cuda_contexts, 0, sizeof cuda_contexts);
    memset(slots, 0, sizeof slots);
    idle_workspaces = NULL;
    idle_count = 0;
}

int plans_prepare(void)
{
    static bool done;
    const int failed = done ? 0 : pthread_atfork(NULL, NULL, begin_anew);
    done = !failed;
    return failed;
}

fc_status context_of(dl_device device, fc_context **context)
{
    fc_context **kept = &cpu_context;
    fc_context_options options = fc_context_options_init();
    options.device_type = FC_CPU;
    options.threads = forked_with_threads ? 1 : 0;
    if (device.type != DL_CPU) {
        options.device_type = device.type == DL_CUDA ? FC_CUDA : -1; /* refused with a sentence */
        options.device_index = device.index;
        options.threads = 0;
        kept =
            device.index >= 0 && device.index < MOST_DEVICES ? &cuda_contexts[device.index] : NULL;
    }
    pthread_mutex_lock(&lock);
    *context = kept ? *kept : NULL;
    fc_status status = FC_OK;
    if (!*context) {
        status = fc_context_create(&options, context);
        if (status == FC_OK && kept)
            *kept = *context;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static size_t first_slot(const fc_attention *problem)
{
    uint64_t hash = 0;
    const char *bytes = (const char *)problem;
    for (size_t at = 0; at + sizeof hash <= sizeof *problem; at += sizeof hash) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash % (SLOTS / WAYS) * WAYS;
}

static cached_plan *find_plan(size_t first, const fc_context *context, const fc_attention *problem)
{
    for (size_t way = 0; way < WAYS; way++) {
        cached_plan *plan = slots[first + way];
        if (plan && plan->context == context &&
            memcmp(&plan->problem, problem, sizeof *problem) == 0)
            return plan;
    }
    return NULL;
}

static void free_plan(cached_plan *plan)
{
    fc_plan_destroy(plan->plan);
    free(plan);
}

static void keep_plan(size_t first, cached_plan *plan)
{
    size_t way = 0;
    while (way < WAYS && slots[first + way])
        way++;
    if (way == WAYS)
        way = (size_t)(next_way++ % WAYS);
    cached_plan *old = slots[first + way];
    if (old) {
        old->in_cache = false;
        if (old->users == 0)
            free_plan(old);
    }
    plan->in_cache = true;
    slots[first + way] = plan;
}

fc_status plan_take(fc_context *context, const fc_attention *problem, cached_plan **taken)
{
    const size_t first = first_slot(problem);
    pthread_mutex_lock(&lock);
    *taken = find_plan(first, context, problem);
    if (*taken)
        (*taken)->users++;
    pthread_mutex_unlock(&lock);
    if (*taken)
        return FC_OK;

    fc_plan *plan;
    const fc_status status = fc_plan_create(context, problem, &plan);
    if (status != FC_OK)
        return status;
    cached_plan *made = calloc(1, sizeof *made);
    if (!made) {
        fc_plan_destroy(plan);
        return FC_ERROR_MEMORY;
    }
    *made = (cached_plan){.problem = *problem, .context = context, .plan = plan, .users = 1};
    pthread_mutex_lock(&lock);
    if (!find_plan(first, context, problem))
        keep_plan(first, made);
    pthread_mutex_unlock(&lock);
    *taken = made;
    return FC_OK;
}

void plan_release(cached_plan *taken)
{
    pthread_mutex_lock(&lock);
    const bool last = --taken->users == 0 && !taken->in_cache;
    pthread_mutex_unlock(&lock);
    if (last)
        free_plan(taken);
}

static workspace *take_idle(size_t bytes)
{
    workspace **best = NULL;
    for (workspace **at = &idle_workspaces; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    workspace *found = best ? *best : NULL;
    if (found) {
        *best = found->next;
        idle_count--;
    }
    return found;
}

workspace *workspace_take(size_t bytes)
{
    pthread_mutex_lock(&lock);
    workspace *found = take_idle(bytes);
    pthread_mutex_unlock(&lock);
    if (found)
        return found;
    const size_t unit = FC_WORKSPACE_ALIGNMENT;
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    workspace *made = calloc(1, sizeof *made);
    void *memory = made ? aligned_alloc(unit, rounded) : NULL;
    if (!memory) {
        free(made);
        return NULL;
    }
    made->memory = memory;
    made->bytes = rounded;
    return made;
}

void workspace_release(workspace *taken)
{
    pthread_mutex_lock(&lock);
    const bool keep = idle_count < KEPT_WORKSPACES;
    if (keep) {
        taken->next = idle_workspaces;
        idle_workspaces = taken;
        idle_count++;
    }
    pthread_mutex_unlock(&lock);
    if (!keep) {
        free(taken->memory);
        free(taken);
    }
}
