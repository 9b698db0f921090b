/* services.h: what the lab and the program need of a GPU beside plans: memory and timing. absent.c
 * answers where the library has no CUDA part. */
#ifndef FC_CUDA_SERVICES_H
#define FC_CUDA_SERVICES_H

#include "core/internal.h"
#include "cuda/backend.h"

fc_status fc_cuda_allocate(fc_cuda_device *device, size_t bytes, void **memory);
void fc_cuda_free(fc_cuda_device *device, void *memory);

/* Both wait until the copy, and all work before it in the default stream, is done. */
fc_status fc_cuda_upload(fc_cuda_device *device, void *memory, const void *host, size_t bytes);
fc_status fc_cuda_download(fc_cuda_device *device, void *host, const void *memory, size_t bytes);

/* Waits until all work of the device's context is done, in whatever stream. */
fc_status fc_cuda_settle(fc_cuda_device *device);

/* One call to be timed: puts its work into the stream. */
typedef fc_status (*fc_cuda_call)(void *user, fc_stream stream);

/* Seconds a call, `count` samples. Each sample is one replay of a CUDA graph that holds
 * FC_CUDA_CALLS_A_SAMPLE calls one after another, or as many plain calls, in the default stream,
 * timed by the device's own events from the first to the last and divided by their number. Before
 * them come five samples that do not count, or as many as take a twentieth of a second. */
enum { FC_CUDA_CALLS_A_SAMPLE = 20 };
fc_status fc_cuda_time_graph(fc_cuda_device *device, fc_cuda_call call, void *user, double *seconds,
                             int count);
/* As fc_cuda_time_graph, with a graph that holds so many calls. */
fc_status fc_cuda_time_graph_of(fc_cuda_device *device, int calls, fc_cuda_call call, void *user,
                                double *seconds, int count);
fc_status fc_cuda_time_plain(fc_cuda_device *device, fc_cuda_call call, void *user, double *seconds,
                             int count);

/* Compiles `text` in place of a kernel source, "ladder/fused.cu", wherever one of its variants is
 * needed; before the first plan. */
fc_status fc_cuda_use_source(fc_cuda_device *device, const char *file, const char *text);

/* Gives another device, before its first plan, all binaries of this one that were compiled at run
 * time, whatever it would have taken itself. */
fc_status fc_cuda_copy_kernels(const fc_cuda_device *from, fc_cuda_device *to);

/* The variant that plans of this device asked for first: of one plan, the one that runs it. NULL:
 * none yet. */
struct fc_cuda_variant;
const struct fc_cuda_variant *fc_cuda_first_variant(const fc_cuda_device *device);

/* The controls of emu/emu.h where the emulator stands in for the driver; NULL on a real GPU. */
struct emu_control;
const struct emu_control *fc_cuda_emulator(void);

typedef struct fc_cuda_limits {
    int compute_capability; /* 80, 89, 90 */
    int multiprocessors;
    int shared_bytes_a_block;
    int clock_khz;
    int memory_clock_khz;
    int memory_bus_bits;
    int l2_bytes;
    int driver_version; /* 13000 for CUDA 13.0 */
} fc_cuda_limits;
fc_status fc_cuda_read_limits(fc_cuda_device *device, fc_cuda_limits *limits);

#endif
