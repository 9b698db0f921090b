/* plan.c: a validated problem with its kernels; then every run only fills in pointers. */
#include "core/internal.h"

#include <stdlib.h>

static fc_status choose_kernel(fc_plan *plan, fc_direction direction)
{
    const fc_kernel *kernel;
    FC_TRY(fc_choose_kernel(plan->context, &plan->problem, direction, &kernel));
    if (kernel->workspace_bytes)
        plan->workspace_bytes[direction] =
            kernel->workspace_bytes(kernel, plan->context, &plan->problem);
    if (kernel->prepare)
        FC_TRY(kernel->prepare(kernel, plan, &plan->prepared[direction]));
    plan->kernels[direction] = kernel;
    return FC_OK;
}

/* A plan without a backward kernel is a good plan for everybody who does not train. */
static fc_status fill_plan(fc_plan *plan, const fc_attention *problem)
{
    FC_TRY(fc_read_attention(problem, &plan->request));
    FC_TRY(fc_validate(&plan->request, &plan->problem));
    FC_TRY(choose_kernel(plan, FC_FORWARD));
    const fc_status backward = choose_kernel(plan, FC_BACKWARD);
    return backward == FC_ERROR_UNSUPPORTED ? FC_OK : backward;
}

static void free_plan(fc_plan *plan)
{
    free(plan->prepared[FC_FORWARD]);
    free(plan->prepared[FC_BACKWARD]);
    free(plan);
}

fc_status fc_plan_create(fc_context *context, const fc_attention *problem, fc_plan **plan)
{
    FC_REQUIRE(context, "context is NULL");
    FC_REQUIRE(plan, "plan is NULL");
    *plan = NULL;
    fc_plan *created = calloc(1, sizeof *created);
    if (!created)
        return fc_fail(FC_ERROR_MEMORY, "no memory for a plan");
    created->context = context;
    atomic_init(&created->references, 1);
    const fc_status status = fill_plan(created, problem);
    if (status != FC_OK) {
        free_plan(created);
        return status;
    }
    const fc_kernel *backward = created->kernels[FC_BACKWARD];
    fc_log(context, FC_LOG_INFO, "plan: forward by %s, backward by %s",
           created->kernels[FC_FORWARD]->name, backward ? backward->name : "none");
    *plan = created;
    return FC_OK;
}

void fc_plan_destroy(fc_plan *plan)
{
    if (plan && atomic_fetch_sub(&plan->references, 1) == 1)
        free_plan(plan);
}

static const fc_kernel *kernel_of(const fc_plan *plan, fc_direction direction)
{
    const bool known = direction == FC_FORWARD || direction == FC_BACKWARD;
    return plan && known ? plan->kernels[direction] : NULL;
}

const char *fc_plan_kernel(const fc_plan *plan, fc_direction direction)
{
    const fc_kernel *kernel = kernel_of(plan, direction);
    return kernel ? kernel->name : NULL;
}

size_t fc_plan_workspace_bytes(const fc_plan *plan, fc_direction direction)
{
    return kernel_of(plan, direction) ? plan->workspace_bytes[direction] : 0;
}

fc_status fc_plan_forward(const fc_plan *plan, const fc_buffers *buffers, fc_stream stream)
{
    FC_REQUIRE(plan, "plan is NULL");
    fc_buffers read;
    FC_TRY(fc_read_buffers(buffers, &read));
    FC_TRY(fc_check_buffers(plan, &read, NULL));
    return plan->kernels[FC_FORWARD]->run(plan, &read, NULL, stream);
}

fc_status fc_plan_backward(const fc_plan *plan, const fc_buffers *buffers,
                           const fc_gradients *gradients, fc_stream stream)
{
    FC_REQUIRE(plan, "plan is NULL");
    if (!plan->kernels[FC_BACKWARD]) {
        const fc_kernel *none;
        return fc_choose_kernel(plan->context, &plan->problem, FC_BACKWARD, &none);
    }
    fc_buffers read;
    fc_gradients read_gradients;
    FC_TRY(fc_read_buffers(buffers, &read));
    FC_TRY(fc_read_gradients(gradients, &read_gradients));
    FC_TRY(fc_check_buffers(plan, &read, &read_gradients));
    return plan->kernels[FC_BACKWARD]->run(plan, &read, &read_gradients, stream);
}
