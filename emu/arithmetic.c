/* arithmetic.c: where a thread is, atomics, conversions, the exponential. */
#include "access.h"
#include "device.h"
#include "element.h"

#include <math.h>

/* 1. Where a thread is. */

unsigned emu_thread_x(void)
{
    return emu_self->thread;
}

unsigned emu_block_index(int axis)
{
    return emu_self->block->index[axis];
}

unsigned emu_block_size(int axis)
{
    return axis == 0 ? emu_self->machine->launch->threads : 1;
}

unsigned emu_grid_size(int axis)
{
    return emu_self->machine->launch->grid[axis];
}

void *emu_shared_memory(void)
{
    return emu_self->block->shared;
}

/* As on sm_90, where the first 1024 bytes are the system's. */
unsigned emu_shared_address(const void *pointer)
{
    return (unsigned)((uintptr_t)pointer - (uintptr_t)emu_self->block->shared) + EMU_SHARED_BASE;
}

/* 2. Global memory, up to 16 bytes at a time. */

emu_uint4 emu_load_global(const void *global, int bytes)
{
    emu_uint4 chunk = {0};
    emu_check_global(emu_self, global, (unsigned)bytes, false, 0, EMU_CALLER);
    emu_count_access(emu_self, global, (unsigned)bytes, false, EMU_CALLER);
    memcpy(&chunk, global, (size_t)bytes);
    return chunk;
}

void emu_store_global(void *global, emu_uint4 chunk, int bytes)
{
    emu_check_global(emu_self, global, (unsigned)bytes, true, 0, EMU_CALLER);
    emu_count_access(emu_self, global, (unsigned)bytes, true, EMU_CALLER);
    memcpy(global, &chunk, (size_t)bytes);
}

/* 3. Atomics. Other blocks run on other cores: they have to be real ones. */

#define DEFINE_ATOMIC(name, type, sum)                                                       \
    static type name##_new(int how, type old, type value)                                    \
    {                                                                                        \
        switch (how) {                                                                       \
        case EMU_ATOMIC_ADD: return sum;                                                     \
        case EMU_ATOMIC_MIN: return value < old ? value : old;                               \
        case EMU_ATOMIC_MAX: return value > old ? value : old;                               \
        default: return value;                                                               \
        }                                                                                    \
    }                                                                                        \
    type name(int how, type *memory, type value)                                             \
    {                                                                                        \
        emu_check_access(emu_self, memory, sizeof *memory, true, EMU_ATOMIC, EMU_CALLER);    \
        emu_count_access(emu_self, memory, sizeof *memory, true, EMU_CALLER);                \
        type old, new_value;                                                                 \
        __atomic_load(memory, &old, __ATOMIC_SEQ_CST);                                       \
        do                                                                                   \
            new_value = name##_new(how, old, value);                                         \
        while (!__atomic_compare_exchange(memory, &old, &new_value, false, __ATOMIC_SEQ_CST, \
                                          __ATOMIC_SEQ_CST));                                \
        return old;                                                                          \
    }
DEFINE_ATOMIC(emu_atomic_float, float, old + value)
DEFINE_ATOMIC(emu_atomic_unsigned, unsigned, old + value)
DEFINE_ATOMIC(emu_atomic_int, int, (int)((unsigned)old + (unsigned)value))

unsigned emu_atomic_cas(unsigned *memory, unsigned expected, unsigned value)
{
    emu_check_access(emu_self, memory, sizeof *memory, true, EMU_ATOMIC, EMU_CALLER);
    emu_count_access(emu_self, memory, sizeof *memory, true, EMU_CALLER);
    __atomic_compare_exchange_n(memory, &expected, value, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return expected;
}

/* 4. Arithmetic. */

static float flush_subnormal(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* ex2.approx.ftz: subnormals become 0 on the way in and out. */
float emu_exp2(float x)
{
    emu_self->machine->counts.totals.exp2++;
    return flush_subnormal(exp2f(flush_subnormal(x)));
}

/* lg2.approx.ftz and rcp.approx.ftz. */
float emu_log2(float x)
{
    return flush_subnormal(log2f(flush_subnormal(x)));
}

float emu_reciprocal(float x)
{
    return flush_subnormal(1 / flush_subnormal(x));
}

float emu_f16_to_f32(unsigned short bits)
{
    return emu_widen_f16(bits);
}

unsigned short emu_f32_to_f16(float value)
{
    return emu_narrow_f16(value);
}

unsigned short emu_f32_to_bf16(float value)
{
    return fc_bf16_from_double(value);
}
