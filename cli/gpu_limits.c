/* gpu_limits.c: see gpu_limits.h. Peaks of dense f16 products with FP32 accumulation. Exponentials
 * are 16 a clock in every multiprocessor here: CUDA C++ Programming Guide, "Arithmetic
 * Instructions", throughput of native exp2. */
#include "gpu_limits.h"

const gpu_limits gpu_table[] = {
    {"L4", 58, 2.040e9, 121e12 / 2, 300e9, 16, "NVIDIA L4 datasheet"},
    {"A100 SXM", 108, 1.410e9, 312e12 / 2, 2039e9, 16, "NVIDIA A100 datasheet, 80 GB"},
    {"H100 SXM", 132, 1.980e9, 989.4e12 / 2, 3350e9, 16, "NVIDIA H100 architecture whitepaper"},
    {"H200 SXM", 132, 1.980e9, 989.4e12 / 2, 4800e9, 16, "NVIDIA H200 datasheet"},
    {"RTX 4090", 128, 2.520e9, 165.2e12 / 2, 1008e9, 16, "NVIDIA Ada architecture whitepaper"},
    {"RTX 5090", 170, 2.407e9, 209.5e12 / 2, 1792e9, 16,
     "NVIDIA RTX Blackwell architecture whitepaper"},
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
        .products = products / gpu->products,
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
