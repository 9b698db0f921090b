/* driver_launch.c: kernels, compiled into this library or into those that FLASHCORE_EMU_KERNELS
 * names, and found by name; launches; the emulator's own controls. */
#include "driver.h"

#include "emu.h"
#include "launch.h"
#include "memory.h"
#include "source.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNEL_NAME = 160, MOST_LIBRARIES = 8 };

static uint64_t seed; /* FLASHCORE_EMU_SEED, until a control sets another */
static bool counting;

/* 1. Kernels. Images are not read, beyond what kind they are. */

typedef struct function {
    struct function *next;
    char name[MOST_KERNEL_NAME];
    void (*start)(const void *args);
} function;

static function *functions;
static char the_module;

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *given = getenv("FLASHCORE_EMU_KERNELS"); /* which then have what was compiled */
    if (memcmp(image, "\177ELF", 4) == 0 && !(given && *given))
        return emu_driver_fail(CUDA_ERROR_INVALID_IMAGE,
                               "the emulator runs the kernels that were built ahead, no others");
    *module = (CUmodule)&the_module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static void *libraries[MOST_LIBRARIES];
static int library_count;

/* Those that were named come first: a kernel there takes the place of one here. */
static CUresult open_libraries(void)
{
    const char *given = getenv("FLASHCORE_EMU_KERNELS");
    const char *given_seed = getenv("FLASHCORE_EMU_SEED");
    char paths[4096], *rest = paths;
    Dl_info self;
    seed = given_seed ? strtoull(given_seed, NULL, 10) : 0;
    snprintf(paths, sizeof paths, "%s", given ? given : "");
    for (char *path; library_count < MOST_LIBRARIES - 1 && (path = strtok_r(rest, ":", &rest));) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return emu_driver_fail(CUDA_ERROR_NOT_FOUND, "%s", dlerror());
        libraries[library_count++] = library;
    }
    if (dladdr((const void *)&the_module, &self))
        libraries[library_count++] = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return CUDA_SUCCESS;
}

static void *find_symbol(const char *name)
{
    for (int i = 0; i < library_count; i++) {
        void *symbol = libraries[i] ? dlsym(libraries[i], name) : NULL;
        if (symbol)
            return symbol;
    }
    return NULL;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module, const char *name)
{
    (void)module;
    char symbol[MOST_KERNEL_NAME + 8];
    snprintf(symbol, sizeof symbol, "%s_start", name);
    for (function *f = functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            *handle = (CUfunction)f;
            return CUDA_SUCCESS;
        }
    const CUresult opened = library_count ? CUDA_SUCCESS : open_libraries();
    if (opened != CUDA_SUCCESS)
        return opened;
    void *start = find_symbol(symbol);
    if (!start)
        return emu_driver_fail(CUDA_ERROR_NOT_FOUND, "the emulator was built without kernel %s",
                               name);
    function *f = calloc(1, sizeof *f);
    if (!f)
        return emu_driver_fail(CUDA_ERROR_OUT_OF_MEMORY, "no memory");
    snprintf(f->name, sizeof f->name, "%s", name);
    memcpy(&f->start, &start, sizeof start);
    f->next = functions;
    functions = f;
    *handle = (CUfunction)f;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    (void)handle, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

/* The emulator knows no registers. */
EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    (void)handle, (void)attribute;
    *value = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle,
                                                            int threads, size_t shared_bytes)
{
    (void)handle, (void)threads, (void)shared_bytes;
    *blocks = 1;
    return CUDA_SUCCESS;
}

/* 2. Launches. */

static unsigned cluster_of(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return config->attrs[i].value.clusterDim.x;
    return 1;
}

static bool starts_early(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return config->attrs[i].value.programmaticStreamSerializationAllowed;
    return false;
}

static bool fits_grid(const unsigned grid[3])
{
    enum { MOST_YZ = 65535 };
    return grid[0] > 0 && grid[0] <= INT32_MAX && grid[1] > 0 && grid[1] <= MOST_YZ &&
           grid[2] > 0 && grid[2] <= MOST_YZ;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **parameters,
                                 void **extra)
{
    (void)extra;
    const function *f = (const function *)handle;
    const emu_launch launch = {
        .start = f->start,
        .args = parameters[0],
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .threads = config->blockDimX,
        .cluster = cluster_of(config),
        .shared_bytes = config->sharedMemBytes,
        .seed = seed,
        .counting = counting,
        .starts_early = starts_early(config),
    };
    if (config->blockDimY != 1 || config->blockDimZ != 1 || launch.threads == 0 ||
        launch.threads % EMU_LANES || launch.threads > EMU_MOST_THREADS)
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE,
                               "%s: blocks of %ux%ux%u threads; the emulator takes "
                               "whole warps in one dimension, up to %d threads",
                               f->name, config->blockDimX, config->blockDimY, config->blockDimZ,
                               EMU_MOST_THREADS);
    if (!fits_grid(launch.grid))
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE, "%s: a grid of %ux%ux%u blocks", f->name,
                               launch.grid[0], launch.grid[1], launch.grid[2]);
    if (launch.cluster == 0 || launch.cluster > EMU_MOST_BLOCKS || launch.grid[0] % launch.cluster)
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE, "%s: clusters of %u blocks in a row of %u",
                               f->name, launch.cluster, launch.grid[0]);
    if (emu_launch_run(&launch))
        return CUDA_SUCCESS;
    return emu_driver_fail(CUDA_ERROR_LAUNCH_FAILED, "%s: %s", f->name, emu_launch_report());
}

/* 3. Controls: emu.h. */

static void set_counting(bool on)
{
    counting = on;
}

static void set_seed(uint64_t value)
{
    seed = value;
}

static void read_totals(emu_totals *totals)
{
    *totals = emu_launch_counts()->totals;
}

static const emu_control controls = {
    .count = set_counting,
    .reset = emu_launch_reset,
    .totals = read_totals,
    .lines = emu_launch_lines,
    .seed = set_seed,
    .fence = emu_memory_fence,
    .report = emu_launch_report,
};

EXPORT const emu_control *emu_control_functions(void);
EXPORT const emu_control *emu_control_functions(void)
{
    return &controls;
}
