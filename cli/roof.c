/* roof.c: see roof.h. */
#include "roof.h"
#include "cpu_floors.h"
#include "cuda/floors/floors.h"

#include <math.h>
#include <stdio.h>

/* Operations of dense f16 tensor cores a clock and multiprocessor, by NVIDIA's white papers. */
static double tensor_operations_a_clock(int compute_capability)
{
    return compute_capability >= 90 ? 4096 : compute_capability == 80 ? 2048 : 1024;
}

cli_roof cli_roof_by_clocks(const fc_cuda_limits *limits)
{
    return (cli_roof){.tflops = tensor_operations_a_clock(limits->compute_capability) *
                                limits->multiprocessors * (double)limits->clock_khz * 1e3 * 1e-12,
                      .gigabytes_per_second = 2.0 * (double)limits->memory_clock_khz * 1e3 *
                                              limits->memory_bus_bits / 8 * 1e-9};
}

cli_roof cli_roof_measure(const fc_context *context)
{
    const double seconds = 0.1; /* of each: some dozens of launches */
    fc_cuda_floors floors;
    fc_cuda_limits limits;
    if (!context->cuda)
        return (cli_roof){.tflops = lab_cpu_operations_a_second(context, seconds) * 1e-12,
                          .gigabytes_per_second = lab_cpu_bytes_a_second(context, seconds) * 1e-9,
                          .measured = true};
    if (fc_cuda_measure_floors(context->cuda, seconds, &floors) == FC_OK)
        return (cli_roof){.tflops = floors.operations_a_second * 1e-12,
                          .gigabytes_per_second = floors.bytes_a_second * 1e-9,
                          .measured = true};
    return fc_cuda_read_limits(context->cuda, &limits) == FC_OK ? cli_roof_by_clocks(&limits)
                                                                : (cli_roof){0};
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
    json_boolean(json, "most_measured", roof->measured);
}

const char *cli_roof_text(const cli_roof *roof, char text[CLI_ROOF_TEXT_BYTES])
{
    if (roof->tflops == 0)
        return "not known";
    snprintf(text, CLI_ROOF_TEXT_BYTES, "%.4g TFLOP/s, %.4g GB/s read, %s", roof->tflops,
             roof->gigabytes_per_second,
             roof->measured ? "measured on this device" : "by its clocks: nothing was measured");
    return text;
}
