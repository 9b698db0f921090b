/* collective.c: what the lanes of a warp do together. Each lane leaves its arguments on its own
 * stack and waits; the last one computes for all. None of these but __syncwarp orders memory. */
#include "machine.h"

#include "device.h"

#include <string.h>

/* 1. Meeting. */

static const char *const collective_names[] = {
    [EMU_SYNC_WARP] = "__syncwarp",
    [EMU_SHUFFLE] = "a shuffle",
    [EMU_BALLOT] = "a vote",
    [EMU_REDUCE] = "a reduction",
    [EMU_LDMATRIX] = "ldmatrix",
    [EMU_STMATRIX] = "stmatrix",
    [EMU_MMA] = "mma",
    [EMU_BARRIER] = "a barrier",
    [EMU_WGMMA] = "wgmma",
    [EMU_WGMMA_FENCE] = "wgmma_fence",
    [EMU_WGMMA_COMMIT] = "wgmma_commit",
    [EMU_WGMMA_WAIT] = "wgmma_wait",
    [EMU_CLUSTER_ARRIVE] = "cluster_arrive",
    [EMU_CLUSTER_WAIT] = "cluster_wait",
};

bool emu_is_same_place(const emu_place *a, const emu_place *b)
{
    return a->pc == b->pc ||
           (a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0));
}

static bool is_same_visit(const emu_visit *a, const emu_visit *b)
{
    return a->collective == b->collective && a->mask == b->mask && a->detail == b->detail &&
           emu_is_same_place(&a->place, &b->place);
}

static void __attribute__((noreturn))
report_divergence(const emu_fiber *self, const emu_fiber *other)
{
    emu_machine *machine = self->machine;
    char text[96];
    emu_describe_thread(self, text);
    const char here = emu_place_mark(emu_add_place(machine, self->visit.place.pc));
    const char there = emu_place_mark(emu_add_place(machine, other->visit.place.pc));
    emu_fail(machine,
             "divergence: %s is at %s with lanes %08x (\001%c), while lane %d of its warp is at %s "
             "with lanes %08x (\001%c)",
             text, collective_names[self->visit.collective], self->visit.mask, here, other->lane,
             collective_names[other->visit.collective], other->visit.mask, there);
}

bool emu_meet(emu_fiber *self, const emu_visit *visit)
{
    emu_warp *warp = self->warp;
    const unsigned bit = 1u << self->lane;
    self->visit = *visit;
    if (!(visit->mask & bit)) {
        char text[96];
        emu_describe_thread(self, text);
        emu_fail(self->machine,
                 "divergence: %s calls %s for lanes %08x, itself not among them "
                 "(\001%c)",
                 text, collective_names[visit->collective], visit->mask,
                 emu_place_mark(emu_add_place(self->machine, visit->place.pc)));
    }
    warp->collecting |= bit;
    if ((warp->collecting & visit->mask) != visit->mask) {
        warp->ready &= ~bit;
        self->wait = EMU_AT_COLLECTIVE;
        emu_pause(self);
        return false;
    }
    for (unsigned lanes = visit->mask; lanes; lanes &= lanes - 1) {
        const emu_fiber *other = &warp->lanes[__builtin_ctz(lanes)];
        if (!is_same_visit(visit, &other->visit))
            report_divergence(self, other);
    }
    return true;
}

void emu_dismiss(emu_warp *warp, unsigned mask)
{
    if (warp->trace && mask == EMU_ALL_LANES)
        emu_trace_flush(warp->trace, &warp->block->warps->lanes->machine->counts);
    warp->collecting &= ~mask;
    warp->ready |= mask;
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1)
        warp->lanes[__builtin_ctz(lanes)].wait = EMU_RUNNING;
}

void emu_order_lanes(emu_warp *warp, unsigned mask)
{
    emu_vectors *vectors = &warp->lanes->machine->vectors;
    emu_gather gather = {0};
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        emu_fiber *fiber = &warp->lanes[__builtin_ctz(lanes)];
        emu_gather_add(vectors, &gather, &fiber->knowledge, fiber->number);
    }
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1)
        emu_gather_take(vectors, &gather, &warp->lanes[__builtin_ctz(lanes)].knowledge);
    emu_gather_clear(vectors, &gather);
}

#define VISIT(name, lane_mask, what, given)                                           \
    &(const emu_visit)                                                                \
    {                                                                                 \
        .collective = (name), .mask = (lane_mask), .detail = (what),                  \
        .place = {.file = file, .line = line, .pc = EMU_CALLER}, .arguments = (given) \
    }

/* 2. __syncwarp, shuffles, votes, reductions. */

void emu_sync_warp(unsigned mask, const char *file, int line)
{
    emu_fiber *self = emu_self;
    if (!emu_meet(self, VISIT(EMU_SYNC_WARP, mask, 0, NULL)))
        return;
    emu_order_lanes(self->warp, mask);
    self->machine->counts.totals.warp_syncs++;
    emu_dismiss(self->warp, mask);
}

typedef struct shuffle {
    uint64_t value, result;
    int operand, width;
} shuffle;

static int source_lane(int how, const shuffle *arguments, int lane)
{
    const int first = lane / arguments->width * arguments->width;
    const int end = first + arguments->width;
    int source = lane;
    switch (how) {
    case EMU_SHUFFLE_INDEX: return first + (arguments->operand & (arguments->width - 1));
    case EMU_SHUFFLE_XOR: source = lane ^ arguments->operand; break;
    case EMU_SHUFFLE_UP: source = lane - arguments->operand; break;
    default: source = lane + arguments->operand; break;
    }
    return source < first || source >= end ? lane : source;
}

static void __attribute__((noreturn)) report_absent_lane(const emu_fiber *self, int source)
{
    char text[96];
    emu_describe_thread(self, text);
    emu_fail(self->machine,
             "divergence: %s shuffles with lane %d, which is not among lanes %08x (\001%c)", text,
             source, self->visit.mask,
             emu_place_mark(emu_add_place(self->machine, self->visit.place.pc)));
}

uint64_t emu_shuffle(int how, unsigned mask, uint64_t value, int operand, int width,
                     const char *file, int line)
{
    emu_fiber *self = emu_self;
    shuffle arguments = {.value = value, .operand = operand, .width = width};
    if (!emu_meet(self, VISIT(EMU_SHUFFLE, mask, how, &arguments)))
        return arguments.result;
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        shuffle *of = emu_arguments(self->warp, lane);
        const int source = source_lane(how, of, lane);
        if (!(mask >> source & 1))
            report_absent_lane(&self->warp->lanes[lane], source);
        of->result = ((const shuffle *)emu_arguments(self->warp, source))->value;
    }
    self->machine->counts.totals.shuffles++;
    emu_dismiss(self->warp, mask);
    return arguments.result;
}

typedef struct vote {
    unsigned value, result;
} vote;

unsigned emu_ballot(unsigned mask, int value, const char *file, int line)
{
    emu_fiber *self = emu_self;
    vote arguments = {.value = (unsigned)value};
    unsigned result = 0;
    if (!emu_meet(self, VISIT(EMU_BALLOT, mask, 0, &arguments)))
        return arguments.result;
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        if (((const vote *)emu_arguments(self->warp, lane))->value)
            result |= 1u << lane;
    }
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1)
        ((vote *)emu_arguments(self->warp, __builtin_ctz(lanes)))->result = result;
    self->machine->counts.totals.shuffles++;
    emu_dismiss(self->warp, mask);
    return result;
}

static unsigned reduce_two(int how, int is_signed, unsigned a, unsigned b)
{
    const bool less = is_signed ? (int)a < (int)b : a < b;
    switch (how) {
    case EMU_REDUCE_ADD: return a + b;
    case EMU_REDUCE_MIN: return less ? a : b;
    case EMU_REDUCE_MAX: return less ? b : a;
    case EMU_REDUCE_AND: return a & b;
    default: return a | b;
    }
}

unsigned emu_reduce(int how, int is_signed, unsigned mask, unsigned value, const char *file,
                    int line)
{
    emu_fiber *self = emu_self;
    vote arguments = {.value = value};
    if (!emu_meet(self, VISIT(EMU_REDUCE, mask, how, &arguments)))
        return arguments.result;
    unsigned result = value;
    for (unsigned lanes = mask & ~(1u << self->lane); lanes; lanes &= lanes - 1)
        result = reduce_two(how, is_signed, result,
                            ((const vote *)emu_arguments(self->warp, __builtin_ctz(lanes)))->value);
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1)
        ((vote *)emu_arguments(self->warp, __builtin_ctz(lanes)))->result = result;
    self->machine->counts.totals.shuffles++;
    emu_dismiss(self->warp, mask);
    return result;
}

/* The lanes that have not left. On hardware it may be fewer, and nothing may depend on it. */
unsigned emu_active_mask(void)
{
    return ~emu_self->warp->left;
}
