/* context.c: one device and the choices that hold for all its plans. */
#include "core/internal.h"
#include "cpu/features.h"
#include "cuda/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int most_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int fc_device_count(fc_device_type type)
{
    return type == FC_CPU ? 1 : type == FC_CUDA ? fc_cuda_device_count() : 0;
}

static fc_status check_options(const fc_context_options *options)
{
    const fc_device_type type = options->device_type;
    FC_REQUIRE(type == FC_CPU || type == FC_CUDA,
               "device_type = %" PRId32 " is no device type; allowed: FC_CPU, FC_CUDA", type);
    FC_REQUIRE(options->threads >= 0, "threads = %" PRId32 " is negative; 0 takes all",
               options->threads);
    FC_REQUIRE(options->reserved == 0, "reserved = %" PRId32 " must be 0", options->reserved);
    FC_REQUIRE(options->device_index >= 0, "device_index = %" PRId32 " is negative",
               options->device_index);
    const int count = fc_device_count(type);
    if (type == FC_CUDA && count == 0 && *fc_cuda_absence())
        return fc_fail(FC_ERROR_NO_DEVICE, "there is no CUDA device: %s", fc_cuda_absence());
    if (options->device_index >= count)
        return fc_fail(FC_ERROR_NO_DEVICE, "%s device %" PRId32 " is not here; there are %d",
                       type == FC_CPU ? "CPU" : "CUDA", options->device_index, count);
    return FC_OK;
}

/* The environment is read once, here: a plan's kernel never depends on when it was made. */
static fc_status choose_forced_kernels(const fc_context_options *options, char **forced)
{
    const char *names = options->kernel ? options->kernel : getenv("FLASHCORE_KERNEL");
    *forced = NULL;
    if (!names || !*names)
        return FC_OK;
    FC_TRY(fc_check_kernel_names(names));
    *forced = strdup(names);
    return *forced ? FC_OK : fc_fail(FC_ERROR_MEMORY, "no memory for a context");
}

fc_status fc_context_create(const fc_context_options *given, fc_context **context)
{
    FC_REQUIRE(context, "context is NULL");
    *context = NULL;
    fc_context_options options = fc_context_options_init();
    if (given)
        FC_TRY(fc_read_options(given, &options));
    FC_TRY(check_options(&options));
    char *forced;
    fc_cpu_level cpu_limit;
    FC_TRY(fc_cpu_read_limit(&cpu_limit));
    FC_TRY(choose_forced_kernels(&options, &forced));
    fc_context *created = calloc(1, sizeof *created);
    if (!created) {
        free(forced);
        return fc_fail(FC_ERROR_MEMORY, "no memory for a context");
    }
    if (options.device_type == FC_CUDA) {
        const fc_status status = fc_cuda_device_open(options.device_index, &created->cuda);
        if (status != FC_OK) {
            free(created);
            free(forced);
            return status;
        }
    }
    const int available = most_threads();
    created->device_type = options.device_type;
    created->device_index = options.device_index;
    created->threads = options.threads && options.threads < available ? options.threads : available;
    created->forced_kernels = forced;
    created->cpu_limit = (int)cpu_limit;
    created->log = options.log;
    created->log_user = options.log_user;
    pthread_mutex_init(&created->lock, NULL);
    *context = created;
    return FC_OK;
}

void fc_context_destroy(fc_context *context)
{
    if (!context)
        return;
    fc_release_cache(context);
    if (context->cuda)
        fc_cuda_device_close(context->cuda);
    pthread_mutex_destroy(&context->lock);
    free(context->forced_kernels);
    free(context);
}

const char *fc_context_device(const fc_context *context)
{
    if (!context)
        return "";
    return context->cuda ? fc_cuda_device_name(context->cuda) : "CPU";
}

void fc_log(const fc_context *context, fc_log_level level, const char *format, ...)
{
    if (!context->log)
        return;
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    context->log(context->log_user, level, message);
}
