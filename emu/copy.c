/* copy.c: cp.async. The bytes are read and written when the thread waits for their group, which is
 * as late as they may be, or with a seed at some moment before that. Until the thread has waited,
 * nobody may touch where they go. */
#include "access.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>

static void land(const emu_copy *copy)
{
    memcpy(copy->shared, copy->global, copy->wanted);
    memset(copy->shared + copy->wanted, 0, (size_t)copy->bytes - copy->wanted);
}

static void reveal(emu_fiber *self, const emu_copy *copy)
{
    emu_block *block;
    size_t offset;
    if (!emu_find_shared(self->machine, copy->shared, copy->bytes, &block, &offset))
        return;
    const emu_access access = {.by = self,
                               .shadow = &block->shadow,
                               .offset = offset,
                               .bytes = copy->bytes,
                               .pc = copy->pc};
    emu_shadow_land(&access, self->number, self->knowledge.clock);
}

static emu_copy *new_copy(emu_copies *copies)
{
    if (copies->first == copies->count)
        copies->first = copies->count = 0;
    if (copies->count == copies->room) {
        copies->room = copies->room ? 2 * copies->room : 64;
        copies->list = realloc(copies->list, copies->room * sizeof *copies->list);
        if (!copies->list)
            abort();
    }
    return &copies->list[copies->count++];
}

void emu_cp_async(void *shared, const void *global, int bytes, int wanted)
{
    emu_fiber *self = emu_self;
    const uintptr_t pc = EMU_CALLER;
    if (wanted > 0)
        emu_check_global(self, global, (unsigned)wanted, false, 0, pc);
    emu_check_shared(self, shared, (unsigned)bytes, true, EMU_IN_FLIGHT, pc);
    emu_copy *copy = new_copy(&self->copies);
    *copy = (emu_copy){.shared = shared,
                       .global = global,
                       .bytes = (uint16_t)bytes,
                       .wanted = (uint16_t)wanted,
                       .group = self->copies.group,
                       .pc = pc};
    self->machine->counts.totals.copies++;
    if (self->warp->trace) {
        if (wanted > 0)
            emu_count_access(self, global, (unsigned)wanted, false, pc);
        emu_count_access(self, shared, (unsigned)bytes, true, pc);
    }
    if (self->machine->launch->seed && emu_random(self->machine) % 2)
        land(copy);
}

void emu_cp_async_commit(void)
{
    emu_self->copies.group++;
}

void emu_cp_async_wait(int pending)
{
    emu_fiber *self = emu_self;
    emu_copies *copies = &self->copies;
    while (copies->first < copies->count &&
           copies->list[copies->first].group + (uint32_t)pending < copies->group) {
        const emu_copy *copy = &copies->list[copies->first++];
        land(copy);
        reveal(self, copy);
    }
}
