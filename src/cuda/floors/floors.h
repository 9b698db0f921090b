/* floors.h: the two floors under every call, measured on the GPU itself: no call is faster than its
 * products take on the tensor cores, nor than its bytes take to be read. */
#ifndef FC_CUDA_FLOORS_H
#define FC_CUDA_FLOORS_H

#include "cuda/backend.h"

typedef struct fc_cuda_floors {
    double operations_a_second; /* f16 products with FP32 sums, by the fastest instruction it has */
    double bytes_a_second;      /* read from memory far larger than L2 */
} fc_cuda_floors;

/* For about so many seconds each, better when the clocks are warm already. Fails where there is no
 * clock (the emulator) or no memory. */
fc_status fc_cuda_measure_floors(fc_cuda_device *device, double seconds, fc_cuda_floors *floors);

#endif
