/* cluster.c: the blocks of a cluster: their barrier, and each other's shared memory. */
#include "access.h"
#include "async.h"
#include "device.h"

#include <string.h>

int emu_cluster_rank(void)
{
    return (int)emu_self->block->rank;
}

int emu_cluster_blocks(void)
{
    return (int)emu_self->machine->block_count;
}

/* 1. The barrier. Warps come as a whole, like to those of a block. */

static void report(const emu_fiber *self, const char *what)
{
    char text[96];
    emu_describe_thread(self, text);
    emu_fail(self->machine, "cluster barrier: %s %s (\001%c)", text, what,
             emu_place_mark(emu_add_place(self->machine, self->visit.place.pc)));
}

static void end_phase(emu_machine *machine)
{
    emu_vector_release(&machine->vectors, machine->cluster_completed);
    machine->cluster_completed =
        machine->cluster_gather.vector ? emu_vector_hold(machine->cluster_gather.vector) : NULL;
    emu_gather_clear(&machine->vectors, &machine->cluster_gather);
    machine->cluster_arrived = 0;
    machine->cluster_phase++;
    for (unsigned i = 0; i < machine->thread_count; i++)
        if (machine->fibers[i].wait == EMU_AT_CLUSTER)
            emu_make_ready(&machine->fibers[i]);
}

/* Only an arrival that releases tells the others what was done before it. */
static void arrive(const emu_visit *visit, bool releases)
{
    emu_fiber *self = emu_self;
    emu_machine *machine = self->machine;
    if (!emu_meet(self, visit))
        return;
    if (self->warp->cluster_arrivals > machine->cluster_phase)
        report(self, "arrives twice without waiting");
    self->warp->cluster_arrivals++;
    machine->cluster_arrived += EMU_LANES;
    machine->counts.totals.barriers++;
    for (int lane = 0; releases && lane < EMU_LANES; lane++)
        emu_gather_add(&machine->vectors, &machine->cluster_gather,
                       &self->warp->lanes[lane].knowledge, self->warp->lanes[lane].number);
    if (machine->cluster_arrived == machine->thread_count)
        end_phase(machine);
    emu_dismiss(self->warp, EMU_ALL_LANES);
}

void emu_cluster_arrive(const char *file, int line)
{
    const emu_visit visit = {
        .collective = EMU_CLUSTER_ARRIVE, .mask = EMU_ALL_LANES, .place = {file, line, EMU_CALLER}};
    arrive(&visit, true);
}

void emu_cluster_arrive_relaxed(const char *file, int line)
{
    const emu_visit visit = {
        .collective = EMU_CLUSTER_ARRIVE, .mask = EMU_ALL_LANES, .place = {file, line, EMU_CALLER}};
    arrive(&visit, false);
}

void emu_cluster_wait(const char *file, int line)
{
    emu_fiber *self = emu_self;
    emu_machine *machine = self->machine;
    const emu_visit visit = {
        .collective = EMU_CLUSTER_WAIT, .mask = EMU_ALL_LANES, .place = {file, line, EMU_CALLER}};
    if (emu_meet(self, &visit))
        emu_dismiss(self->warp, EMU_ALL_LANES);
    const uint32_t phase = self->warp->cluster_arrivals;
    if (phase == 0)
        report(self, "waits before it arrived");
    if (machine->cluster_phase < phase) {
        self->wait = EMU_AT_CLUSTER;
        self->warp->ready &= ~(1u << self->lane);
        emu_pause(self);
    }
    self->cluster_waits = phase;
    if (machine->cluster_completed)
        emu_knowledge_join(&machine->vectors, &self->knowledge, machine->cluster_completed);
}

/* 2. Addresses: the rank plus one in the highest byte, 0 for the block itself. */

enum { RANK_SHIFT = 24 };

unsigned emu_cluster_address(const void *shared, int rank)
{
    return emu_shared_address(shared) | (unsigned)(rank + 1) << RANK_SHIFT;
}

void *emu_cluster_pointer(emu_fiber *self, unsigned address, uintptr_t pc)
{
    const unsigned rank = address >> RANK_SHIFT;
    const size_t offset = (address & ((1u << RANK_SHIFT) - 1)) - EMU_SHARED_BASE;
    char text[96];
    emu_describe_thread(self, text);
    if (rank > self->machine->block_count || offset >= self->machine->launch->shared_bytes)
        emu_fail(self->machine,
                 "out of bounds: %s uses the cluster address %08x, block %u of %u (\001%c)", text,
                 address, rank - 1, self->machine->block_count,
                 emu_place_mark(emu_add_place(self->machine, pc)));
    emu_block *block = rank ? &self->machine->blocks[rank - 1] : self->block;
    if (block->threads_left == 0)
        emu_fail(self->machine,
                 "block has left: %s reaches into the shared memory of block %u of its cluster, "
                 "which has ended (\001%c)",
                 text, block->rank, emu_place_mark(emu_add_place(self->machine, pc)));
    return block->shared + offset;
}

unsigned emu_load_cluster(unsigned address)
{
    emu_fiber *self = emu_self;
    const void *memory = emu_cluster_pointer(self, address, EMU_CALLER);
    unsigned value;
    emu_check_shared(self, memory, sizeof value, false, 0, EMU_CALLER);
    memcpy(&value, memory, sizeof value);
    return value;
}

void emu_store_cluster(unsigned address, unsigned value)
{
    emu_fiber *self = emu_self;
    void *memory = emu_cluster_pointer(self, address, EMU_CALLER);
    emu_check_shared(self, memory, sizeof value, true, 0, EMU_CALLER);
    memcpy(memory, &value, sizeof value);
}
