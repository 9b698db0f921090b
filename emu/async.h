/* async.h: what completes later than it is started. */
#ifndef EMU_ASYNC_H
#define EMU_ASYNC_H

#include "machine.h"

/* A barrier in shared memory. Its eight bytes there hold nothing: the state is here. */
struct emu_mbarrier {
    emu_mbarrier *next;
    size_t offset;
    int arrivals; /* that a phase takes */
    int pending;
    int64_t bytes_pending; /* expected and not come yet */
    unsigned engine;       /* whose completions are those of copies to this mbarrier */
    uint64_t phase;
    emu_gather gather;     /* of the phase that is under way */
    emu_vector *completed; /* what the phase before brought together; NULL before the first */
    uint32_t made_by, made_at;
    uint32_t shown_at; /* who has waited for so many cluster barriers knows of it; 0: no such */
    uintptr_t made_pc;
};

void emu_mbarriers_end(emu_block *block);

/* The mbarrier at an address of the cluster; ends the launch when there is none, or when the thread
 * can't know of it. */
emu_mbarrier *emu_mbarrier_find(emu_fiber *self, const void *memory, uintptr_t pc);

/* Bytes of a copy have come. What the engine did up to its clock goes to those who wait. */
void emu_mbarrier_complete(emu_machine *machine, emu_mbarrier *barrier, int64_t bytes);

/* Completes one bulk copy to shared memory; false when none is under way. */
bool emu_bulk_complete_one(emu_machine *machine);
/* By the last thread of a block: ends the launch when something still comes to the block's shared
 * memory, which is another block's then. */
void emu_bulk_check_block_end(emu_fiber *self);
/* The end of a cluster: stores reach memory, what is left of a launch that failed is dropped. */
void emu_bulk_end(emu_machine *machine);
void emu_products_end(emu_warp *warp);

/* A plain access to the thread's own stack, after its first wgmma_fence: before, there are no
 * products, and the fence forgets what was touched. Ends the launch when a wgmma that has not been
 * waited for uses the bytes as registers. */
void emu_touch_registers(emu_fiber *self, const void *memory, unsigned bytes, uintptr_t pc);

static inline uint32_t emu_product_engine(const emu_warp *warp)
{
    return warp->lanes->machine->thread_count + EMU_ENGINES + 2 * (uint32_t)warp->index;
}

static inline uint32_t emu_store_engine(const emu_warp *warp)
{
    return emu_product_engine(warp) + 1;
}

static inline uint32_t emu_previous_kernel(const emu_machine *machine)
{
    return machine->thread_count + EMU_ENGINES + 2 * machine->warp_count;
}

/* Where an address of the cluster (device.h) points. */
void *emu_cluster_pointer(emu_fiber *self, unsigned address, uintptr_t pc);

#endif
