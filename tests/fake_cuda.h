/* fake_cuda.h: a stand-in for libcuda.so.1 that a test tells how to fail, and that counts what is
 * held. The library opens it through FLASHCORE_CUDA_DRIVER like the real one. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <cuda.h>

enum { FAKE_CUDA_MOST_DEVICES = 2 };

typedef struct fake_cuda {
    /* What to do. */
    CUresult init_result;
    int device_count;
    CUresult retain_result;
    CUresult load_result;
    CUresult launch_result;
    CUresult tensor_map_result;
    CUresult allocate_result;
    int compute_major, compute_minor;
    int shared_bytes_a_block;
    float milliseconds; /* between any two events */

    /* What happened. */
    int contexts_held;
    int contexts_pushed;
    int modules_held;
    int allocations_held;
    int streams_held, events_held, graphs_held, replays_held;
    int outside_default_stream; /* replays, and events recorded */
    int launches;
    int synchronisations;
    CUlaunchConfig last_launch;
    char last_kernel[64];   /* of the last launch */
    CUcontext last_context; /* current at the last launch */
    CUlaunchAttribute last_attributes[4];
    CUcontext current;
} fake_cuda;

/* The one fake; a test finds it with dlsym("fake_cuda_state"). */
extern fake_cuda fake_cuda_state;

#endif
