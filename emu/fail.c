/* fail.c: the end of a launch by a failure, from within a thread. */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>

int emu_add_place(emu_machine *machine, uintptr_t pc)
{
    emu_failure *failure = &machine->failure;
    if (failure->place_count == EMU_MOST_PLACES)
        return EMU_MOST_PLACES - 1;
    failure->places[failure->place_count] = pc;
    return failure->place_count++;
}

char emu_place_mark(int place)
{
    return (char)('0' + place);
}

void emu_fail(emu_machine *machine, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(machine->failure.text, sizeof machine->failure.text, format, arguments);
    va_end(arguments);
    machine->failure.failed = true;
    void *abandoned;
    emu_switch(&abandoned, machine->main_stack_pointer);
    __builtin_unreachable();
}

void emu_describe_thread(const emu_fiber *fiber, char text[96])
{
    const emu_block *block = fiber->block;
    snprintf(text, 96, "thread %u of block (%u, %u, %u)", fiber->thread, block->index[0],
             block->index[1], block->index[2]);
}
