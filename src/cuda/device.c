/* device.c: one GPU of a context. The caller's CUDA context is respected: if one of this device is
 * current it is used, otherwise the device's primary context, which PyTorch and the CUDA runtime
 * use too. */
#include "cuda/tuned.h"

#include <stdio.h>
#include <stdlib.h>

int fc_cuda_device_count(void)
{
    int count = 0;
    const fc_cuda_driver *cuda = fc_cuda();
    return cuda && cuda->device_count(&count) == CUDA_SUCCESS ? count : 0;
}

static fc_status read_limits(fc_cuda_device *d)
{
    const fc_cuda_driver *cuda = fc_cuda();
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } limits[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &d->most_shared_bytes},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        FC_CUDA_TRY(cuda->device_attribute(limits[i].value, limits[i].attribute, d->device),
                    "reading the device's limits");
    int major = 0, minor = 0;
    FC_CUDA_TRY(
        cuda->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->device),
        "reading the compute capability");
    FC_CUDA_TRY(
        cuda->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->device),
        "reading the compute capability");
    d->compute_capability = 10 * major + minor;
    return fc_cuda_check(cuda->device_name(d->name, sizeof d->name, d->device),
                         "reading the device's name");
}

/* The caller's context when it is of this device, else the primary one. */
static fc_status take_context(fc_cuda_device *d)
{
    const fc_cuda_driver *cuda = fc_cuda();
    CUcontext current = NULL;
    CUdevice current_device;
    if (cuda->context_current(&current) == CUDA_SUCCESS && current &&
        cuda->context_device(&current_device) == CUDA_SUCCESS && current_device == d->device) {
        d->context = current;
        return FC_OK;
    }
    FC_CUDA_TRY(cuda->primary_retain(&d->context, d->device), "taking the primary context");
    d->retained = true;
    return FC_OK;
}

fc_status fc_cuda_device_open(int index, fc_cuda_device **device)
{
    const fc_cuda_driver *cuda = fc_cuda();
    *device = NULL;
    if (!cuda)
        return fc_fail(FC_ERROR_NO_DEVICE, "%s", fc_cuda_absence());
    fc_cuda_device *d = calloc(1, sizeof *d);
    if (!d)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a context");
    fc_status status = fc_cuda_check(cuda->device_get(&d->device, index), "opening the device");
    if (status == FC_OK)
        status = read_limits(d);
    if (status == FC_OK)
        status = fc_tuned_read(&d->tuned);
    if (status == FC_OK)
        status = take_context(d);
    if (status != FC_OK) {
        free(d->tuned);
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    *device = d;
    return FC_OK;
}

fc_status fc_cuda_enter(const fc_cuda_device *d, bool *pushed)
{
    const fc_cuda_driver *cuda = fc_cuda();
    CUcontext current = NULL;
    *pushed = false;
    FC_CUDA_TRY(cuda->context_current(&current), "reading the current context");
    if (current == d->context)
        return FC_OK;
    FC_CUDA_TRY(cuda->context_push(d->context), "making the device's context current");
    *pushed = true;
    return FC_OK;
}

void fc_cuda_leave(bool pushed)
{
    CUcontext popped;
    if (pushed)
        fc_cuda()->context_pop(&popped);
}

const char *fc_cuda_device_name(const fc_cuda_device *d)
{
    return d->name;
}
