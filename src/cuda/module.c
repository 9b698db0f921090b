/* module.c: loads a variant's binary when its first kernel is asked for, and launches. */
#include "cuda/device.h"
#include "cuda/rebuild.h"
#include "cuda/services.h"

#include "jit/cubin.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS_OF_A_VARIANT = 4 };

struct fc_cuda_module {
    fc_cuda_module *next;
    const fc_cuda_variant *variant;
    CUmodule handle;
    char macros[FC_MACROS_BYTES]; /* that it was built anew with for one kind of problem; or "" */
    void *cubin;                  /* replaces the variant's own image; NULL: not replaced */
    size_t cubin_bytes;
    int function_count;
    struct {
        char name[96];
        fc_cuda_function function;
    } functions[KERNELS_OF_A_VARIANT];
};

const fc_cuda_variant *fc_cuda_find_variant(const char *name)
{
    for (int i = 0; i < fc_cuda_variant_count; i++)
        if (strcmp(fc_cuda_variants[i].name, name) == 0)
            return &fc_cuda_variants[i];
    return NULL;
}

static fc_cuda_module *find_module(fc_cuda_device *d, const fc_cuda_variant *variant,
                                   const char *macros)
{
    for (fc_cuda_module *module = d->modules; module; module = module->next)
        if (module->variant == variant && strcmp(module->macros, macros) == 0)
            return module;
    return NULL;
}

static fc_cuda_module *add_module(fc_cuda_device *d, const fc_cuda_variant *variant,
                                  const char *macros)
{
    fc_cuda_module *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    module->variant = variant;
    snprintf(module->macros, sizeof module->macros, "%s", macros);
    module->next = d->modules;
    d->modules = module;
    return module;
}

static fc_status read_shape(const fc_cuda_module *module, const char *kernel, kernel_shape *shape)
{
    char name[128];
    const void *data;
    size_t bytes;
    snprintf(name, sizeof name, "%s_shape", kernel);
    FC_TRY(jit_cubin_variable(module->cubin, module->cubin_bytes, name, &data, &bytes));
    FC_REQUIRE(bytes == sizeof *shape, "%s has %zu bytes; a kernel_shape has %zu", name, bytes,
               sizeof *shape);
    memcpy(shape, data, sizeof *shape);
    return FC_OK;
}

static fc_status find_shape(const fc_cuda_module *module, const char *kernel, kernel_shape *shape)
{
    if (module->cubin)
        return read_shape(module, kernel, shape);
    for (int i = 0; i < module->variant->report_count; i++)
        if (strcmp(module->variant->reports[i].kernel, kernel) == 0) {
            *shape = module->variant->reports[i].shape;
            return FC_OK;
        }
    return fc_fail(FC_ERROR_INVALID, "variant %s has no kernel %s", module->variant->name, kernel);
}

/* Only the dynamic shared memory beyond 48 KB has to be asked for, but asking for less is no
 * harm. */
static fc_status prepare_function(const fc_cuda_device *d, fc_cuda_module *module,
                                  const char *kernel, fc_cuda_function *f)
{
    const fc_cuda_driver *cuda = fc_cuda();
    FC_TRY(find_shape(module, kernel, &f->shape));
    if (f->shape.shared_bytes > d->most_shared_bytes)
        return fc_fail(FC_ERROR_UNSUPPORTED,
                       "kernel %s needs %d bytes of shared memory a block, %s has %d", kernel,
                       f->shape.shared_bytes, d->name, d->most_shared_bytes);
    FC_CUDA_TRY(cuda->module_function(&f->handle, module->handle, kernel), kernel);
    FC_CUDA_TRY(cuda->function_set(f->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   f->shape.shared_bytes),
                kernel);
    FC_CUDA_TRY(cuda->function_get(&f->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f->handle), kernel);
    FC_CUDA_TRY(
        cuda->function_get(&f->static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f->handle),
        kernel);
    int each = 0; /* a multiprocessor */
    FC_CUDA_TRY(cuda->occupancy(&each, f->handle, f->shape.threads, (size_t)f->shape.shared_bytes),
                kernel);
    f->blocks_at_once = each * d->multiprocessors;
    return FC_OK;
}

static fc_status load_module(fc_cuda_module *module)
{
    if (module->handle)
        return FC_OK;
    char what[160];
    snprintf(what, sizeof what, "loading the binary of %s", module->variant->name);
    const void *image = module->cubin ? module->cubin : module->variant->image;
    return fc_cuda_check(fc_cuda()->module_load(&module->handle, image), what);
}

/* A module with its cubin, which becomes the module's. */
static fc_status add_rebuilt(fc_cuda_device *d, const fc_cuda_variant *variant, const char *macros,
                             fc_cuda_module **module)
{
    jit_kernel kernel;
    fc_status status = fc_rebuild(variant, macros, d->compute_capability, &d->own, &kernel);
    if (status == FC_OK) {
        *module = add_module(d, variant, macros);
        if (*module) {
            (*module)->cubin = kernel.binary;
            (*module)->cubin_bytes = kernel.binary_bytes;
            kernel.binary = NULL;
        }
    }
    jit_release(&kernel);
    return status;
}

static fc_status load_function(fc_cuda_device *d, const fc_cuda_variant *variant,
                               const char *macros, const char *kernel,
                               const fc_cuda_function **function)
{
    fc_cuda_module *module = find_module(d, variant, macros);
    const bool has_own = d->own.name && strcmp(d->own.name, variant->file) == 0;
    if (!module && (macros[0] || has_own))
        FC_TRY(add_rebuilt(d, variant, macros, &module));
    else if (!module)
        module = add_module(d, variant, macros);
    if (!module)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a module");
    for (int i = 0; i < module->function_count; i++)
        if (strcmp(module->functions[i].name, kernel) == 0) {
            *function = &module->functions[i].function;
            return FC_OK;
        }
    if (module->function_count == KERNELS_OF_A_VARIANT)
        return fc_fail(FC_ERROR_INVALID, "variant %s has more than %d kernels", variant->name,
                       KERNELS_OF_A_VARIANT);
    FC_TRY(load_module(module));
    fc_cuda_function f = {0};
    FC_TRY(prepare_function(d, module, kernel, &f));
    const int index = module->function_count++;
    snprintf(module->functions[index].name, sizeof module->functions[index].name, "%s", kernel);
    module->functions[index].function = f;
    *function = &module->functions[index].function;
    return FC_OK;
}

static fc_status find_function(fc_cuda_device *d, const fc_cuda_variant *variant,
                               const char *macros, const char *kernel,
                               const fc_cuda_function **function)
{
    bool pushed;
    FC_TRY(fc_cuda_enter(d, &pushed));
    pthread_mutex_lock(&d->lock);
    const fc_status status = load_function(d, variant, macros, kernel, function);
    pthread_mutex_unlock(&d->lock);
    fc_cuda_leave(pushed);
    return status;
}

fc_status fc_cuda_find_function(fc_cuda_device *d, const fc_cuda_variant *variant,
                                const char *kernel, const fc_cuda_function **function)
{
    return find_function(d, variant, "", kernel, function);
}

fc_status fc_cuda_find_rebuilt(fc_cuda_device *d, const fc_cuda_variant *variant,
                               const char *macros, const fc_cuda_function **function)
{
    return find_function(d, variant, macros, variant->name, function);
}

fc_status fc_cuda_copy_kernels(const fc_cuda_device *from, fc_cuda_device *to)
{
    free(to->tuned);
    to->tuned = NULL;
    if (from->own.name)
        FC_TRY(fc_cuda_use_source(to, from->own.name, from->own.text));
    for (const fc_cuda_module *module = from->modules; module; module = module->next)
        if (module->cubin && !find_module(to, module->variant, ""))
            FC_TRY(
                fc_cuda_replace_variant(to, module->variant, module->cubin, module->cubin_bytes));
    return FC_OK;
}

fc_status fc_cuda_use_source(fc_cuda_device *d, const char *file, const char *text)
{
    const char *name = NULL;
    for (size_t i = 0; i < jit_source_count && !name; i++)
        name = strcmp(jit_sources[i].name, file) == 0 ? jit_sources[i].name : NULL;
    FC_REQUIRE(name, "there is no kernel source %s", file);
    FC_REQUIRE(!d->modules && !d->own.name, "a source has to be given before the first plan");
    d->own = (jit_source){.name = name, .text = strdup(text)};
    return d->own.text ? FC_OK : fc_fail(FC_ERROR_MEMORY, "no memory for a source");
}

/* Modules stand in the list last first. */
const fc_cuda_variant *fc_cuda_first_variant(const fc_cuda_device *d)
{
    const fc_cuda_variant *first = NULL;
    for (const fc_cuda_module *module = d->modules; module; module = module->next)
        first = module->variant;
    return first;
}

fc_status fc_cuda_replace_variant(fc_cuda_device *d, const fc_cuda_variant *variant,
                                  const void *cubin, size_t cubin_bytes)
{
    FC_REQUIRE(!find_module(d, variant, ""), "variant %s is in use already", variant->name);
    fc_cuda_module *module = add_module(d, variant, "");
    void *copy = malloc(cubin_bytes);
    if (!module || !copy) {
        free(copy);
        return fc_fail(FC_ERROR_MEMORY, "no memory for a kernel of %zu bytes", cubin_bytes);
    }
    module->cubin = memcpy(copy, cubin, cubin_bytes);
    module->cubin_bytes = cubin_bytes;
    return FC_OK;
}

void fc_cuda_device_close(fc_cuda_device *d)
{
    if (!d)
        return;
    bool pushed = false;
    const bool entered = fc_cuda_enter(d, &pushed) == FC_OK;
    while (d->modules) {
        fc_cuda_module *module = d->modules;
        d->modules = module->next;
        if (entered && module->handle)
            fc_cuda()->module_unload(module->handle);
        free(module->cubin);
        free(module);
    }
    fc_cuda_leave(pushed);
    if (d->retained)
        fc_cuda()->primary_release(d->device);
    pthread_mutex_destroy(&d->lock);
    free(d->tuned);
    free((char *)d->own.text);
    free(d);
}

fc_status fc_cuda_run(const fc_cuda_device *d, const fc_cuda_launch *launch, fc_stream stream)
{
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (launch->cluster > 1)
        attributes[count++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            .value.clusterDim = {.x = launch->cluster, .y = 1, .z = 1},
        };
    if (launch->dependent)
        attributes[count++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            .value.programmaticStreamSerializationAllowed = 1,
        };
    const CUlaunchConfig config = {
        .gridDimX = launch->grid[0],
        .gridDimY = launch->grid[1],
        .gridDimZ = launch->grid[2],
        .blockDimX = (unsigned)launch->function->shape.threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)launch->function->shape.shared_bytes,
        .hStream = (CUstream)stream,
        .attrs = attributes,
        .numAttrs = count,
    };
    void *parameters[] = {(void *)(uintptr_t)launch->args};
    bool pushed;
    FC_TRY(fc_cuda_enter(d, &pushed));
    const CUresult result = fc_cuda()->launch(&config, launch->function->handle, parameters, NULL);
    fc_cuda_leave(pushed);
    return fc_cuda_check(result, "launching a kernel");
}
