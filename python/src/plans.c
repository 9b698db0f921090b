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
static size_t latest_slot; /* whose plan the latest call had; the next one mostly has it, too */
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

/* Four sums that do not wait for each other: 0.15 us less than one, on a Neoverse-N1. */
static size_t first_slot(const fc_attention *problem)
{
    enum { WORDS = sizeof *problem / sizeof(uint64_t), LANES = 4 };
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t words[WORDS], sums[LANES] = {0}, hash = 0;
    memcpy(words, problem, sizeof words);
    size_t at = 0;
    for (; at + LANES <= WORDS; at += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] = (sums[lane] ^ words[at + lane]) * odd;
    for (; at < WORDS; at++)
        sums[0] = (sums[0] ^ words[at]) * odd;
    for (size_t lane = 0; lane < LANES; lane++)
        hash = (hash ^ sums[lane] ^ sums[lane] >> 32) * odd;
    return (hash >> 32) % (SLOTS / WAYS) * WAYS;
}

static bool is_plan_for(const cached_plan *plan, dl_device device, const fc_attention *problem)
{
    return plan && plan->device.type == device.type && plan->device.index == device.index &&
           memcmp(&plan->problem, problem, sizeof *problem) == 0;
}

static cached_plan *find_in_slots(size_t first, dl_device device, const fc_attention *problem)
{
    for (size_t slot = first; slot < first + WAYS; slot++)
        if (is_plan_for(slots[slot], device, problem)) {
            latest_slot = slot;
            return slots[slot];
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

cached_plan *plan_find(dl_device device, const fc_attention *problem)
{
    pthread_mutex_lock(&lock);
    cached_plan *found = slots[latest_slot];
    if (!is_plan_for(found, device, problem))
        found = find_in_slots(first_slot(problem), device, problem);
    if (found)
        found->users++;
    pthread_mutex_unlock(&lock);
    return found;
}

fc_status plan_take(dl_device device, const fc_attention *problem, cached_plan **taken)
{
    *taken = plan_find(device, problem);
    if (*taken)
        return FC_OK;
    fc_context *context;
    fc_plan *plan;
    fc_status status = context_of(device, &context);
    if (status == FC_OK)
        status = fc_plan_create(context, problem, &plan);
    if (status != FC_OK)
        return status;
    cached_plan *made = calloc(1, sizeof *made);
    if (!made) {
        fc_plan_destroy(plan);
        return FC_ERROR_MEMORY;
    }
    *made = (cached_plan){.problem = *problem, .device = device, .plan = plan, .users = 1};
    const size_t first = first_slot(problem);
    pthread_mutex_lock(&lock);
    if (!find_in_slots(first, device, problem))
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
