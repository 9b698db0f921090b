/* barrier.c: __syncthreads and the numbered barriers. Warps come as a whole: their lanes meet
 * first, as the aligned forms of the instructions demand. */
#include "machine.h"

#include "device.h"

typedef struct barrier_visit {
    int threads, waits;
    int value, result;
} barrier_visit;

static void __attribute__((noreturn))
report_mismatch(const emu_fiber *self, int id, int threads, const char *why)
{
    char text[96];
    const emu_barrier_state *barrier = &self->block->barriers[id];
    emu_describe_thread(self, text);
    emu_fail(self->machine,
             "barrier mismatch: %s comes to barrier %d for %d threads, %s; %d of %d came before "
             "(\001%c)",
             text, id, threads, why, barrier->arrived, barrier->expected,
             emu_place_mark(emu_add_place(self->machine, self->visit.place.pc)));
}

static void check_arrival(const emu_fiber *self, int id, int threads)
{
    const emu_barrier_state *barrier = &self->block->barriers[id];
    const unsigned bit = 1u << (self->thread / EMU_LANES);
    if (threads <= 0 || threads % EMU_LANES || threads > (int)self->machine->launch->threads)
        report_mismatch(self, id, threads, "which are no whole warps of the block");
    if (barrier->expected && barrier->expected != threads)
        report_mismatch(self, id, threads, "others for another number");
    if (barrier->warps_arrived & bit)
        report_mismatch(self, id, threads, "and its warp has come already");
    if (id == 0 && barrier->expected && !emu_is_same_place(&barrier->first, &self->visit.place))
        report_mismatch(self, id, threads, "others wait at another __syncthreads");
}

static int reduce_values(const emu_fiber *self, int how, int so_far)
{
    int count = 0;
    for (int lane = 0; lane < EMU_LANES; lane++)
        count += ((const barrier_visit *)emu_arguments(self->warp, lane))->value != 0;
    return how == EMU_COUNT_NONZERO ? so_far + count
           : how == EMU_ALL_NONZERO ? so_far && count == EMU_LANES
                                    : so_far || count;
}

/* Everyone came: those who wait go on, knowing what all did. */
static void open_barrier(emu_fiber *self, emu_barrier_state *barrier)
{
    emu_vectors *vectors = &self->machine->vectors;
    for (unsigned warps = barrier->warps_waiting; warps; warps &= warps - 1) {
        emu_warp *warp = &self->block->warps[__builtin_ctz(warps)];
        for (int lane = 0; lane < EMU_LANES; lane++) {
            emu_fiber *fiber = &warp->lanes[lane];
            ((barrier_visit *)fiber->visit.arguments)->result = barrier->reduction;
            emu_gather_take(vectors, &barrier->gather, &fiber->knowledge);
            emu_make_ready(fiber);
        }
    }
    emu_gather_clear(vectors, &barrier->gather);
    *barrier = (emu_barrier_state){0};
}

/* By the lane that completes its warp; the others wait for it already. */
static void arrive(emu_fiber *self, int id, int how, const barrier_visit *visit)
{
    emu_barrier_state *barrier = &self->block->barriers[id];
    const unsigned bit = 1u << (self->thread / EMU_LANES);
    emu_warp *warp = self->warp;
    check_arrival(self, id, visit->threads);
    if (!barrier->expected) {
        barrier->reduction = how == EMU_ALL_NONZERO;
        barrier->first = self->visit.place;
    }
    barrier->expected = visit->threads;
    barrier->arrived += EMU_LANES;
    barrier->warps_arrived |= bit;
    if (how >= 0)
        barrier->reduction = reduce_values(self, how, barrier->reduction);
    for (int lane = 0; lane < EMU_LANES; lane++)
        emu_gather_add(&self->machine->vectors, &barrier->gather, &warp->lanes[lane].knowledge,
                       warp->lanes[lane].number);
    self->machine->counts.totals.barriers++;
    emu_dismiss(warp, EMU_ALL_LANES);
    if (visit->waits) {
        barrier->warps_waiting |= bit;
        warp->ready = 0;
        for (int lane = 0; lane < EMU_LANES; lane++)
            warp->lanes[lane].wait = EMU_AT_BARRIER;
    }
    if (barrier->arrived == barrier->expected)
        open_barrier(self, barrier);
    if (self->wait == EMU_AT_BARRIER)
        emu_pause(self);
}

static int visit_barrier(int id, int how, barrier_visit *visit, emu_place place)
{
    emu_fiber *self = emu_self;
    if (visit->threads == 0)
        visit->threads = (int)self->machine->launch->threads;
    const emu_visit meeting = {
        .collective = EMU_BARRIER,
        .mask = EMU_ALL_LANES,
        .detail = id,
        .place = place,
        .arguments = visit,
    };
    if (emu_meet(self, &meeting))
        arrive(self, id, how, visit);
    return visit->result;
}

void emu_barrier(int id, int threads, int waits, const char *file, int line)
{
    barrier_visit visit = {.threads = threads, .waits = waits};
    visit_barrier(id, -1, &visit, (emu_place){file, line, EMU_CALLER});
}

int emu_barrier_reduce(int how, int value, const char *file, int line)
{
    barrier_visit visit = {.waits = 1, .value = value};
    return visit_barrier(0, how, &visit, (emu_place){file, line, EMU_CALLER});
}
