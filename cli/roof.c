/* roof.c: see roof.h. */
#include "roof.h"

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

void cli_roof_json(json_writer *json, const cli_roof *roof)
{
    json_number(json, "most_tflops", roof->tflops);
    json_number(json, "most_gigabytes_per_second", roof->gigabytes_per_second);
}
