/* floors.c: see floors.h. */
#include "cuda/floors/floors.h"

#include "cuda/device.h"
#include "cuda/floors/floor_args.h"
#include "cuda/services.h"

#include <math.h>
#include <stdlib.h>

/* A kernel that is launched again and again with the same argument. */
typedef struct floor_call {
    const fc_cuda_device *device;
    fc_cuda_launch launch;
    floor_args args;
    double work; /* of a launch: operations or bytes */
} floor_call;

static fc_status launch_floor(void *user, fc_stream stream)
{
    const floor_call *call = user;
    return fc_cuda_run(call->device, &call->launch, stream);
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Work a second, by the median launch. */
static fc_status time_floor(fc_cuda_device *d, floor_call *call, double seconds, double *speed)
{
    enum { FEWEST = 5, MOST = 200 };
    double samples[MOST];
    FC_TRY(fc_cuda_time_graph_of(d, 1, launch_floor, call, samples, 1));
    const double wanted = seconds / samples[0];
    const int count = (int)fmin(fmax(wanted, FEWEST), MOST);
    FC_TRY(fc_cuda_time_graph_of(d, 1, launch_floor, call, samples, count));
    qsort(samples, (size_t)count, sizeof *samples, compare_doubles);
    *speed = call->work / samples[count / 2];
    return FC_OK;
}

/* As many blocks as the GPU holds at once, each thread with a place for its result. */
static fc_status prepare(fc_cuda_device *d, const char *variant, floor_call *call)
{
    const fc_cuda_function *function;
    FC_TRY(fc_cuda_find_function(d, fc_cuda_find_variant(variant), variant, &function));
    const int blocks = function->blocks_at_once;
    call->device = d;
    call->launch = (fc_cuda_launch){
        .function = function, .grid = {(unsigned)blocks, 1, 1}, .args = &call->args};
    return fc_cuda_allocate(d, (size_t)(blocks * function->shape.threads) * sizeof(unsigned),
                            (void **)&call->args.results);
}

/* Rounds for about a millisecond. */
static fc_status measure_products(fc_cuda_device *d, double seconds, double *speed)
{
    const bool wgmma = d->compute_capability == 90;
    floor_call call = {.args.rounds = wgmma ? 512 : 4096};
    fc_status status = prepare(d, wgmma ? "floor_products_wgmma" : "floor_products_mma", &call);
    call.work = (double)call.args.rounds * call.launch.grid[0] *
                (wgmma ? FLOOR_WGMMA_OPERATIONS : FLOOR_MMA_OPERATIONS);
    if (status == FC_OK)
        status = time_floor(d, &call, seconds, speed);
    fc_cuda_free(d, call.args.results);
    return status;
}

/* Sixteen times L2: hardly a chunk is still there when it is read again. */
static fc_status measure_reading(fc_cuda_device *d, double seconds, double *speed)
{
    fc_cuda_limits limits;
    FC_TRY(fc_cuda_read_limits(d, &limits));
    const size_t bytes = (size_t)16 * (size_t)limits.l2_bytes;
    floor_call call = {.args.chunks = (long long)(bytes / 16), .work = (double)bytes};
    fc_status status = prepare(d, "floor_reading", &call);
    if (status == FC_OK)
        status = fc_cuda_allocate(d, bytes, (void **)&call.args.memory);
    if (status == FC_OK)
        status = time_floor(d, &call, seconds, speed);
    fc_cuda_free(d, (void *)call.args.memory);
    fc_cuda_free(d, call.args.results);
    return status;
}

fc_status fc_cuda_measure_floors(fc_cuda_device *d, double seconds, fc_cuda_floors *floors)
{
    *floors = (fc_cuda_floors){0};
    FC_TRY(measure_products(d, seconds, &floors->operations_a_second));
    return measure_reading(d, seconds, &floors->bytes_a_second);
}
