/* fiber.c: the first stack frame of a fiber, as switch.S takes it down. */
#include "machine.h"

#include <string.h>

void emu_fiber_begin(void);

void emu_fiber_prepare(emu_fiber *fiber, void (*entry)(void))
{
    /* Stacks lie a power of two apart: without a shift the tops of all would share a few lines of
     * the caches. */
    const size_t shift = fiber->number % 32 * 512 + fiber->number / 32 % 4 * 128;
    unsigned char *top = fiber->stack + EMU_STACK_BYTES - shift;
#if defined(__aarch64__)
    enum { FRAME_BYTES = 160, ENTRY_AT = 0, RETURN_AT = 88 }; /* x19 and x30 */
#else
    /* rbx and the return address. Not a multiple of 16: the stack is aligned before the call. */
    enum { FRAME_BYTES = 72, ENTRY_AT = 32, RETURN_AT = 48 };
#endif
    void (*const begin)(void) = emu_fiber_begin;
    unsigned char *frame = top - FRAME_BYTES;
    memset(frame, 0, FRAME_BYTES);
    memcpy(frame + ENTRY_AT, &entry, sizeof entry);
    memcpy(frame + RETURN_AT, &begin, sizeof begin);
    fiber->stack_pointer = frame;
}
