/* calls.c: see calls.h. */
#include "calls.h"

#include "bench.h"
#include "core/internal.h"
#include "cpu_floors.h"
#include "tensors.h"

#include <stdlib.h>

struct peers_call {
    fc_context *context;
    fc_plan *plan;
    lab_tensors tensors;
    bool has_tensors;
    fc_buffers buffers;
    fc_gradients gradients;
    void *workspace;
};

static fc_status make_data(peers_call *call, const fc_attention *problem, bool backward)
{
    fc_case c;
    case_from_problem(problem, &c);
    c.backward = backward;
    FC_TRY(lab_tensors_create(&c, &lab_host_memory, &call->tensors));
    call->has_tensors = true;
    call->buffers = lab_tensors_buffers(&call->tensors);
    call->gradients = lab_tensors_gradients(&call->tensors);
    for (int direction = FC_FORWARD; direction <= (backward ? FC_BACKWARD : FC_FORWARD);
         direction++) {
        const size_t bytes = fc_plan_workspace_bytes(call->plan, direction);
        if (bytes > call->buffers.workspace_bytes)
            call->buffers.workspace_bytes = bytes;
    }
    if (call->buffers.workspace_bytes == 0)
        return FC_OK;
    call->workspace = lab_host_memory.allocate(NULL, call->buffers.workspace_bytes);
    call->buffers.workspace = call->workspace;
    return call->workspace ? FC_OK : fc_fail(FC_ERROR_MEMORY, "no memory for the workspace");
}

peers_call *peers_open(const peers_sizes *sizes)
{
    peers_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    fc_attention problem = fc_attention_init();
    problem.batch = sizes->batch;
    problem.q_heads = sizes->q_heads;
    problem.kv_heads = sizes->kv_heads;
    problem.q_length = sizes->q_length;
    problem.kv_length = sizes->kv_length;
    problem.head_dim = sizes->head_dim;
    problem.q_type = (fc_type)sizes->type;
    problem.causal = (int32_t)sizes->causal;
    if (fc_context_create(NULL, &call->context) == FC_OK &&
        fc_plan_create(call->context, &problem, &call->plan) == FC_OK &&
        make_data(call, &problem, sizes->backward) == FC_OK)
        return call;
    peers_close(call);
    return NULL;
}

void peers_close(peers_call *call)
{
    fc_plan_destroy(call->plan);
    fc_context_destroy(call->context);
    if (call->has_tensors)
        lab_tensors_destroy(&call->tensors);
    if (call->workspace)
        lab_host_memory.release(NULL, call->workspace);
    free(call);
}

const char *peers_error(void)
{
    return fc_last_error();
}

const char *peers_kernel(const peers_call *call, int direction)
{
    return fc_plan_kernel(call->plan, direction);
}

void *peers_tensor(const peers_call *call, const char *name)
{
    for (int i = 0; i < LAB_TENSOR_COUNT; i++) {
        const lab_buffer *buffer = &call->tensors.buffer[i];
        if (buffer->name && strcmp(buffer->name, name) == 0)
            return lab_pointer(buffer);
    }
    return NULL;
}

double peers_seconds(const peers_call *call, int direction)
{
    const double start = bench_now();
    const fc_status status =
        direction == FC_FORWARD
            ? fc_plan_forward(call->plan, &call->buffers, NULL)
            : fc_plan_backward(call->plan, &call->buffers, &call->gradients, NULL);
    return status == FC_OK ? bench_now() - start : -1;
}

static double measure_machine(double (*measure)(const fc_context *context, double seconds))
{
    fc_context *context;
    if (fc_context_create(NULL, &context) != FC_OK)
        return 0;
    const double speed = measure(context, 0.2);
    fc_context_destroy(context);
    return speed;
}

double peers_peak_flops(void)
{
    return measure_machine(lab_cpu_operations_a_second);
}

double peers_peak_bandwidth(void)
{
    return measure_machine(lab_cpu_bytes_a_second);
}
