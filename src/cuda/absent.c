/* absent.c: stands in for the CUDA backend in a library that was built without the toolkit. */
#include "core/internal.h"
#include "cuda/floors/floors.h"
#include "cuda/services.h"
#include "cuda/variants.h"

int fc_cuda_device_count(void)
{
    return 0;
}

const char *fc_cuda_absence(void)
{
    return "this library was built without its CUDA part (no CUDA toolkit was found)";
}

static fc_status refuse(void)
{
    return fc_fail(FC_ERROR_NO_DEVICE, "%s", fc_cuda_absence());
}

fc_status fc_cuda_device_open(int index, fc_cuda_device **device)
{
    (void)index;
    *device = NULL;
    return refuse();
}

void fc_cuda_device_close(fc_cuda_device *device)
{
    (void)device;
}

const char *fc_cuda_device_name(const fc_cuda_device *device)
{
    (void)device;
    return "";
}

const fc_cuda_variant fc_cuda_variants[1];
const int fc_cuda_variant_count = 0;

const fc_cuda_variant *fc_cuda_find_variant(const char *name)
{
    (void)name;
    return NULL;
}

/* Nobody has a device to call these with. */

fc_status fc_cuda_allocate(fc_cuda_device *device, size_t bytes, void **memory)
{
    (void)device, (void)bytes;
    *memory = NULL;
    return refuse();
}

void fc_cuda_free(fc_cuda_device *device, void *memory)
{
    (void)device, (void)memory;
}

fc_status fc_cuda_upload(fc_cuda_device *device, void *memory, const void *host, size_t bytes)
{
    (void)device, (void)memory, (void)host, (void)bytes;
    return refuse();
}

fc_status fc_cuda_download(fc_cuda_device *device, void *host, const void *memory, size_t bytes)
{
    (void)device, (void)host, (void)memory, (void)bytes;
    return refuse();
}

fc_status fc_cuda_settle(fc_cuda_device *device)
{
    (void)device;
    return refuse();
}

fc_status fc_cuda_time_graph(fc_cuda_device *device, fc_cuda_call call, void *user, double *seconds,
                             int count)
{
    (void)device, (void)call, (void)user, (void)seconds, (void)count;
    return refuse();
}

fc_status fc_cuda_time_graph_of(fc_cuda_device *device, int calls, fc_cuda_call call, void *user,
                                double *seconds, int count)
{
    (void)device, (void)calls, (void)call, (void)user, (void)seconds, (void)count;
    return refuse();
}

fc_status fc_cuda_time_plain(fc_cuda_device *device, fc_cuda_call call, void *user, double *seconds,
                             int count)
{
    (void)device, (void)call, (void)user, (void)seconds, (void)count;
    return refuse();
}

fc_status fc_cuda_measure_floors(fc_cuda_device *device, double seconds, fc_cuda_floors *floors)
{
    (void)device, (void)seconds, (void)floors;
    return refuse();
}

fc_status fc_cuda_use_source(fc_cuda_device *device, const char *file, const char *text)
{
    (void)device, (void)file, (void)text;
    return refuse();
}

fc_status fc_cuda_copy_kernels(const fc_cuda_device *from, fc_cuda_device *to)
{
    (void)from, (void)to;
    return refuse();
}

const fc_cuda_variant *fc_cuda_first_variant(const fc_cuda_device *device)
{
    (void)device;
    return NULL;
}

const struct emu_control *fc_cuda_emulator(void)
{
    return NULL;
}

fc_status fc_cuda_read_limits(fc_cuda_device *device, fc_cuda_limits *limits)
{
    (void)device, (void)limits;
    return refuse();
}
