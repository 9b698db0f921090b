/* emu_fibers.c: the emulator's machine alone, without a driver and a compiled kernel: threads
 * switch, warps multiply, blocks meet. Small enough to run for a foreign processor, whose context
 * switch is its own (emu/switch.S). */
#include "emu/device.h"
#include "emu/launch.h"

#include <stdio.h>

enum { THREADS = 128, BLOCKS = 3 };

static float results[BLOCKS][THREADS];

/* Ones times twos over 16 products make 32; a neighbour's number comes by shuffle. */
static void kernel(const void *args)
{
    (void)args;
    const unsigned thread = emu_thread_x();
    const emu_uint4 ones = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
    const emu_float4 sum =
        emu_mma(EMU_F16, (emu_float4){0}, ones, 0x40004000u, 0x40004000u, __FILE__, __LINE__);
    emu_barrier(0, 0, 1, __FILE__, __LINE__);
    const uint64_t neighbour =
        emu_shuffle(EMU_SHUFFLE_XOR, EMU_ALL_LANES, thread, 1, 32, __FILE__, __LINE__);
    results[emu_block_index(0)][thread] = sum[3] + (float)neighbour * 100;
}

int main(void)
{
    const emu_launch launch = {.start = kernel,
                               .args = "",
                               .grid = {BLOCKS, 1, 1},
                               .threads = THREADS,
                               .cluster = 1,
                               .shared_bytes = 64};
    if (!emu_launch_run(&launch)) {
        fprintf(stderr, "%s\n", emu_launch_report());
        return 1;
    }
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        const int thread = i % THREADS;
        const float expected = 32 + (float)(thread ^ 1) * 100;
        if (results[i / THREADS][thread] != expected) {
            fprintf(stderr, "thread %d: %g, expected %g\n", i, (double)results[i / THREADS][thread],
                    (double)expected);
            return 1;
        }
    }
    return 0;
}
