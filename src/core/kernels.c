/* kernels.c: the table of every kernel, in the order of preference. */
#include "core/internal.h"
#include "cpu/cpu.h"
#include "cuda/ladder/ladder.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "reference/reference.h"

#include <stdio.h>

/* Of the rows that accept a problem, the first that suits it runs it. */
static const fc_kernel *const kernels[] = {
#if FC_WITH_CUDA
    &fc_sm90_latency,
    &fc_sm90_prefill,
    &fc_sm80_latency,
    &fc_sm80_prefill,
    &fc_ladder_swizzle,
    &fc_ladder_double_buffer,
    &fc_ladder_three_stages,
    &fc_ladder_registers,
    &fc_ladder_specialised,
    &fc_ladder_split_keys,
    &fc_ladder_persistent,
    &fc_ladder_wide_loads,
    &fc_ladder_large_tiles,
    &fc_ladder_tensor_both,
    &fc_ladder_tensor_scores,
    &fc_ladder_warp_softmax,
    &fc_ladder_fused,
    &fc_ladder_unfused,
    &fc_ladder_quantised,
#endif
#define CPU_KERNEL(isa, shape) &fc_cpu_##isa##_##shape##_kernel,
    FC_CPU_KERNEL_LIST(CPU_KERNEL)
#undef CPU_KERNEL
        & fc_reference_forward,
    &fc_reference_backward,
};

enum { KERNEL_COUNT = sizeof kernels / sizeof kernels[0] };

int fc_kernel_count(void)
{
    return KERNEL_COUNT;
}

/* Takes the next name off a list "a,b": its length, and where the rest begins. */
static size_t next_name(const char **rest, const char **name)
{
    *name = *rest;
    const size_t length = strcspn(*rest, ",");
    *rest += length + ((*rest)[length] == ',');
    return length;
}

static bool is_called(const fc_kernel *kernel, const char *name, size_t length)
{
    return strlen(kernel->name) == length && memcmp(kernel->name, name, length) == 0;
}

static bool is_forced(const fc_context *context, const fc_kernel *kernel)
{
    const char *name;
    for (const char *rest = context->forced_kernels; rest && *rest;) {
        const size_t length = next_name(&rest, &name);
        if (is_called(kernel, name, length))
            return true;
    }
    return false;
}

static bool is_direction_forced(const fc_context *context, fc_direction direction)
{
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (kernels[i]->direction == direction && is_forced(context, kernels[i]))
            return true;
    return false;
}

static void list_names(char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < KERNEL_COUNT && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", kernels[i]->name);
}

fc_status fc_check_kernel_names(const char *names)
{
    const char *name;
    while (*names) {
        const size_t length = next_name(&names, &name);
        bool known = false;
        for (int i = 0; i < KERNEL_COUNT && !known; i++)
            known = is_called(kernels[i], name, length);
        if (known)
            continue;
        char all[900]; /* fits the last error */
        list_names(all, sizeof all);
        return fc_fail(FC_ERROR_INVALID, "there is no kernel '%.*s'; there are: %s",
                       (int)(length < 60 ? length : 60), name, all);
    }
    return FC_OK;
}

/* NULL when this kernel may run the problem on this context. */
static const char *reason_against(const fc_context *context, const fc_attention *problem,
                                  const fc_kernel *kernel)
{
    if (is_direction_forced(context, kernel->direction) && !is_forced(context, kernel))
        return "another kernel is forced";
    return kernel->accepts(kernel, context, problem);
}

/* The first kernel of a direction that accepts the problem and, where it says so, suits it. */
static const fc_kernel *first_that_accepts(const fc_context *context, const fc_attention *problem,
                                           fc_direction direction, bool must_suit)
{
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const fc_kernel *kernel = kernels[i];
        if (kernel->direction != direction || reason_against(context, problem, kernel))
            continue;
        if (!must_suit || !kernel->suits || kernel->suits(kernel, context, problem))
            return kernel;
    }
    return NULL;
}

static fc_status refuse_forced(const fc_context *context, const fc_attention *problem,
                               fc_direction direction)
{
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const fc_kernel *kernel = kernels[i];
        if (kernel->direction == direction && is_forced(context, kernel))
            return fc_fail(FC_ERROR_UNSUPPORTED, "kernel '%s' is forced, but refuses: %s",
                           kernel->name, kernel->accepts(kernel, context, problem));
    }
    return fc_fail(FC_ERROR_UNSUPPORTED,
                   "no %s kernel accepts this problem; fc_kernel_query says why",
                   direction == FC_FORWARD ? "forward" : "backward");
}

fc_status fc_choose_kernel(const fc_context *context, const fc_attention *problem,
                           fc_direction direction, const fc_kernel **chosen)
{
    *chosen = first_that_accepts(context, problem, direction, true);
    if (!*chosen)
        *chosen = first_that_accepts(context, problem, direction, false);
    return *chosen ? FC_OK : refuse_forced(context, problem, direction);
}

fc_status fc_kernel_query(fc_context *context, const fc_attention *problem, int index,
                          fc_kernel_info *info)
{
    FC_REQUIRE(context, "context is NULL");
    FC_REQUIRE(info, "info is NULL");
    FC_REQUIRE(info->struct_size == sizeof *info,
               "fc_kernel_info.struct_size = %zu is not %zu; "
               "start from fc_kernel_info_init()",
               info->struct_size, sizeof *info);
    FC_REQUIRE(index >= 0 && index < KERNEL_COUNT, "index = %d is out of range; allowed: 0 to %d",
               index, KERNEL_COUNT - 1);
    fc_attention request, resolved;
    FC_TRY(fc_read_attention(problem, &request));
    FC_TRY(fc_validate(&request, &resolved));

    const fc_kernel *kernel = kernels[index], *chosen = NULL;
    const char *reason = reason_against(context, &resolved, kernel);
    info->name = kernel->name;
    info->summary = kernel->summary;
    info->direction = kernel->direction;
    info->accepts = !reason;
    snprintf(info->reason, sizeof info->reason, "%s", reason ? reason : "");
    info->chosen = fc_choose_kernel(context, &resolved, kernel->direction, &chosen) == FC_OK &&
                   chosen == kernel;
    return FC_OK;
}
