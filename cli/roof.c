/* roof.c: see roof.h. */
#include "roof.h"

#include <math.h>

/* Operations of dense f16 tensor cores a clock and multiprocessor, by NVIDIA's white papers. */
static double tensor_operations_a_clock(int compute_capability)
{
    return compute_capability >= 90 ? 4096 : compute_capability == 80 ? 2048 : 1024;
}

cli_roof cli_roof_of(const fc_cuda_limits *limits)
{
    return (cli_roof){.tflops = tensor_operations_a_clock(limits->compute_capability) *
                                limits->multiprocessors * (double)limits->clock_khz * 1e3 * 1e-12,
                      .gigabytes_per_second = 2.0 * (double)limits->memory_clock_khz * 1e3 *
                                              limits->memory_bus_bits / 8 * 1e-9};
}

double cli_roof_part(const cli_roof *roof, double operations, double bytes, double seconds)
{
    if (roof->tflops == 0 || roof->gigabytes_per_second == 0)
        return 0;
    const double by_products = operations / (roof->tflops * 1e12);
    const double by_memory = bytes / (roof->gigabytes_per_second * 1e9);
    return fmax(by_products, by_memory) / seconds;
}

void cli_roof_json(json_writer *json, const cli_roof *roof)
{
    json_number(json, "most_tflops", roof->tflops);
    json_number(json, "most_gigabytes_per_second", roof->gigabytes_per_second);
}
