/* schedule.c: which thread runs next. A thread runs until it has to wait; then the next lane of
 * its warp goes on, then the next warp. With a seed the choice is random. When no thread can run,
 * asynchronous operations complete; when none is left either, the cluster is stuck. */
#include "machine.h"

#include "async.h"

#include <stdio.h>
#include <string.h>

_Thread_local emu_fiber *emu_self;

uint64_t emu_random(emu_machine *machine) /* splitmix64 */
{
    uint64_t x = machine->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static emu_fiber *lane_after(emu_warp *warp, int lane)
{
    const unsigned above = warp->ready & ~(2u * (1u << lane) - 1);
    return &warp->lanes[__builtin_ctz(above ? above : warp->ready)];
}

static emu_fiber *choose(emu_machine *machine, const emu_warp *warp, int lane)
{
    unsigned index = (unsigned)warp->index;
    if (machine->launch->seed) {
        index = (unsigned)(emu_random(machine) % machine->warp_count);
        lane = (int)(emu_random(machine) % EMU_LANES);
    }
    for (unsigned i = 0; i < machine->warp_count; i++) {
        emu_warp *candidate = &machine->warps[index];
        if (candidate->ready)
            return lane_after(candidate, lane);
        index = index + 1 == machine->warp_count ? 0 : index + 1;
    }
    return NULL;
}

/* 1. Nobody can run. */

static void describe_barrier(const emu_fiber *fiber, char *text, size_t bytes)
{
    const emu_barrier_state *barrier = &fiber->block->barriers[fiber->visit.detail];
    snprintf(text, bytes, "waits at barrier %d, where %d of %d threads came", fiber->visit.detail,
             barrier->arrived, barrier->expected);
}

static void describe_collective(const emu_fiber *fiber, char *text, size_t bytes)
{
    const unsigned missing = fiber->visit.mask & ~fiber->warp->collecting;
    const int lane = __builtin_ctz(missing);
    snprintf(text, bytes, "waits for its lane %d, which %s", lane,
             fiber->warp->left >> lane & 1 ? "has left the kernel" : "waits elsewhere");
}

static void describe_mbarrier(const emu_fiber *fiber, char *text, size_t bytes)
{
    const emu_mbarrier *barrier = fiber->mbarrier;
    snprintf(text, bytes,
             "waits for parity %d of the mbarrier at offset %zu, in phase %llu, which lacks %d "
             "arrivals and %lld bytes",
             fiber->mbarrier_parity, barrier->offset, (unsigned long long)barrier->phase,
             barrier->pending, (long long)barrier->bytes_pending);
}

/* One sentence for each group of lanes that waits at one place. */
static size_t describe_warp(emu_machine *machine, const emu_warp *warp, char *text, size_t bytes)
{
    size_t length = 0;
    uintptr_t seen = 0;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const emu_fiber *fiber = &warp->lanes[lane];
        char what[128] = "waits for the other blocks of its cluster";
        if (fiber->wait == EMU_AT_MBARRIER)
            describe_mbarrier(fiber, what, sizeof what);
        if (fiber->wait == EMU_LEFT || fiber->wait == EMU_RUNNING || fiber->visit.place.pc == seen)
            continue;
        if (machine->failure.place_count == EMU_MOST_PLACES || length + 200 > bytes)
            break;
        seen = fiber->visit.place.pc;
        if (fiber->wait == EMU_AT_BARRIER)
            describe_barrier(fiber, what, sizeof what);
        else if (fiber->wait == EMU_AT_COLLECTIVE)
            describe_collective(fiber, what, sizeof what);
        length += (size_t)snprintf(
            text + length, bytes - length, "\n  block %u warp %u %s (\001%c)", fiber->block->rank,
            fiber->thread / EMU_LANES, what, emu_place_mark(emu_add_place(machine, seen)));
    }
    return length;
}

static void __attribute__((noreturn)) report_deadlock(emu_machine *machine)
{
    char text[EMU_FAILURE_BYTES - 256] = "";
    size_t length = 0;
    for (unsigned i = 0; i < machine->warp_count; i++)
        length += describe_warp(machine, &machine->warps[i], text + length, sizeof text - length);
    emu_fail(machine, "deadlock: no thread can go on%s", text);
}

/* 2. Switching. */

static emu_fiber *next_fiber(emu_fiber *self)
{
    emu_machine *machine = self->machine;
    if (machine->launch->seed && emu_random(machine) % 64 == 0)
        emu_bulk_complete_one(machine);
    emu_fiber *next = choose(machine, self->warp, self->lane);
    while (!next && emu_bulk_complete_one(machine))
        next = choose(machine, self->warp, self->lane);
    if (!next)
        report_deadlock(machine);
    return next;
}

void emu_pause(emu_fiber *self)
{
    emu_fiber *next = next_fiber(self);
    if (next == self)
        return;
    emu_self = next;
    emu_switch(&self->stack_pointer, next->stack_pointer);
}

void emu_make_ready(emu_fiber *fiber)
{
    fiber->wait = EMU_RUNNING;
    fiber->warp->ready |= 1u << fiber->lane;
}

void emu_end_fiber(emu_fiber *self)
{
    emu_machine *machine = self->machine;
    if (self->block->threads_left == 1)
        emu_bulk_check_block_end(self);
    self->wait = EMU_LEFT;
    self->warp->ready &= ~(1u << self->lane);
    self->warp->left |= 1u << self->lane;
    self->block->threads_left--;
    void *load = machine->main_stack_pointer;
    if (--machine->threads_left) {
        emu_self = next_fiber(self);
        load = emu_self->stack_pointer;
    }
    emu_switch(&self->stack_pointer, load);
    __builtin_unreachable();
}
