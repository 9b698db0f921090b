/* backend.h: what the core knows of CUDA; absent.c answers where the library has no CUDA part. */
#ifndef FC_CUDA_BACKEND_H
#define FC_CUDA_BACKEND_H

#include "flashcore.h"

typedef struct fc_cuda_device fc_cuda_device;

/* Number of GPUs; 0 without a driver, and then fc_cuda_absence says why. */
int fc_cuda_device_count(void);
const char *fc_cuda_absence(void);

fc_status fc_cuda_device_open(int index, fc_cuda_device **device);
void fc_cuda_device_close(fc_cuda_device *device);
const char *fc_cuda_device_name(const fc_cuda_device *device);

#endif
