/* host_cost.c: what a plain call costs the host beside the driver's launch.
 *
 *     cmake --build build/release --target flashcore_host_cost
 *     build/release/bench/flashcore_host_cost
 *
 * The mission shape, called as an engine would. The same calls are timed with the driver's launch
 * and with one that does nothing: the second is what FlashCore adds. */
#include "bench.h"
#include "core/internal.h"
#include "cuda/device.h"
#include "cuda/services.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CALLS = 400, /* fewer than a stream takes without waiting */
    REPEATS = 50
};

typedef struct prepared {
    fc_context *context;
    fc_plan *plan;
    lab_tensors tensors;
    fc_buffers buffers;
    CUstream stream;
    bool pushed; /* while the calls are timed: an engine's context is current too */
} prepared;

static CUresult launch_nothing(const CUlaunchConfig *config, CUfunction function, void **arguments,
                               void **extra)
{
    (void)config;
    (void)function;
    (void)arguments;
    (void)extra;
    return CUDA_SUCCESS;
}

/* FlashCore's own table of the driver's functions, which belongs to nobody else here. */
static fc_cuda_driver *driver_table(void)
{
    return (fc_cuda_driver *)(uintptr_t)fc_cuda();
}

static fc_status prepare(const char *kernel, prepared *p)
{
    const fc_context_options options = {
        .struct_size = sizeof options, .device_type = FC_CUDA, .kernel = kernel};
    fc_attention problem = fc_attention_init();
    problem.batch = 1;
    problem.q_heads = problem.kv_heads = 8;
    problem.q_length = problem.kv_length = 512;
    problem.head_dim = 64;
    problem.q_type = FC_F16;
    FC_TRY(fc_context_create(&options, &p->context));
    FC_TRY(fc_plan_create(p->context, &problem, &p->plan));
    fc_case c;
    case_from_problem(&problem, &c);
    const lab_memory memory = lab_memory_of(p->context);
    FC_TRY(lab_tensors_create(&c, &memory, &p->tensors));
    p->buffers = lab_tensors_buffers(&p->tensors);
    FC_TRY(fc_cuda_enter(p->context->cuda, &p->pushed));
    return fc_cuda_check(fc_cuda()->stream_create(&p->stream, CU_STREAM_NON_BLOCKING),
                         "making a stream");
}

/* The best of REPEATS, seconds a call. */
static fc_status time_calls(const prepared *p, double *seconds)
{
    *seconds = 1e9;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double start = bench_now();
        for (int i = 0; i < CALLS; i++)
            FC_TRY(fc_plan_forward(p->plan, &p->buffers, (fc_stream)p->stream));
        const double taken = (bench_now() - start) / CALLS;
        *seconds = taken < *seconds ? taken : *seconds;
        FC_TRY(fc_cuda_settle(p->context->cuda));
    }
    return FC_OK;
}

static fc_status measure(const char *kernel)
{
    prepared p = {0};
    double whole, own;
    FC_TRY(prepare(kernel, &p));
    FC_TRY(time_calls(&p, &whole));
    __typeof__(driver_table()->launch) launch = driver_table()->launch;
    driver_table()->launch = launch_nothing;
    const fc_status status = time_calls(&p, &own);
    driver_table()->launch = launch;
    FC_TRY(status);
    printf("%-14s %6.2f us a call, of which %.2f are not the driver's launch\n", kernel,
           whole * 1e6, own * 1e6);
    fc_cuda_leave(p.pushed);
    lab_tensors_destroy(&p.tensors);
    fc_plan_destroy(p.plan);
    fc_context_destroy(p.context);
    return FC_OK;
}

int main(void)
{
    const char *const kernels[] = {"sm80_latency", "sm80_prefill", "sm90_latency", "sm90_prefill"};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (measure(kernels[i]) != FC_OK)
            printf("%-14s not measured: %s\n", kernels[i], fc_last_error());
    return 0;
}
