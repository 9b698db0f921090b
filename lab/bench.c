/* bench.c: see bench.h. */
#include "bench.h"

#include "cuda/services.h"

#include <stdlib.h>
#include <time.h>

enum {
    MIN_CALLS = 3,    /* fewer make no percentiles */
    MAX_CALLS = 10000 /* more do not change them */
};

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Between two samples the value is interpolated, so that p50 of an even number is their middle. */
static double percentile(const double *sorted, size_t count, double fraction)
{
    double position = fraction * (double)(count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

static fc_status time_calls(const fc_plan *plan, const fc_buffers *buffers, double seconds,
                            double *samples, size_t *calls)
{
    fc_status status = fc_plan_forward(plan, buffers, NULL);
    double start = bench_now();
    *calls = 0;
    while (status == FC_OK && *calls < MAX_CALLS) {
        double before = bench_now();
        if (*calls >= MIN_CALLS && before - start >= seconds)
            break;
        status = fc_plan_forward(plan, buffers, NULL);
        samples[(*calls)++] = bench_now() - before;
    }
    return status;
}

static void find_percentiles(double *samples, bench_times *times)
{
    qsort(samples, times->calls, sizeof *samples, compare_doubles);
    times->p10 = percentile(samples, times->calls, 0.1);
    times->p50 = percentile(samples, times->calls, 0.5);
    times->p90 = percentile(samples, times->calls, 0.9);
}

typedef struct gpu_call {
    const fc_plan *plan;
    const fc_buffers *buffers;
} gpu_call;

static fc_status call_gpu(void *user, fc_stream stream)
{
    const gpu_call *call = user;
    return fc_plan_forward(call->plan, call->buffers, stream);
}

/* Samples of FC_CUDA_CALLS_A_SAMPLE calls each. The first tells how many of them fit into the time.
 */
static fc_status time_on_gpu(const fc_plan *plan, const fc_buffers *buffers, double seconds,
                             double *samples, bench_times *times)
{
    fc_cuda_device *device = plan->context->cuda;
    gpu_call call = {plan, buffers};
    fc_status status = fc_cuda_time_graph(device, call_gpu, &call, samples, 1);
    if (status != FC_OK)
        return status;
    const double wanted = seconds / 2 / (samples[0] * FC_CUDA_CALLS_A_SAMPLE);
    const int count = wanted < MIN_CALLS ? MIN_CALLS : wanted > 1000 ? 1000 : (int)wanted;
    times->calls = (size_t)count;
    status = fc_cuda_time_plain(device, call_gpu, &call, samples, count);
    if (status != FC_OK)
        return status;
    find_percentiles(samples, times);
    times->plain_p50 = times->p50;
    status = fc_cuda_time_graph(device, call_gpu, &call, samples, count);
    if (status == FC_OK)
        find_percentiles(samples, times);
    return status;
}

fc_status bench_forward(const fc_plan *plan, const fc_buffers *buffers, double seconds,
                        bench_times *times)
{
    *times = (bench_times){0};
    double *samples = malloc(MAX_CALLS * sizeof *samples);
    if (samples == NULL)
        return FC_ERROR_MEMORY;
    fc_status status;
    if (plan->context->cuda) {
        status = time_on_gpu(plan, buffers, seconds, samples, times);
    } else {
        status = time_calls(plan, buffers, seconds, samples, &times->calls);
        if (status == FC_OK)
            find_percentiles(samples, times);
    }
    free(samples);
    return status;
}

static int64_t visible_keys(const fc_attention *problem, int64_t row)
{
    int64_t position = row;
    if (problem->diagonal == FC_BOTTOM_RIGHT)
        position += problem->kv_length - problem->q_length;
    int64_t first = 0, last = problem->kv_length - 1;
    if (problem->causal && position < last)
        last = position;
    if (problem->has_window && problem->window_left >= 0 && position - problem->window_left > first)
        first = position - problem->window_left;
    if (problem->has_window && problem->window_right >= 0 &&
        position + problem->window_right < last)
        last = position + problem->window_right;
    return last >= first ? last - first + 1 : 0;
}

static int64_t value_dim(const fc_attention *problem)
{
    return problem->value_dim != 0 ? problem->value_dim : problem->head_dim;
}

double bench_flops(const fc_attention *problem)
{
    double pairs = 0;
    for (int64_t row = 0; row < problem->q_length; row++)
        pairs += (double)visible_keys(problem, row);
    double heads = (double)problem->batch * (double)problem->q_heads;
    return 2 * heads * pairs * (double)(problem->head_dim + value_dim(problem));
}

static fc_type type_or(fc_type type, fc_type otherwise)
{
    return type != FC_TYPE_AUTO ? type : otherwise;
}

double bench_bytes(const fc_attention *problem)
{
    fc_type q_type = problem->q_type;
    fc_type kv_type = type_or(problem->kv_type, q_type);
    fc_type fp8_out = q_type == FC_F8_E4M3 || q_type == FC_F8_E5M2 ? FC_BF16 : q_type;
    fc_type out_type = type_or(problem->out_type, fp8_out);
    double q_rows = (double)problem->batch * (double)problem->q_heads * (double)problem->q_length;
    double kv_rows =
        (double)problem->batch * (double)problem->kv_heads * (double)problem->kv_length;
    double dim = (double)problem->head_dim, out_dim = (double)value_dim(problem);
    return q_rows *
               (dim * (double)fc_type_bytes(q_type) + out_dim * (double)fc_type_bytes(out_type)) +
           kv_rows * (dim + out_dim) * (double)fc_type_bytes(kv_type);
}
