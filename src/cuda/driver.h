/* driver.h: the CUDA driver, opened at run time. Nothing here is linked against CUDA. */
#ifndef FC_CUDA_DRIVER_H
#define FC_CUDA_DRIVER_H

#include "core/internal.h"

#include <cuda.h>

/* X(name here, symbol in libcuda.so.1). The symbols are those of CUDA 12, which later drivers
 * keep; the types come from cuda.h. */
#define FC_CUDA_FUNCTIONS(X)                                  \
    X(init, cuInit)                                           \
    X(driver_version, cuDriverGetVersion)                     \
    X(error_name, cuGetErrorName)                             \
    X(error_text, cuGetErrorString)                           \
    X(device_count, cuDeviceGetCount)                         \
    X(device_get, cuDeviceGet)                                \
    X(device_name, cuDeviceGetName)                           \
    X(device_attribute, cuDeviceGetAttribute)                 \
    X(primary_retain, cuDevicePrimaryCtxRetain)               \
    X(primary_release, cuDevicePrimaryCtxRelease_v2)          \
    X(context_current, cuCtxGetCurrent)                       \
    X(context_device, cuCtxGetDevice)                         \
    X(context_push, cuCtxPushCurrent_v2)                      \
    X(context_pop, cuCtxPopCurrent_v2)                        \
    X(context_synchronize, cuCtxSynchronize)                  \
    X(module_load, cuModuleLoadData)                          \
    X(module_unload, cuModuleUnload)                          \
    X(module_function, cuModuleGetFunction)                   \
    X(function_set, cuFuncSetAttribute)                       \
    X(function_get, cuFuncGetAttribute)                       \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(launch, cuLaunchKernelEx)                               \
    X(tensor_map_encode, cuTensorMapEncodeTiled)              \
    X(tensor_map_replace, cuTensorMapReplaceAddress)          \
    X(memory_allocate, cuMemAlloc_v2)                         \
    X(memory_free, cuMemFree_v2)                              \
    X(copy_to_device, cuMemcpyHtoD_v2)                        \
    X(copy_to_host, cuMemcpyDtoH_v2)                          \
    X(stream_create, cuStreamCreate)                          \
    X(stream_destroy, cuStreamDestroy_v2)                     \
    X(capture_begin, cuStreamBeginCapture_v2)                 \
    X(capture_end, cuStreamEndCapture)                        \
    X(graph_instantiate, cuGraphInstantiateWithFlags)         \
    X(graph_launch, cuGraphLaunch)                            \
    X(graph_destroy, cuGraphDestroy)                          \
    X(graph_exec_destroy, cuGraphExecDestroy)                 \
    X(event_create, cuEventCreate)                            \
    X(event_destroy, cuEventDestroy_v2)                       \
    X(event_record, cuEventRecord)                            \
    X(event_synchronize, cuEventSynchronize)                  \
    X(event_milliseconds, cuEventElapsedTime)

typedef struct fc_cuda_driver {
#define FC_CUDA_POINTER(name, symbol) __typeof__(symbol) *name;
    FC_CUDA_FUNCTIONS(FC_CUDA_POINTER)
#undef FC_CUDA_POINTER
} fc_cuda_driver;

/* The driver, opened and initialised at the first call; NULL when there is none, and then
 * fc_cuda_absence (backend.h) says why. FLASHCORE_CUDA_DRIVER names another library to open. */
const fc_cuda_driver *fc_cuda(void);

/* FC_OK, or a failure with the driver's own name and text for it; `what` says what was tried. */
fc_status fc_cuda_check(CUresult result, const char *what);

#define FC_CUDA_TRY(call, what) FC_TRY(fc_cuda_check((call), (what)))

#endif
