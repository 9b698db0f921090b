/* mbarrier.c: barriers in shared memory, by threads and not by warps. */
#include "access.h"
#include "async.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

void emu_mbarriers_end(emu_block *block)
{
    emu_vectors *vectors = &block->warps->lanes->machine->vectors;
    while (block->mbarriers) {
        emu_mbarrier *barrier = block->mbarriers;
        block->mbarriers = barrier->next;
        emu_gather_clear(vectors, &barrier->gather);
        emu_vector_release(vectors, barrier->completed);
        free(barrier);
    }
}

static void __attribute__((noreturn)) report(emu_fiber *self, const char *what, uintptr_t pc)
{
    char text[96];
    emu_describe_thread(self, text);
    emu_fail(self->machine, "mbarrier: %s %s (\001%c)", text, what,
             emu_place_mark(emu_add_place(self->machine, pc)));
}

static emu_mbarrier *look_up(const emu_block *block, size_t offset)
{
    for (emu_mbarrier *barrier = block->mbarriers; barrier; barrier = barrier->next)
        if (barrier->offset == offset)
            return barrier;
    return NULL;
}

void emu_mbarrier_init(void *memory, int arrivals)
{
    emu_fiber *self = emu_self;
    const uintptr_t pc = EMU_CALLER;
    emu_block *block;
    size_t offset;
    emu_check_shared(self, memory, 8, true, 0, pc);
    if (!emu_find_shared(self->machine, memory, 8, &block, &offset) || arrivals < 1)
        report(self, "makes one that nobody could arrive at", pc);
    emu_mbarrier *barrier = look_up(block, offset);
    if (barrier)
        report(self, "makes one where there is one already", pc);
    barrier = calloc(1, sizeof *barrier);
    if (!barrier)
        abort();
    *barrier = (emu_mbarrier){.next = block->mbarriers,
                              .offset = offset,
                              .arrivals = arrivals,
                              .pending = arrivals,
                              .engine = self->machine->engines_used++ % EMU_ENGINES,
                              .made_by = self->number,
                              .made_at = self->knowledge.clock,
                              .made_pc = pc};
    block->mbarriers = barrier;
    block->shadow.states[offset / EMU_WORD_BYTES] |= EMU_IS_MBARRIER;
    block->shadow.states[offset / EMU_WORD_BYTES + 1] |= EMU_IS_MBARRIER;
}

/* The maker's next arrival at the cluster's barrier, relaxed or not, shows them to the others. */
void emu_fence_mbarriers(void)
{
    const emu_fiber *self = emu_self;
    for (emu_mbarrier *barrier = self->block->mbarriers; barrier; barrier = barrier->next)
        if (barrier->made_by == self->number && !barrier->shown_at)
            barrier->shown_at = self->warp->cluster_arrivals + 1;
}

static bool knows_of(const emu_fiber *self, const emu_mbarrier *barrier)
{
    return emu_knows(&self->knowledge, self->number, barrier->made_by, barrier->made_at) ||
           (barrier->shown_at && self->cluster_waits >= barrier->shown_at);
}

emu_mbarrier *emu_mbarrier_find(emu_fiber *self, const void *memory, uintptr_t pc)
{
    emu_block *block;
    size_t offset;
    emu_mbarrier *barrier = NULL;
    if (emu_find_shared(self->machine, memory, 8, &block, &offset))
        barrier = look_up(block, offset);
    if (!barrier)
        report(self, "uses one that was never made", pc);
    if (!knows_of(self, barrier))
        report(self, "uses one that another thread made, without a barrier in between", pc);
    return barrier;
}

static bool is_over(const emu_mbarrier *barrier, int parity)
{
    return (int)(barrier->phase & 1) != parity;
}

/* The phase ends: whoever waits for it goes on. */
static void end_phase(emu_machine *machine, emu_mbarrier *barrier)
{
    emu_vector_release(&machine->vectors, barrier->completed);
    barrier->completed = emu_vector_hold(barrier->gather.vector);
    emu_gather_clear(&machine->vectors, &barrier->gather);
    barrier->pending = barrier->arrivals;
    barrier->phase++;
    for (unsigned i = 0; i < machine->thread_count; i++) {
        emu_fiber *fiber = &machine->fibers[i];
        if (fiber->wait == EMU_AT_MBARRIER && fiber->mbarrier == barrier &&
            is_over(barrier, fiber->mbarrier_parity))
            emu_make_ready(fiber);
    }
}

static void end_phase_when_complete(emu_machine *machine, emu_mbarrier *barrier)
{
    if (barrier->pending == 0 && barrier->bytes_pending == 0)
        end_phase(machine, barrier);
}

static void arrive(emu_fiber *self, const void *memory, int64_t bytes, uintptr_t pc)
{
    emu_mbarrier *barrier = emu_mbarrier_find(self, memory, pc);
    if (barrier->pending == 0)
        report(self, "arrives once more than a phase takes, while copies are under way", pc);
    emu_gather_add(&self->machine->vectors, &barrier->gather, &self->knowledge, self->number);
    barrier->bytes_pending += bytes;
    barrier->pending--;
    end_phase_when_complete(self->machine, barrier);
}

void emu_mbarrier_arrive(void *memory)
{
    arrive(emu_self, memory, 0, EMU_CALLER);
}

void emu_mbarrier_arrive_expect(void *memory, int bytes)
{
    arrive(emu_self, memory, bytes, EMU_CALLER);
}

void emu_mbarrier_arrive_cluster(unsigned address)
{
    arrive(emu_self, emu_cluster_pointer(emu_self, address, EMU_CALLER), 0, EMU_CALLER);
}

void emu_mbarrier_complete(emu_machine *machine, emu_mbarrier *barrier, int64_t bytes)
{
    if (!barrier->gather.vector)
        barrier->gather.vector = emu_vector_zero(&machine->vectors);
    barrier->gather.vector->known[machine->thread_count + barrier->engine] =
        machine->engine_clocks[barrier->engine];
    barrier->bytes_pending -= bytes;
    end_phase_when_complete(machine, barrier);
}

void emu_mbarrier_wait(void *memory, int parity)
{
    emu_fiber *self = emu_self;
    const uintptr_t pc = EMU_CALLER;
    emu_mbarrier *barrier = emu_mbarrier_find(self, memory, pc);
    self->machine->counts.totals.mbarrier_waits++;
    if (!is_over(barrier, parity)) {
        self->wait = EMU_AT_MBARRIER;
        self->mbarrier = barrier;
        self->mbarrier_parity = parity;
        self->visit.place.pc = pc;
        self->warp->ready &= ~(1u << self->lane);
        emu_pause(self);
    }
    if (barrier->completed)
        emu_knowledge_join(&self->machine->vectors, &self->knowledge, barrier->completed);
}
