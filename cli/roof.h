/* roof.h: what a device can do at most. */
#ifndef CLI_ROOF_H
#define CLI_ROOF_H

#include "cuda/services.h"
#include "json.h"

/* Zeros where nobody knows. */
typedef struct cli_roof {
    double tflops; /* of a GPU: dense f16 products with FP32 sums; of a CPU: f32 multiply-adds */
    double gigabytes_per_second;
    bool measured; /* on this very device; otherwise what its clocks allow */
} cli_roof;

/* What a call reaches of what its operations and bytes allow; 0 where the roof is not known. */
double cli_roof_part(const cli_roof *roof, double operations, double bytes, double seconds);

cli_roof cli_roof_by_clocks(const fc_cuda_limits *limits);

/* Takes some tenths of a second; by its clocks where nothing can be measured. */
cli_roof cli_roof_measure(const fc_context *context);

/* "801 TFLOP/s, 4310 GB/s read, measured on this device", or "not known" */
enum { CLI_ROOF_TEXT_BYTES = 128 };
const char *cli_roof_text(const cli_roof *roof, char text[CLI_ROOF_TEXT_BYTES]);
void cli_roof_json(json_writer *json, const cli_roof *roof);

#endif
