/* machine.c: see machine.h. */
#include "machine.h"

#include "async.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What shared memory holds before anyone writes it: NaN in every type. */
enum { POISON = 0xff };

emu_machine *emu_machine_create(void)
{
    return calloc(1, sizeof(emu_machine));
}

/* 1. Room. */

/* Each with a page below it that nobody may touch. */
static unsigned char *map_stacks(size_t threads)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *stacks = mmap(NULL, threads * EMU_STACK_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < threads; i++)
        if (mprotect(stacks + i * EMU_STACK_BYTES, page, PROT_NONE)) {
            munmap(stacks, threads * EMU_STACK_BYTES);
            return NULL;
        }
    return stacks;
}

static void free_threads(emu_machine *machine)
{
    for (size_t i = 0; machine->fibers && i < machine->stack_count; i++)
        free(machine->fibers[i].copies.list);
    for (size_t i = 0; machine->warps && i < machine->stack_count / EMU_LANES; i++)
        emu_trace_free(machine->warps[i].trace);
    if (machine->stacks)
        munmap(machine->stacks, machine->stack_count * EMU_STACK_BYTES);
    free(machine->fibers);
    free(machine->warps);
    machine->stacks = NULL;
    machine->fibers = NULL;
    machine->warps = NULL;
    machine->stack_count = 0;
}

static bool make_threads(emu_machine *machine, size_t threads)
{
    const size_t warps = threads / EMU_LANES;
    if (threads <= machine->stack_count || warps == 0)
        return warps > 0;
    free_threads(machine);
    machine->stacks = map_stacks(threads);
    machine->fibers = calloc(warps, EMU_LANES * sizeof *machine->fibers);
    machine->warps = calloc(warps, sizeof *machine->warps);
    machine->stack_count = machine->stacks ? threads : 0;
    if (!machine->stacks || !machine->fibers || !machine->warps) {
        free_threads(machine);
        return false;
    }
    for (size_t i = 0; i < threads; i++)
        machine->fibers[i].stack = machine->stacks + i * EMU_STACK_BYTES;
    return true;
}

/* Blocks lie apart, so that what runs past the end of one does not meet the next. */
static bool make_shared(emu_machine *machine, size_t bytes, unsigned blocks)
{
    enum { APART = 4096 };
    machine->shared_stride = (bytes + 2 * (size_t)APART - 1) / APART * APART;
    const size_t room = machine->shared_stride * blocks;
    if (room <= machine->shared_room)
        return true;
    free(machine->shared);
    machine->shared = aligned_alloc(APART, room);
    machine->shared_room = machine->shared ? room : 0;
    return machine->shared != NULL;
}

bool emu_machine_prepare(emu_machine *machine, const emu_launch *launch)
{
    const unsigned threads = launch->threads * launch->cluster;
    if (!make_threads(machine, threads) ||
        !make_shared(machine, launch->shared_bytes, launch->cluster))
        return false;
    machine->launch = launch;
    machine->block_count = launch->cluster;
    machine->thread_count = threads;
    machine->warp_count = threads / EMU_LANES;
    machine->failure = (emu_failure){0};
    machine->open = (emu_open_memory){0};
    machine->lets_next_start = machine->lets_next_hurry = false;
    emu_vectors_start(&machine->vectors, emu_previous_kernel(machine) + 1);
    emu_counts_start(&machine->counts);
    return true;
}

/* 2. A cluster. */

static void run_thread(void)
{
    emu_fiber *self = emu_self;
    self->machine->launch->start(self->machine->launch->args);
    emu_end_fiber(emu_self);
}

static void start_fiber(emu_machine *machine, emu_fiber *fiber, unsigned number, emu_vector *zero)
{
    emu_block *block = &machine->blocks[number / machine->launch->threads];
    emu_copies copies = fiber->copies;
    copies.first = copies.count = copies.group = 0;
    *fiber = (emu_fiber){
        .stack = fiber->stack,
        .machine = machine,
        .block = block,
        .warp = &machine->warps[number / EMU_LANES],
        .number = number,
        .thread = number % machine->launch->threads,
        .lane = (int)(number % EMU_LANES),
        .knowledge = {.vector = emu_vector_hold(zero), .clock = 1},
        .copies = copies,
    };
    emu_fiber_prepare(fiber, run_thread);
}

static void start_blocks(emu_machine *machine, unsigned first, unsigned y, unsigned z)
{
    const emu_launch *launch = machine->launch;
    for (unsigned i = 0; i < machine->block_count; i++) {
        emu_block *block = &machine->blocks[i];
        const emu_shadow shadow = block->shadow;
        *block = (emu_block){
            .index = {first + i, y, z},
            .rank = i,
            .number = launch->first_block + first + i + launch->grid[0] * (y + z * launch->grid[1]),
            .shared = machine->shared + i * machine->shared_stride,
            .shadow = shadow,
            .warps = machine->warps + (size_t)i * (launch->threads / EMU_LANES),
            .threads_left = launch->threads,
        };
        memset(block->shared, POISON, launch->shared_bytes);
        emu_shadow_start(&block->shadow, launch->shared_bytes);
    }
}

static void start_warps(emu_machine *machine)
{
    emu_vector *zero = emu_vector_zero(&machine->vectors);
    for (unsigned i = 0; i < machine->warp_count; i++) {
        emu_warp *warp = &machine->warps[i];
        emu_trace *trace = warp->trace;
        if (machine->launch->counting && !trace)
            trace = emu_trace_create();
        else if (trace)
            emu_trace_clear(trace);
        *warp = (emu_warp){
            .lanes = machine->fibers + (size_t)i * EMU_LANES,
            .block = &machine->blocks[i / (machine->launch->threads / EMU_LANES)],
            .ready = EMU_ALL_LANES,
            .index = (int)i,
            .trace = trace,
        };
        for (unsigned lane = 0; lane < EMU_LANES; lane++)
            start_fiber(machine, &warp->lanes[lane], i * EMU_LANES + lane, zero);
    }
    emu_vector_release(&machine->vectors, zero);
}

static void end_cluster(emu_machine *machine)
{
    emu_bulk_end(machine);
    emu_gather_clear(&machine->vectors, &machine->cluster_gather);
    emu_vector_release(&machine->vectors, machine->cluster_completed);
    machine->cluster_completed = NULL;
    machine->cluster_arrived = machine->cluster_phase = machine->engines_used = 0;
    memset(machine->engine_clocks, 0, sizeof machine->engine_clocks);
    for (unsigned i = 0; i < machine->warp_count; i++)
        emu_products_end(&machine->warps[i]);
    for (unsigned i = 0; i < machine->thread_count; i++)
        emu_vector_release(&machine->vectors, machine->fibers[i].knowledge.vector);
    for (unsigned i = 0; i < machine->block_count; i++) {
        for (int b = 0; b < EMU_BARRIERS; b++)
            emu_gather_clear(&machine->vectors, &machine->blocks[i].barriers[b].gather);
        emu_mbarriers_end(&machine->blocks[i]);
    }
    for (unsigned i = 0; machine->launch->counting && i < machine->warp_count; i++)
        emu_trace_flush(machine->warps[i].trace, &machine->counts);
    machine->counts.totals.blocks += machine->block_count;
}

void emu_machine_run(emu_machine *machine, unsigned first, unsigned y, unsigned z)
{
    const uint64_t block =
        first + machine->launch->grid[0] * (y + (uint64_t)z * machine->launch->grid[1]);
    machine->random = machine->launch->seed + block * 0x2545f4914f6cdd1du;
    start_blocks(machine, first, y, z);
    start_warps(machine);
    machine->threads_left = machine->thread_count;
    emu_self = &machine->fibers[0];
    emu_switch(&machine->main_stack_pointer, emu_self->stack_pointer);
    emu_self = NULL;
    end_cluster(machine);
}
