/* driver.c: the functions of libcuda.so.1 that src/cuda/driver.h asks for, on an emulated device.
 * Device memory is host memory; a launch has run when it returns. */
#include "driver.h"

#include "launch.h"
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the last failure of any thread: thread-local memory is scarce in a library opened late. */
static char last_text[16384];

CUresult emu_driver_fail(CUresult result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_text, sizeof last_text, format, arguments);
    va_end(arguments);
    return result;
}

/* 1. The device. */

static int capability = 90;
static int multiprocessors = 3; /* few, so that persistent blocks have more than one tile each */

static void set_from(const char *variable, int *number)
{
    const char *given = getenv(variable);
    if (given && atoi(given) > 0)
        *number = atoi(given);
}

EXPORT CUresult cuInit(unsigned flags)
{
    (void)flags;
    set_from("FLASHCORE_EMU_CAPABILITY", &capability);
    set_from("FLASHCORE_EMU_MULTIPROCESSORS", &multiprocessors);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == CUDA_ERROR_LAUNCH_FAILED    ? "CUDA_ERROR_LAUNCH_FAILED"
            : error == CUDA_ERROR_NOT_SUPPORTED  ? "CUDA_ERROR_NOT_SUPPORTED"
            : error == CUDA_ERROR_NOT_FOUND      ? "CUDA_ERROR_NOT_FOUND"
            : error == CUDA_ERROR_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_INVALID_IMAGE  ? "CUDA_ERROR_INVALID_IMAGE"
            : error == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
            : error == CUDA_ERROR_INVALID_VALUE  ? "CUDA_ERROR_INVALID_VALUE"
                                                 : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = last_text;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int index)
{
    *device = index;
    return index == 0 ? CUDA_SUCCESS
                      : emu_driver_fail(CUDA_ERROR_INVALID_DEVICE, "the emulator has one device");
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "emulated GPU (sm_%d)", capability);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = (capability >= 90 ? 227 : capability == 80 ? 163 : 99) * 1024;
        break;
    default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

/* 2. Contexts, streams: there is one of everything. */

static char the_context, the_stream;
static _Thread_local CUcontext current;

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)&the_context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

bool emu_driver_has_context(void)
{
    return current != NULL;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = current;
    current = NULL;
    return CUDA_SUCCESS;
}

/* A launch runs before it returns. */
EXPORT CUresult cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)&the_stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

/* 3. What would only tell lies: the time that an emulation takes says nothing about a GPU. */

static CUresult no_clock(void)
{
    return emu_driver_fail(CUDA_ERROR_NOT_SUPPORTED,
                           "the emulator cannot time kernels; 'flashcore emu' counts what they do");
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    return no_clock();
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream, (void)graph;
    return no_clock();
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *replay, CUgraph graph,
                                            unsigned long long flags)
{
    (void)replay, (void)graph, (void)flags;
    return no_clock();
}

EXPORT CUresult cuGraphLaunch(CUgraphExec replay, CUstream stream)
{
    (void)replay, (void)stream;
    return no_clock();
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    (void)graph;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec replay)
{
    (void)replay;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)event, (void)flags;
    return no_clock();
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return no_clock();
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return no_clock();
}

/* Newer headers give the name a suffix; the library asks for the plain one. */
#undef cuEventElapsedTime
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop);
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop)
{
    (void)milliseconds, (void)start, (void)stop;
    return no_clock();
}

/* 4. Memory. */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    *memory = (CUdeviceptr)(uintptr_t)emu_memory_allocate(bytes);
    return *memory ? CUDA_SUCCESS : emu_driver_fail(CUDA_ERROR_OUT_OF_MEMORY, "no memory");
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr memory)
{
    return emu_memory_free((void *)(uintptr_t)memory)
               ? CUDA_SUCCESS
               : emu_driver_fail(CUDA_ERROR_INVALID_VALUE, "no such allocation");
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    emu_launch_wait();
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    emu_launch_wait();
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}
