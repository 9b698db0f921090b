/* roof.h: what a device can do at most. */
#ifndef CLI_ROOF_H
#define CLI_ROOF_H

#include "cuda/services.h"
#include "json.h"

/* By its clocks; 0 where nobody knows. */
typedef struct cli_roof {
    double tflops; /* dense f16 products with FP32 sums */
    double gigabytes_per_second;
} cli_roof;

/* What a call reaches of what its operations and bytes allow; 0 where the roof is not known. */
double cli_roof_part(const cli_roof *roof, double operations, double bytes, double seconds);

cli_roof cli_roof_of(const fc_cuda_limits *limits);
void cli_roof_json(json_writer *json, const cli_roof *roof);

#endif
