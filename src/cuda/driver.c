/* driver.c: opens libcuda.so.1 and finds its functions. */
#include "cuda/driver.h"

#include "cuda/backend.h"
#include "cuda/services.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static fc_cuda_driver driver;
static bool driver_works;
static const struct emu_control *emulator;
static char absence[400];
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* The first symbol that the library lacks, or NULL. */
static const char *find_functions(void *library)
{
#define FIND(name, symbol)                            \
    *(void **)&driver.name = dlsym(library, #symbol); \
    if (!driver.name)                                 \
        return #symbol;
    FC_CUDA_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

/* Only the emulator has this function, and tells by it that it is none of NVIDIA's. */
static void find_emulator(void *library)
{
    const struct emu_control *(*controls)(void);
    *(void **)&controls = dlsym(library, "emu_control_functions");
    emulator = controls ? controls() : NULL;
}

static void open_driver(void)
{
    const char *given = getenv("FLASHCORE_CUDA_DRIVER");
    const char *path = given && *given ? given : "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(absence, sizeof absence, "the CUDA driver cannot be opened: %s", dlerror());
        return;
    }
    const char *missing = find_functions(library);
    if (missing) {
        snprintf(absence, sizeof absence, "the CUDA driver %s is too old: it lacks %s", path,
                 missing);
        dlclose(library);
        return;
    }
    const CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
        const char *name = NULL, *text = NULL;
        driver.error_name(result, &name);
        driver.error_text(result, &text);
        snprintf(absence, sizeof absence, "the CUDA driver does not start: %s: %s",
                 name ? name : "unknown error", text ? text : "no text");
        return;
    }
    find_emulator(library);
    driver_works = true;
}

const fc_cuda_driver *fc_cuda(void)
{
    pthread_once(&opened, open_driver);
    return driver_works ? &driver : NULL;
}

const struct emu_control *fc_cuda_emulator(void)
{
    return fc_cuda() ? emulator : NULL;
}

const char *fc_cuda_absence(void)
{
    return absence;
}

fc_status fc_cuda_check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return FC_OK;
    const char *name = NULL, *text = NULL;
    driver.error_name(result, &name);
    driver.error_text(result, &text);
    return fc_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? FC_ERROR_MEMORY : FC_ERROR_DRIVER,
                   "%s: %s (%d): %s", what, name ? name : "unknown error", (int)result,
                   text ? text : "no text");
}
