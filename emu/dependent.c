/* dependent.c: programmatic dependent launch. A kernel that starts early begins, here as late as
 * anywhere, when all blocks of the one before have run; but what they wrote counts as not yet there
 * for every thread that has not waited, by itself or by a barrier behind one that has. */
#include "async.h"
#include "device.h"

bool emu_knows_previous(const emu_fiber *fiber)
{
    return emu_knows(&fiber->knowledge, fiber->number, emu_previous_kernel(fiber->machine), 1);
}

void emu_wait_for_previous(void)
{
    emu_machine *machine = emu_self->machine;
    emu_knowledge_learn(&machine->vectors, &emu_self->knowledge, emu_previous_kernel(machine), 1);
}

void emu_let_next_start(void)
{
    emu_machine *machine = emu_self->machine;
    machine->lets_next_start = true;
    if (!emu_knows_previous(emu_self))
        machine->lets_next_hurry = true;
}
