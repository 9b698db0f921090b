/* gpu_limits.c: see gpu_limits.h. What each number is and where it stands: docs/emulator.md,
 * "Limits of GPUs". */
#include "gpu_limits.h"

/* name, multiprocessors, clock, products a clock, memory, exponentials a clock, document */
const gpu_limits gpu_table[] = {
    {"L4", 58, 2.040e9, 512, 300e9, 16, "NVIDIA L4 Tensor Core GPU, datasheet"},
    {"A100 SXM", 108, 1.410e9, 1024, 2039e9, 16, "NVIDIA A100 Tensor Core GPU, datasheet, 80 GB"},
    {"H100 SXM", 132, 1.980e9, 2048, 3350e9, 16,
     "NVIDIA H100 Tensor Core GPU Architecture, whitepaper"},
    {"H200 SXM", 132, 1.980e9, 2048, 4800e9, 16, "NVIDIA H200 Tensor Core GPU, datasheet"},
    {"RTX 4090", 128, 2.520e9, 256, 1008e9, 16, "NVIDIA Ada GPU Architecture, whitepaper"},
    {"RTX 5090", 170, 2.407e9, 256, 1792e9, 16,
     "NVIDIA RTX Blackwell GPU Architecture, whitepaper"},
};
const int gpu_count = sizeof gpu_table / sizeof gpu_table[0];

gpu_bound gpu_bound_of(const gpu_limits *gpu, const emu_totals *totals, double memory_bytes)
{
    const double products_of_mma = 16 * 8 * 16;
    const double clocks = gpu->multiprocessors * gpu->clock;
    /* Two products of 8 bits take the time of one of 16. */
    const double products = (double)(totals->mma + totals->mma8) * products_of_mma +
                            (double)totals->wgmma_products + (double)totals->wgmma8_products / 2;
    gpu_bound bound = {
        .products = products / (gpu->products_per_clock * clocks),
        .exponentials = (double)totals->exp2 / (gpu->exponentials_per_clock * clocks),
        .shared_memory = (double)totals->shared_passes / clocks,
        .memory = memory_bytes / gpu->memory_bytes,
    };
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"tensor cores", bound.products},
                 {"exponentials", bound.exponentials},
                 {"shared memory", bound.shared_memory}};
    for (int i = 0; i < 3; i++) {
        if (parts[i].seconds < bound.longest)
            continue;
        bound.longest = parts[i].seconds;
        bound.longest_name = parts[i].name;
    }
    return bound;
}
