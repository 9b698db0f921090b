/* plan.c: a validated problem with its kernels; then every run only fills in pointers. */
#include "core/internal.h"

#include <stdlib.h>

static void choose_kernels(fc_plan *plan, fc_status status[2])
{
    for (fc_direction direction = FC_FORWARD; direction <= FC_BACKWARD; direction++) {
        const fc_kernel *kernel = NULL;
        status[direction] = fc_choose_kernel(plan->context, &plan->problem, direction, &kernel);
        if (status[direction] != FC_OK)
            return;
        plan->kernels[direction] = kernel;
        plan->workspace_bytes[direction] = kernel->workspace_bytes(plan->context, &plan->problem);
    }
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

    fc_status status[2] = {FC_OK, FC_OK};
    status[0] = fc_read_attention(problem, &created->request);
    if (status[0] == FC_OK)
        status[0] = fc_validate(&created->request, &created->problem);
    if (status[0] == FC_OK)
        choose_kernels(created, status);
    if (status[0] != FC_OK || status[1] != FC_OK) {
        free(created);
        return status[0] != FC_OK ? status[0] : status[1];
    }
    fc_log(context, FC_LOG_INFO, "plan: forward by %s, backward by %s",
           created->kernels[FC_FORWARD]->name, created->kernels[FC_BACKWARD]->name);
    *plan = created;
    return FC_OK;
}

void fc_plan_destroy(fc_plan *plan)
{
    if (plan && atomic_fetch_sub(&plan->references, 1) == 1)
        free(plan);
}

static bool is_direction(fc_direction direction)
{
    return direction == FC_FORWARD || direction == FC_BACKWARD;
}

const char *fc_plan_kernel(const fc_plan *plan, fc_direction direction)
{
    return plan && is_direction(direction) ? plan->kernels[direction]->name : NULL;
}

size_t fc_plan_workspace_bytes(const fc_plan *plan, fc_direction direction)
{
    return plan && is_direction(direction) ? plan->workspace_bytes[direction] : 0;
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
    fc_buffers read;
    fc_gradients read_gradients;
    FC_TRY(fc_read_buffers(buffers, &read));
    FC_TRY(fc_read_gradients(gradients, &read_gradients));
    FC_TRY(fc_check_buffers(plan, &read, &read_gradients));
    return plan->kernels[FC_BACKWARD]->run(plan, &read, &read_gradients, stream);
}
