/* services.c: memory and timing on a GPU, for the lab. */
#include "cuda/services.h"

#include "cuda/device.h"

/* Runs `statement` with the device's context current. */
#define WITHIN(device, status, statement)             \
    do {                                              \
        bool pushed_;                                 \
        (status) = fc_cuda_enter((device), &pushed_); \
        if ((status) == FC_OK) {                      \
            statement;                                \
            fc_cuda_leave(pushed_);                   \
        }                                             \
    } while (0)

fc_status fc_cuda_allocate(fc_cuda_device *d, size_t bytes, void **memory)
{
    CUdeviceptr pointer = 0;
    fc_status status;
    WITHIN(d, status,
           status =
               fc_cuda_check(fc_cuda()->memory_allocate(&pointer, bytes), "allocating memory"));
    *memory = (void *)(uintptr_t)pointer;
    return status;
}

void fc_cuda_free(fc_cuda_device *d, void *memory)
{
    fc_status status;
    if (memory)
        WITHIN(d, status, fc_cuda()->memory_free((CUdeviceptr)(uintptr_t)memory));
}

fc_status fc_cuda_upload(fc_cuda_device *d, void *memory, const void *host, size_t bytes)
{
    fc_status status;
    WITHIN(d, status,
           status =
               fc_cuda_check(fc_cuda()->copy_to_device((CUdeviceptr)(uintptr_t)memory, host, bytes),
                             "copying to the device"));
    return status;
}

fc_status fc_cuda_download(fc_cuda_device *d, void *host, const void *memory, size_t bytes)
{
    fc_status status;
    WITHIN(d, status,
           status =
               fc_cuda_check(fc_cuda()->copy_to_host(host, (CUdeviceptr)(uintptr_t)memory, bytes),
                             "copying from the device"));
    return status;
}

fc_status fc_cuda_settle(fc_cuda_device *d)
{
    fc_status status;
    WITHIN(d, status,
           status = fc_cuda_check(fc_cuda()->context_synchronize(), "waiting for the device"));
    return status;
}

fc_status fc_cuda_read_limits(fc_cuda_device *d, fc_cuda_limits *limits)
{
    const fc_cuda_driver *cuda = fc_cuda();
    *limits = (fc_cuda_limits){.compute_capability = d->compute_capability,
                               .multiprocessors = d->multiprocessors,
                               .shared_bytes_a_block = d->most_shared_bytes};
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &limits->clock_khz},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &limits->memory_clock_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &limits->memory_bus_bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits->l2_bytes},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        FC_CUDA_TRY(cuda->device_attribute(wanted[i].value, wanted[i].attribute, d->device),
                    "reading the device's limits");
    return fc_cuda_check(cuda->driver_version(&limits->driver_version), "reading the version");
}

/* What a timing needs; whatever part exists is released at the end. */
typedef struct timing {
    int calls; /* of a sample */
    fc_cuda_call call;
    void *user;
    CUstream captured; /* the default stream cannot be */
    CUevent start, stop;
    CUgraph graph;
    CUgraphExec replay; /* NULL: plain calls */
} timing;

static fc_status start_timing(timing *t)
{
    const fc_cuda_driver *cuda = fc_cuda();
    FC_CUDA_TRY(cuda->event_create(&t->start, CU_EVENT_DEFAULT), "making an event");
    return fc_cuda_check(cuda->event_create(&t->stop, CU_EVENT_DEFAULT), "making an event");
}

static void end_timing(timing *t)
{
    const fc_cuda_driver *cuda = fc_cuda();
    if (t->replay)
        cuda->graph_exec_destroy(t->replay);
    if (t->graph)
        cuda->graph_destroy(t->graph);
    if (t->start)
        cuda->event_destroy(t->start);
    if (t->stop)
        cuda->event_destroy(t->stop);
    if (t->captured)
        cuda->stream_destroy(t->captured);
}

static fc_status call_in_a_row(const timing *t, CUstream stream)
{
    for (int i = 0; i < t->calls; i++)
        FC_TRY(t->call(t->user, stream));
    return FC_OK;
}

static fc_status capture(timing *t)
{
    const fc_cuda_driver *cuda = fc_cuda();
    FC_CUDA_TRY(cuda->stream_create(&t->captured, CU_STREAM_NON_BLOCKING), "making a stream");
    FC_CUDA_TRY(cuda->capture_begin(t->captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                "starting to capture");
    const fc_status called = call_in_a_row(t, t->captured);
    const CUresult ended = cuda->capture_end(t->captured, &t->graph);
    FC_TRY(called);
    FC_CUDA_TRY(ended, "capturing a graph");
    return fc_cuda_check(cuda->graph_instantiate(&t->replay, t->graph, 0), "making a graph");
}

/* In the default stream, like all else that the lab runs: once a process has launched kernels in
 * two streams, each kernel of any replay begins 0.17 µs later (H200, driver 580). */
static fc_status sample(const timing *t, double *seconds)
{
    const fc_cuda_driver *cuda = fc_cuda();
    CUstream stream = NULL;
    float milliseconds = 0;
    FC_CUDA_TRY(cuda->event_record(t->start, stream), "recording an event");
    if (t->replay)
        FC_CUDA_TRY(cuda->graph_launch(t->replay, stream), "replaying a graph");
    else
        FC_TRY(call_in_a_row(t, stream));
    FC_CUDA_TRY(cuda->event_record(t->stop, stream), "recording an event");
    FC_CUDA_TRY(cuda->event_synchronize(t->stop), "waiting for the device");
    FC_CUDA_TRY(cuda->event_milliseconds(&milliseconds, t->start, t->stop), "reading the time");
    *seconds = (double)milliseconds / 1000 / t->calls;
    return FC_OK;
}

/* The first samples find cold caches and low clocks; long ones leave that behind sooner. */
static fc_status warm_up(const timing *t)
{
    enum { MOST_SAMPLES = 5 };
    const double enough = 0.05;
    double busy = 0, seconds;
    for (int i = 0; i < MOST_SAMPLES && busy < enough; i++) {
        FC_TRY(sample(t, &seconds));
        busy += seconds * t->calls;
    }
    return FC_OK;
}

static fc_status take_samples(timing *t, bool graph, double *seconds, int count)
{
    FC_TRY(start_timing(t));
    if (graph)
        FC_TRY(capture(t));
    FC_TRY(warm_up(t));
    for (int i = 0; i < count; i++)
        FC_TRY(sample(t, &seconds[i]));
    return FC_OK;
}

static fc_status time_calls(fc_cuda_device *d, timing t, bool graph, double *seconds, int count)
{
    fc_status status;
    WITHIN(d, status, {
        status = take_samples(&t, graph, seconds, count);
        end_timing(&t);
    });
    return status;
}

fc_status fc_cuda_time_graph_of(fc_cuda_device *d, int calls, fc_cuda_call call, void *user,
                                double *seconds, int count)
{
    const timing t = {.calls = calls, .call = call, .user = user};
    return time_calls(d, t, true, seconds, count);
}

fc_status fc_cuda_time_graph(fc_cuda_device *d, fc_cuda_call call, void *user, double *seconds,
                             int count)
{
    return fc_cuda_time_graph_of(d, FC_CUDA_CALLS_A_SAMPLE, call, user, seconds, count);
}

fc_status fc_cuda_time_plain(fc_cuda_device *d, fc_cuda_call call, void *user, double *seconds,
                             int count)
{
    const timing t = {.calls = FC_CUDA_CALLS_A_SAMPLE, .call = call, .user = user};
    return time_calls(d, t, false, seconds, count);
}
