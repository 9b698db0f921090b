/* device.h: one GPU of a context: its limits, its loaded kernels, launches. */
#ifndef FC_CUDA_DEVICE_H
#define FC_CUDA_DEVICE_H

#include "cuda/backend.h"
#include "cuda/driver.h"
#include "cuda/kernel_shape.h"
#include "cuda/variants.h"
#include "jit/jit.h"

typedef struct fc_cuda_function {
    CUfunction handle;
    kernel_shape shape;
    int registers;
    int static_shared_bytes;
    int blocks_at_once; /* on the whole GPU */
} fc_cuda_function;

typedef struct fc_cuda_module fc_cuda_module;

struct fc_cuda_device {
    CUdevice device;
    CUcontext context;
    bool retained; /* the primary context, to be released */
    char name[128];
    int compute_capability; /* 80, 89, 90 */
    int multiprocessors;
    int most_shared_bytes; /* that a block may ask for */
    pthread_mutex_t lock;  /* of modules */
    fc_cuda_module *modules;
    jit_source own; /* stands in for the file of its name (fc_cuda_use_source); NULL: none */
    char *tuned;    /* the text of FLASHCORE_TUNED (tuned.h), or NULL */
};

/* Makes the device's context current, and the caller's again. A call must not fail in between
 * without leaving. */
fc_status fc_cuda_enter(const fc_cuda_device *device, bool *pushed);
void fc_cuda_leave(bool pushed);

/* A kernel of a variant, loaded at its first use. It stays valid until the device is closed. */
fc_status fc_cuda_find_function(fc_cuda_device *device, const fc_cuda_variant *variant,
                                const char *kernel_name, const fc_cuda_function **function);

/* The same of a variant that is built anew with these macros (rebuild.h), at its first use. */
fc_status fc_cuda_find_rebuilt(fc_cuda_device *device, const fc_cuda_variant *variant,
                               const char *macros, const fc_cuda_function **function);

/* Loads `cubin` in place of a variant's own binary, for this device; only before the first plan
 * that uses the variant. */
fc_status fc_cuda_replace_variant(fc_cuda_device *device, const fc_cuda_variant *variant,
                                  const void *cubin, size_t cubin_bytes);

typedef struct fc_cuda_launch {
    const fc_cuda_function *function;
    unsigned grid[3];
    unsigned cluster; /* blocks along x that form a cluster; 0 or 1: none */
    bool dependent;   /* programmatic dependent launch: may start while the kernel before it ends */
    const void *args; /* the kernel's one argument */
} fc_cuda_launch;

/* Launches into the caller's stream; neither waits nor allocates. */
fc_status fc_cuda_run(const fc_cuda_device *device, const fc_cuda_launch *launch, fc_stream stream);

#endif
