/* access.c: see access.h. The compiler calls the functions at the end for every load and store of a
 * kernel that may be seen by others: they are those of ThreadSanitizer, in another role. */
#include "access.h"

#include "async.h"
#include "memory.h"

#include <stdio.h>

/* 1. Reports. */

/* Of the gaps between blocks too: the offset is then past the block's end. */
static bool is_near_shared(const emu_machine *machine, const void *memory, emu_block **block,
                           size_t *offset)
{
    const size_t distance = (size_t)((uintptr_t)memory - (uintptr_t)machine->shared);
    if (distance < machine->shared_stride) { /* the common case, without a division */
        *block = (emu_block *)&machine->blocks[0];
        *offset = distance;
        return true;
    }
    if (distance >= machine->shared_stride * machine->block_count)
        return false;
    *block = (emu_block *)&machine->blocks[distance / machine->shared_stride];
    *offset = distance % machine->shared_stride;
    return true;
}

void emu_fail_access(emu_fiber *by, const char *what, const void *memory, unsigned bytes,
                     bool writes, uintptr_t pc)
{
    char self[96], where[200];
    emu_block *block;
    size_t offset;
    emu_describe_thread(by, self);
    if (is_near_shared(by->machine, memory, &block, &offset))
        snprintf(where, sizeof where, "shared memory at offset %zu of %zu", offset,
                 by->machine->launch->shared_bytes);
    else
        emu_memory_describe(memory, where, sizeof where);
    emu_fail(by->machine, "%s: %s %s %u bytes of %s (\001%c)", what, self,
             writes ? "writes" : "reads", bytes, where,
             emu_place_mark(emu_add_place(by->machine, pc)));
}

/* 2. Checks. */

bool emu_find_shared(const emu_machine *machine, const void *memory, unsigned bytes,
                     emu_block **block, size_t *offset)
{
    return is_near_shared(machine, memory, block, offset) &&
           *offset + bytes <= machine->launch->shared_bytes;
}

static inline void check_alignment(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                                   uintptr_t pc)
{
    const unsigned alignment = bytes < 16 ? bytes : 16;
    if ((uintptr_t)memory & (alignment - 1))
        emu_fail_access(by, "misaligned", memory, bytes, writes, pc);
}

static bool try_shared(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                       unsigned flags, uintptr_t pc)
{
    emu_block *block;
    size_t offset;
    if (!is_near_shared(by->machine, memory, &block, &offset))
        return false;
    check_alignment(by, memory, bytes, writes, pc);
    if (offset + bytes > by->machine->launch->shared_bytes)
        emu_fail_access(by, "out of bounds", memory, bytes, writes, pc);
    const emu_access access = {.by = by,
                               .shadow = &block->shadow,
                               .offset = offset,
                               .bytes = bytes,
                               .flags = flags,
                               .pc = pc};
    if (writes)
        emu_shadow_write(&access);
    else
        emu_shadow_read(&access);
    return true;
}

static void __attribute__((noreturn))
report_two_writers(emu_fiber *by, const void *memory, uint32_t other, uintptr_t pc)
{
    const emu_launch *launch = by->machine->launch;
    const uint32_t self = by->block->number, first = other < self ? other : self;
    const uint32_t numbers[2] = {first, first == self ? other : self};
    char blocks[2][48], where[200];
    for (int i = 0; i < 2; i++) {
        const uint32_t index = numbers[i] - launch->first_block;
        snprintf(blocks[i], sizeof blocks[i], "(%u, %u, %u)", index % launch->grid[0],
                 index / launch->grid[0] % launch->grid[1],
                 index / launch->grid[0] / launch->grid[1]);
    }
    emu_memory_describe(memory, where, sizeof where);
    emu_fail(by->machine, "race: blocks %s and %s both write %s (\001%c), not by atomics",
             blocks[0], blocks[1], where, emu_place_mark(emu_add_place(by->machine, pc)));
}

/* Bytes that are open: no two blocks of a launch write one, and what a kernel wrote that may still
 * be running is touched by those alone who have waited for it. */
static void check_writers(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                          unsigned flags, uintptr_t pc)
{
    const emu_launch *launch = by->machine->launch;
    const emu_open_memory *open = &by->machine->open;
    uint32_t *writers = open->writers + ((uintptr_t)memory - open->low);
    const uint32_t self = by->block->number;
    const bool may_run = launch->first_running < launch->first_block && !emu_knows_previous(by);
    for (unsigned i = 0; may_run && i < bytes; i++) {
        const uint32_t writer = __atomic_load_n(&writers[i], __ATOMIC_RELAXED);
        if (writer >= launch->first_running && writer < launch->first_block)
            emu_fail_access(by, "unfinished kernel, wait_for_previous_kernel is missing", memory,
                            bytes, writes, pc);
    }
    for (unsigned i = 0; writes && !(flags & EMU_ATOMIC) && i < bytes; i++) {
        const uint32_t before = __atomic_exchange_n(&writers[i], self, __ATOMIC_RELAXED);
        if (before >= launch->first_block && before != self)
            report_two_writers(by, (const unsigned char *)memory + i, before, pc);
    }
}

void emu_check_global(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc)
{
    emu_machine *machine = by->machine;
    const uintptr_t low = (uintptr_t)memory;
    check_alignment(by, memory, bytes, writes, pc);
    if ((low >= machine->open.low && low + bytes <= machine->open.high) ||
        emu_memory_find(memory, bytes, &machine->open))
        check_writers(by, memory, bytes, writes, flags, pc);
    else if (writes || !emu_memory_is_constant(memory))
        emu_fail_access(by, "out of bounds", memory, bytes, writes, pc);
}

void emu_check_access(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc)
{
    if (!try_shared(by, memory, bytes, writes, flags, pc))
        emu_check_global(by, memory, bytes, writes, flags, pc);
}

void emu_check_shared(emu_fiber *by, const void *memory, unsigned bytes, bool writes,
                      unsigned flags, uintptr_t pc)
{
    if (!try_shared(by, memory, bytes, writes, flags, pc))
        emu_fail_access(by, "not shared memory", memory, bytes, writes, pc);
}

void emu_count_access(emu_fiber *by, const void *memory, unsigned bytes, bool writes, uintptr_t pc)
{
    emu_block *block;
    size_t offset;
    if (!by->warp->trace)
        return;
    if (is_near_shared(by->machine, memory, &block, &offset))
        emu_trace_access(by->warp->trace, by->lane, pc, EMU_SHARED_MEMORY, writes, offset, bytes);
    else if (!emu_memory_is_constant(memory))
        emu_trace_access(by->warp->trace, by->lane, pc, EMU_GLOBAL_MEMORY, writes,
                         (uintptr_t)memory, bytes);
}

/* 3. The compiler's calls. */

#define EXPORT __attribute__((visibility("default")))

static inline void plain_access(void *memory, unsigned bytes, bool writes, uintptr_t pc)
{
    emu_fiber *self = emu_self;
    if (!self)
        return;
    if ((uintptr_t)memory - (uintptr_t)self->stack < EMU_STACK_BYTES) {
        if (self->registers.fenced)
            emu_touch_registers(self, memory, bytes, pc);
        return;
    }
    emu_check_access(self, memory, bytes, writes, 0, pc);
    if (self->warp->trace)
        emu_count_access(self, memory, bytes, writes, pc);
}

#define DEFINE_ACCESS(name, bytes, writes)               \
    EXPORT void __tsan_##name(void *memory);             \
    void __tsan_##name(void *memory)                     \
    {                                                    \
        plain_access(memory, bytes, writes, EMU_CALLER); \
    }
#define DEFINE_ACCESSES(bytes)                         \
    DEFINE_ACCESS(read##bytes, bytes, false)           \
    DEFINE_ACCESS(write##bytes, bytes, true)           \
    DEFINE_ACCESS(unaligned_read##bytes, bytes, false) \
    DEFINE_ACCESS(unaligned_write##bytes, bytes, true) \
    DEFINE_ACCESS(volatile_read##bytes, bytes, false)  \
    DEFINE_ACCESS(volatile_write##bytes, bytes, true)
DEFINE_ACCESSES(1)
DEFINE_ACCESSES(2)
DEFINE_ACCESSES(4)
DEFINE_ACCESSES(8)
DEFINE_ACCESSES(16)

static void range_access(unsigned char *memory, size_t bytes, bool writes, uintptr_t pc)
{
    for (size_t i = 0; i < bytes; i += 4)
        plain_access(memory + i, bytes - i < 4 ? (unsigned)(bytes - i) : 4, writes, pc);
}

EXPORT void __tsan_read_range(void *memory, size_t bytes);
void __tsan_read_range(void *memory, size_t bytes)
{
    range_access(memory, bytes, false, EMU_CALLER);
}

EXPORT void __tsan_write_range(void *memory, size_t bytes);
void __tsan_write_range(void *memory, size_t bytes)
{
    range_access(memory, bytes, true, EMU_CALLER);
}

EXPORT void __tsan_init(void);
void __tsan_init(void)
{
}
