/* bench.c: see bench.h. */
#include "bench.h"

#include "core/sequence.h"
#include "cuda/services.h"

#include <math.h>
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

void bench_sort(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
}

/* Between two samples the value is interpolated, so that p50 of an even number is their middle. */
static double percentile(const double *sorted, size_t count, double fraction)
{
    double position = fraction * (double)(count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

static fc_status make_call(const bench_call *call, fc_stream stream)
{
    return call->gradients ? fc_plan_backward(call->plan, call->buffers, call->gradients, stream)
                           : fc_plan_forward(call->plan, call->buffers, stream);
}

static fc_status time_calls(const bench_call *call, double seconds, double *samples, size_t *calls)
{
    fc_status status = make_call(call, NULL);
    double start = bench_now();
    *calls = 0;
    while (status == FC_OK && *calls < MAX_CALLS) {
        double before = bench_now();
        if (*calls >= MIN_CALLS && before - start >= seconds)
            break;
        status = make_call(call, NULL);
        samples[(*calls)++] = bench_now() - before;
    }
    return status;
}

/* How far the medians of thirds are apart that were measured one after another: clocks that sink,
 * neighbours that come and go. Sorts each third. */
static double spread_of_thirds(double *samples, size_t count)
{
    double fastest = INFINITY, slowest = 0;
    for (size_t third = 0; third < 3; third++) {
        const size_t first = third * count / 3, end = (third + 1) * count / 3;
        bench_sort(samples + first, end - first);
        const double median = percentile(samples + first, end - first, 0.5);
        fastest = fmin(fastest, median);
        slowest = fmax(slowest, median);
    }
    return slowest - fastest;
}

static void find_percentiles(double *samples, bench_times *times)
{
    const double spread = spread_of_thirds(samples, times->calls);
    bench_sort(samples, times->calls);
    times->p10 = percentile(samples, times->calls, 0.1);
    times->p50 = percentile(samples, times->calls, 0.5);
    times->p90 = percentile(samples, times->calls, 0.9);
    times->spread = spread / times->p50;
}

static fc_status call_gpu(void *user, fc_stream stream)
{
    return make_call(user, stream);
}

/* Samples of FC_CUDA_CALLS_A_SAMPLE calls each. The first tells how many of them fit into the time.
 */
static fc_status time_on_gpu(const bench_call *given, double seconds, double *samples,
                             bench_times *times)
{
    fc_cuda_device *device = given->plan->context->cuda;
    bench_call call = *given;
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

typedef struct rotation {
    const fc_plan *plan;
    const fc_buffers *sets;
    int count, next;
} rotation;

static fc_status call_next(void *user, fc_stream stream)
{
    rotation *r = user;
    const fc_buffers *set = &r->sets[r->next];
    r->next = (r->next + 1) % r->count;
    return fc_plan_forward(r->plan, set, stream);
}

fc_status bench_rotation(const fc_plan *plan, const fc_buffers *sets, int count, double seconds,
                         double *p50)
{
    enum { MOST_SAMPLES = 200 };
    double samples[MOST_SAMPLES];
    rotation r = {.plan = plan, .sets = sets, .count = count};
    fc_cuda_device *device = plan->context->cuda;
    fc_status status = fc_cuda_time_graph_of(device, count, call_next, &r, samples, 1);
    if (status != FC_OK)
        return status;
    const double wanted = seconds / (samples[0] * count);
    const int taken = wanted < MIN_CALLS      ? MIN_CALLS
                      : wanted > MOST_SAMPLES ? MOST_SAMPLES
                                              : (int)wanted;
    status = fc_cuda_time_graph_of(device, count, call_next, &r, samples, taken);
    if (status != FC_OK)
        return status;
    bench_sort(samples, (size_t)taken);
    *p50 = percentile(samples, (size_t)taken, 0.5);
    return FC_OK;
}

double bench_cold_sets(double bytes, double cache_bytes)
{
    return bytes >= 2 * cache_bytes ? 1 : ceil(2 * cache_bytes / bytes) + 1;
}

fc_status bench_calls(const bench_call *call, double seconds, bench_times *times)
{
    *times = (bench_times){0};
    double *samples = malloc(MAX_CALLS * sizeof *samples);
    if (samples == NULL)
        return FC_ERROR_MEMORY;
    fc_status status;
    if (call->plan->context->cuda) {
        status = time_on_gpu(call, seconds, samples, times);
    } else {
        status = time_calls(call, seconds, samples, &times->calls);
        if (status == FC_OK)
            find_percentiles(samples, times);
    }
    free(samples);
    return status;
}

static fc_attention resolved(const fc_attention *problem)
{
    fc_attention p = *problem;
    fc_resolve(&p);
    return p;
}

double bench_flops(const fc_attention *problem, fc_direction direction)
{
    const fc_attention p = resolved(problem);
    const fc_sequence longest = {.q_rows = p.q_length, .kv_rows = p.kv_length};
    double pairs = 0;
    for (int64_t row = 0; row < p.q_length; row++) {
        const int64_t position = fc_position(&p, &longest, row);
        const int64_t visible = fc_end_key(&p, &longest, position) - fc_first_key(&p, position);
        pairs += visible > 0 ? (double)visible : 0;
    }
    const int64_t dims =
        direction == FC_FORWARD ? p.head_dim + p.value_dim : 3 * p.head_dim + 2 * p.value_dim;
    return 2 * (double)p.batch * (double)p.q_heads * pairs * (double)dims;
}

double bench_bytes(const fc_attention *problem, fc_direction direction)
{
    const fc_attention p = resolved(problem);
    const double q_rows = (double)p.batch * (double)p.q_heads * (double)p.q_length;
    const double kv_rows = (double)p.batch * (double)p.kv_heads * (double)p.kv_length;
    const double dim = (double)p.head_dim, value_dim = (double)p.value_dim;
    const double out_bytes = (double)fc_type_bytes(p.out_type);
    const double forward = q_rows * dim * (double)fc_type_bytes(p.q_type) +
                           q_rows * value_dim * out_bytes +
                           kv_rows * (dim + value_dim) * (double)fc_type_bytes(p.kv_type);
    const double gradients = (q_rows + kv_rows) * (dim + value_dim) * out_bytes;
    return direction == FC_FORWARD ? forward : forward + gradients;
}
