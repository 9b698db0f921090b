/* fake_cuda.c: see fake_cuda.h. Every symbol that src/cuda/driver.h asks for is here. */
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_cuda fake_cuda_state = {
    .device_count = 1,
    .compute_major = 8,
    .compute_minor = 9,
    .shared_bytes_a_block = 99 * 1024,
    .milliseconds = 1,
};
#define state fake_cuda_state

/* Handles are only ever compared; a function's is its name. */
static char primary_contexts[FAKE_CUDA_MOST_DEVICES], module_handle, stream_handle, event_handle,
    graph_handle, replay_handle;
static char function_names[256][sizeof state.last_kernel];

EXPORT CUresult cuInit(unsigned flags)
{
    (void)flags;
    return state.init_result;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : error == CUDA_ERROR_OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
                                                  : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = "the fake driver was told to fail";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = state.device_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int index)
{
    *device = index;
    return index < state.device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? state.compute_major
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? state.compute_minor
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 58
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
                 ? state.shared_bytes_a_block
                 : 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (state.retain_result != CUDA_SUCCESS)
        return state.retain_result;
    state.contexts_held++;
    *context = (CUcontext)&primary_contexts[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    state.contexts_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = state.current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

/* One level is enough: the library pushes only when another context is current. */
static CUcontext pushed_over;

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    pushed_over = state.current;
    state.current = context;
    state.contexts_pushed++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = state.current;
    state.current = pushed_over;
    state.contexts_pushed--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    (void)image;
    if (state.load_result != CUDA_SUCCESS)
        return state.load_result;
    state.modules_held++;
    *module = (CUmodule)&module_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    state.modules_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof function_names / sizeof *function_names; i++) {
        if (!function_names[i][0])
            snprintf(function_names[i], sizeof *function_names, "%s", name);
        if (strcmp(function_names[i], name) == 0) {
            *function = (CUfunction)function_names[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    (void)attribute;
    return value <= state.shared_bytes_a_block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    (void)attribute;
    *value = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                            int threads, size_t shared_bytes)
{
    (void)function;
    (void)threads;
    (void)shared_bytes;
    *blocks = 2;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra)
{
    (void)parameters;
    (void)extra;
    state.launches++;
    state.last_launch = *config;
    snprintf(state.last_kernel, sizeof state.last_kernel, "%s", (const char *)function);
    state.last_context = state.current;
    for (unsigned i = 0; i < config->numAttrs && i < 4; i++)
        state.last_attributes[i] = config->attrs[i];
    return state.launch_result;
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t dims,
                                       void *memory, const cuuint64_t *sizes,
                                       const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    (void)type;
    (void)dims;
    (void)memory;
    (void)sizes;
    (void)strides;
    (void)box;
    (void)element_strides;
    (void)interleave;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    memset(map, 0, sizeof *map);
    return state.tensor_map_result;
}

EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *memory)
{
    (void)map;
    (void)memory;
    return state.tensor_map_result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    if (state.allocate_result != CUDA_SUCCESS)
        return state.allocate_result;
    state.allocations_held++;
    *memory = (CUdeviceptr)malloc(bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr memory)
{
    state.allocations_held--;
    free((void *)memory);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)to, from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, (const void *)from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    state.streams_held++;
    *stream = (CUstream)&stream_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    state.streams_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream;
    (void)mode;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    state.graphs_held++;
    *graph = (CUgraph)&graph_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *replay, CUgraph graph,
                                            unsigned long long flags)
{
    (void)graph;
    (void)flags;
    state.replays_held++;
    *replay = (CUgraphExec)&replay_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec replay, CUstream stream)
{
    (void)replay;
    state.outside_default_stream += stream != NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    (void)graph;
    state.graphs_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec replay)
{
    (void)replay;
    state.replays_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    state.events_held++;
    *event = (CUevent)&event_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    (void)event;
    state.events_held--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event;
    state.outside_default_stream += stream != NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    state.synchronisations++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    state.synchronisations++;
    return CUDA_SUCCESS;
}

/* Newer headers give the name a suffix; the library asks for the plain one. */
#undef cuEventElapsedTime
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop);
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop)
{
    (void)start;
    (void)stop;
    *milliseconds = state.milliseconds;
    return CUDA_SUCCESS;
}
