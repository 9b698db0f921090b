/* bulk.c: cp.async.bulk and its kin. A copy to shared memory completes when no thread can go on
 * without it, or with a seed at some moment before; a store when it is waited for. */
#include "access.h"
#include "async.h"
#include "device.h"
#include "memory.h"
#include "tensor_map.h"

#include <stdlib.h>
#include <string.h>

typedef enum bulk_kind { BULK_ROW, BULK_BOX, BULK_WORDS } bulk_kind;

struct emu_bulk {
    emu_bulk *next;
    bulk_kind kind;
    bool loads;
    emu_fiber *by;
    uintptr_t pc;
    unsigned char *shared;
    emu_block *block;
    size_t offset;
    unsigned bytes;
    emu_mbarrier *barrier;       /* of a load */
    uint32_t group;              /* of a store */
    const unsigned char *global; /* of a row */
    emu_uint4 words;
    emu_tensor_map map;
    int coordinates[EMU_TENSOR_DIMS];
};

static void __attribute__((noreturn)) report(emu_fiber *self, const char *what, uintptr_t pc)
{
    char text[96];
    emu_describe_thread(self, text);
    emu_fail(self->machine, "bulk copy: %s %s (\001%c)", text, what,
             emu_place_mark(emu_add_place(self->machine, pc)));
}

/* 1. Starting. */

static emu_bulk *enqueue(emu_bulk copy)
{
    emu_machine *machine = copy.by->machine;
    emu_bulk *queued = malloc(sizeof *queued);
    if (!queued)
        abort();
    emu_check_shared(copy.by, copy.shared, copy.bytes, copy.loads, EMU_IN_FLIGHT | EMU_PROXY,
                     copy.pc);
    emu_find_shared(machine, copy.shared, copy.bytes, &copy.block, &copy.offset);
    *queued = copy;
    queued->next = NULL;
    emu_bulk **end = &machine->bulk;
    while (*end)
        end = &(*end)->next;
    *end = queued;
    machine->counts.totals.bulk_copies++;
    return queued;
}

/* Where `shared` of this block lies in another of the cluster. */
static void *in_block(const emu_fiber *self, unsigned rank, const void *shared)
{
    return self->machine->blocks[rank].shared +
           ((uintptr_t)shared - (uintptr_t)self->block->shared);
}

void emu_bulk_load(void *shared, const void *global, int bytes, void *barrier)
{
    emu_fiber *self = emu_self;
    const uintptr_t pc = EMU_CALLER;
    emu_open_memory open;
    if (bytes <= 0 || bytes % 16 || (uintptr_t)global % 16 || (uintptr_t)shared % 16)
        report(self, "copies bytes that are no multiples of 16, aligned to 16", pc);
    if (!emu_memory_find(global, (size_t)bytes, &open))
        emu_fail_access(self, "out of bounds", global, (unsigned)bytes, false, pc);
    for (int i = 0; i < bytes; i += 16)
        emu_check_global(self, (const unsigned char *)global + i, 16, false, 0, pc);
    self->machine->counts.totals.bulk_bytes += (unsigned)bytes;
    enqueue((emu_bulk){.kind = BULK_ROW,
                       .loads = true,
                       .by = self,
                       .pc = pc,
                       .shared = shared,
                       .bytes = (unsigned)bytes,
                       .barrier = emu_mbarrier_find(self, barrier, pc),
                       .global = global});
}

static const emu_tensor_map *map_of(emu_fiber *self, const void *bytes, uintptr_t pc)
{
    const emu_tensor_map *map = emu_tensor_map_of(bytes);
    if (!map || map->dims != 4)
        report(self, "takes what is no map of four dimensions", pc);
    return map;
}

/* It changes nothing but when loads arrive, which is as late as allowed anyway. */
void emu_prefetch_tensor_map(const void *map)
{
    map_of(emu_self, map, EMU_CALLER);
}

static emu_bulk box_of(emu_fiber *self, const void *bytes, const void *shared, const int *at,
                       uintptr_t pc)
{
    const emu_tensor_map *map = map_of(self, bytes, pc);
    emu_open_memory open;
    if ((uintptr_t)shared % 128)
        report(self, "has a box in shared memory that is not aligned to 128 bytes", pc);
    size_t extent = map->element_bytes;
    for (int i = 0; i < map->dims; i++)
        extent += (map->sizes[i] - 1) * map->strides[i];
    if (!emu_memory_find(map->memory, extent, &open))
        report(self, "has a map of memory that is not, or not all, the device's", pc);
    emu_bulk copy = {.kind = BULK_BOX,
                     .by = self,
                     .pc = pc,
                     .shared = (unsigned char *)(uintptr_t)shared,
                     .bytes = (unsigned)emu_box_bytes(map),
                     .map = *map};
    memcpy(copy.coordinates, at, 4 * sizeof *at);
    return copy;
}

static void check_and_count(void *element, void *user)
{
    const emu_bulk *copy = user;
    emu_check_global(copy->by, element, copy->map.element_bytes, !copy->loads, 0, copy->pc);
    copy->by->machine->counts.totals.bulk_bytes += copy->map.element_bytes;
}

void emu_tensor_load(void *shared, const void *map, int dim, int row, int head, int batch,
                     void *barrier, unsigned blocks)
{
    emu_fiber *self = emu_self;
    const uintptr_t pc = EMU_CALLER;
    const int at[4] = {dim, row, head, batch};
    emu_bulk copy = box_of(self, map, shared, at, pc);
    copy.loads = true;
    emu_box_visit(&copy.map, at, check_and_count, &copy);
    if (blocks >> self->machine->block_count)
        report(self, "goes to blocks that its cluster does not have", pc);
    if (blocks == 0)
        blocks = 1u << self->block->rank;
    for (; blocks; blocks &= blocks - 1) {
        const unsigned rank = (unsigned)__builtin_ctz(blocks);
        copy.shared = in_block(self, rank, shared);
        copy.barrier = emu_mbarrier_find(self, in_block(self, rank, barrier), pc);
        enqueue(copy);
    }
}

void emu_tensor_store(const void *map, const void *shared, int dim, int row, int head, int batch)
{
    emu_fiber *self = emu_self;
    const int at[4] = {dim, row, head, batch};
    emu_bulk copy = box_of(self, map, shared, at, EMU_CALLER);
    copy.group = self->store_group;
    emu_box_visit(&copy.map, at, check_and_count, &copy);
    enqueue(copy);
}

static void store_async(unsigned address, emu_uint4 value, unsigned bytes, unsigned barrier_address,
                        uintptr_t pc)
{
    emu_fiber *self = emu_self;
    void *barrier = emu_cluster_pointer(self, barrier_address, pc);
    if (address % bytes)
        report(self, "is not aligned to its size", pc);
    enqueue((emu_bulk){.kind = BULK_WORDS,
                       .loads = true,
                       .by = self,
                       .pc = pc,
                       .shared = emu_cluster_pointer(self, address, pc),
                       .bytes = bytes,
                       .barrier = emu_mbarrier_find(self, barrier, pc),
                       .words = value});
}

void emu_store_cluster_async(unsigned address, unsigned value, unsigned barrier_address)
{
    store_async(address, (emu_uint4){value}, sizeof value, barrier_address, EMU_CALLER);
}

void emu_store_cluster_async_16(unsigned address, emu_uint4 value, unsigned barrier_address)
{
    store_async(address, value, sizeof value, barrier_address, EMU_CALLER);
}

/* 2. Completing. */

static void move_bytes(const emu_bulk *copy)
{
    if (copy->kind == BULK_ROW)
        memcpy(copy->shared, copy->global, copy->bytes);
    else if (copy->kind == BULK_WORDS)
        memcpy(copy->shared, &copy->words, copy->bytes);
    else
        emu_box_move(&copy->map, copy->coordinates, copy->shared,
                     (uint32_t)copy->offset + EMU_SHARED_BASE, copy->loads);
}

static void take_out(emu_bulk **link, uint32_t engine, uint32_t clock)
{
    emu_bulk *copy = *link;
    const emu_access access = {.by = copy->by,
                               .shadow = &copy->block->shadow,
                               .offset = copy->offset,
                               .bytes = copy->bytes,
                               .pc = copy->pc};
    move_bytes(copy);
    emu_shadow_land(&access, engine, clock);
    *link = copy->next;
    free(copy);
}

bool emu_bulk_complete_one(emu_machine *machine)
{
    emu_bulk **chosen = NULL;
    unsigned loads = 0;
    for (emu_bulk **link = &machine->bulk; *link; link = &(*link)->next) {
        if (!(*link)->loads)
            continue;
        if (!chosen || (machine->launch->seed && emu_random(machine) % (loads + 1) == 0))
            chosen = link;
        loads++;
    }
    if (!chosen)
        return false;
    emu_mbarrier *barrier = (*chosen)->barrier;
    const int64_t bytes = (*chosen)->bytes;
    const uint32_t clock = ++machine->engine_clocks[barrier->engine];
    take_out(chosen, machine->thread_count + barrier->engine, clock);
    emu_mbarrier_complete(machine, barrier, bytes);
    return true;
}

void emu_bulk_commit(void)
{
    emu_self->store_group++;
}

/* Stores have read shared memory when they have written to global memory, not before: whoever
 * waits for the reads alone gets both. */
void emu_bulk_wait(int pending, int read_only)
{
    (void)read_only;
    emu_fiber *self = emu_self;
    emu_warp *warp = self->warp;
    const uint32_t clock = ++warp->store_clock;
    for (emu_bulk **link = &self->machine->bulk; *link;) {
        const emu_bulk *copy = *link;
        if (!copy->loads && copy->by == self && copy->group + (uint32_t)pending < self->store_group)
            take_out(link, emu_store_engine(warp), clock);
        else
            link = &(*link)->next;
    }
    emu_knowledge_learn(&self->machine->vectors, &self->knowledge, emu_store_engine(warp), clock);
}

void emu_bulk_check_block_end(emu_fiber *self)
{
    emu_machine *machine = self->machine;
    for (const emu_bulk *copy = machine->bulk; copy; copy = copy->next) {
        if (!copy->loads || copy->block != self->block)
            continue;
        char by[96];
        emu_describe_thread(copy->by, by);
        emu_fail(machine,
                 "unfinished copy: block %u ends before what %s started (\001%c) has come to its "
                 "shared memory",
                 self->block->rank, by, emu_place_mark(emu_add_place(machine, copy->pc)));
    }
}

void emu_bulk_end(emu_machine *machine)
{
    while (machine->bulk) {
        emu_bulk *copy = machine->bulk;
        if (!copy->loads && !machine->failure.failed)
            move_bytes(copy);
        machine->bulk = copy->next;
        free(copy);
    }
}

/* 3. Fences. */

void emu_fence_async(void)
{
    emu_fiber *self = emu_self;
    emu_knowledge_fence(&self->machine->vectors, &self->knowledge);
}
