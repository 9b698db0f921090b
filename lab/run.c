/* run.c: see run.h. */
#include "run.h"

#include "alone.h"
#include "compare.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool __attribute__((format(printf, 2, 3))) wrong(lab_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->reason, sizeof run->reason, format, arguments);
    va_end(arguments);
    return false;
}

static bool library_failed(lab_run *run, fc_status status, const char *call)
{
    run->status = status;
    return wrong(run, "%s gave %s: %s", call, fc_status_name(status), fc_last_error());
}

static const char *call_name(fc_direction direction)
{
    return direction == FC_FORWARD ? "the forward call" : "the backward call";
}

static void fence_inputs(const lab_run *run, bool closed)
{
    const lab_memory *memory = &run->target->memory;
    for (lab_tensor tensor = 0; tensor < LAB_INPUT_COUNT; tensor++) {
        const lab_buffer *buffer = &run->tensors->buffer[tensor];
        if (!buffer->name || buffer->borrowed)
            continue;
        uint8_t *behind = (uint8_t *)buffer->memory + lab_buffer_bytes(buffer) - LAB_GUARD_BYTES;
        memory->fence(memory->user, buffer->memory, LAB_GUARD_BYTES, closed);
        memory->fence(memory->user, behind, LAB_GUARD_BYTES, closed);
    }
}

static bool fill_memory(lab_run *run, void *memory, size_t bytes)
{
    const fc_status status = lab_memory_fill(&run->target->memory, memory, run->poison, bytes);
    return status == FC_OK || library_failed(run, status, "upload");
}

static uint8_t *download(lab_run *run, const void *memory, size_t bytes)
{
    uint8_t *image = lab_zeroed((int64_t)bytes, 1);
    if (run->target->memory.download(run->target->memory.user, image, memory, bytes) == FC_OK)
        return image;
    wrong(run, "the results could not be copied back");
    free(image);
    return NULL;
}

static bool is_run_output(const lab_run *run, lab_tensor tensor)
{
    return run->tensors->buffer[tensor].name &&
           ((!run->each_alone && !run->forward_only) || tensor <= LAB_LSE);
}

static bool still_holds(lab_run *run, lab_tensor tensor, const uint8_t *expected)
{
    const lab_buffer *buffer = &run->tensors->buffer[tensor];
    bool same;
    return lab_memory_compare(&run->target->memory, buffer->memory, expected,
                              lab_buffer_bytes(buffer), &same) == FC_OK &&
           same;
}

/* Copies what the call has just written. A CPU has written it when the call returns, a GPU before
 * whatever comes next in its stream, as the copy does. What another thread or stream writes after
 * that shows in a second look. */
static bool read_outputs(lab_run *run, fc_direction direction)
{
    const lab_memory *memory = &run->target->memory;
    const lab_tensor first = direction == FC_FORWARD ? LAB_OUT : LAB_DQ;
    const lab_tensor last = direction == FC_FORWARD ? LAB_LSE : LAB_DSINKS;
    for (lab_tensor tensor = first; tensor <= last; tensor++) {
        const lab_buffer *buffer = &run->tensors->buffer[tensor];
        if (!is_run_output(run, tensor))
            continue;
        free(run->image[tensor]);
        run->image[tensor] = download(run, buffer->memory, lab_buffer_bytes(buffer));
        if (!run->image[tensor])
            return false;
    }
    const fc_status status = memory->settle(memory->user);
    if (status != FC_OK)
        return library_failed(run, status, "waiting for the device");
    for (lab_tensor tensor = first; tensor <= last; tensor++)
        if (is_run_output(run, tensor) && !still_holds(run, tensor, run->image[tensor]))
            return wrong(run, "%s was written after %s had returned",
                         run->tensors->buffer[tensor].name, call_name(direction));
    return true;
}

static fc_status call_once(lab_run *run, const fc_plan *plan, fc_direction direction,
                           const fc_attention *problem, const fc_buffers *buffers,
                           const fc_gradients *gradients)
{
    const check_target *target = run->target;
    return direction == FC_FORWARD
               ? target->forward(target->user, run->context, problem, plan, buffers)
               : target->backward(target->user, run->context, problem, plan, buffers, gradients);
}

/* A kernel that may start before the one before it has ended follows one, itself: it must not touch
 * what that writes before it has waited. */
static fc_status call_target(lab_run *run, const fc_plan *plan, fc_direction direction,
                             const fc_attention *problem, const fc_buffers *buffers,
                             const fc_gradients *gradients)
{
    fc_status status = FC_OK;
    if (problem->dependent_launch)
        status = call_once(run, plan, direction, problem, buffers, gradients);
    return status == FC_OK ? call_once(run, plan, direction, problem, buffers, gradients) : status;
}

/* A workspace of exactly the size asked for, between guards. The outputs are read before it is
 * released, which would wait for all work of a GPU. */
static bool with_workspace(lab_run *run, const fc_plan *plan, fc_direction direction,
                           const fc_attention *problem, fc_buffers buffers,
                           const fc_gradients *gradients)
{
    const lab_memory *memory = &run->target->memory;
    const size_t needed = fc_plan_workspace_bytes(plan, direction);
    const size_t bytes = needed + 2 * (size_t)LAB_GUARD_BYTES;
    uint8_t *workspace = memory->allocate(memory->user, bytes);
    if (!workspace)
        return wrong(run, "no memory for a workspace of %zu bytes", needed);
    bool ok = fill_memory(run, workspace, bytes);
    if (ok) {
        buffers.workspace = needed ? workspace + LAB_GUARD_BYTES : NULL;
        buffers.workspace_bytes = needed;
        fence_inputs(run, true);
        const fc_status status = call_target(run, plan, direction, problem, &buffers, gradients);
        fence_inputs(run, false);
        ok = status == FC_OK || library_failed(run, status, call_name(direction));
        ok = ok && read_outputs(run, direction);
    }
    uint8_t *image = ok ? download(run, workspace, bytes) : NULL;
    memory->release(memory->user, workspace);
    ok = image != NULL;
    for (size_t i = 0; ok && i < LAB_GUARD_BYTES; i++)
        if (image[i] != run->poison || image[bytes - 1 - i] != run->poison)
            ok = wrong(run, "memory outside the workspace of %zu bytes was written", needed);
    free(image);
    return ok;
}

/* The backward call reads out and lse, and must leave them alone. */
static bool run_backward(lab_run *run, const fc_plan *plan, const fc_buffers *buffers)
{
    const lab_tensors *t = run->tensors;
    const fc_gradients gradients = lab_tensors_gradients(t);
    if (!with_workspace(run, plan, FC_BACKWARD, &t->of.problem, *buffers, &gradients))
        return false;
    for (lab_tensor tensor = LAB_OUT; tensor <= LAB_LSE; tensor++)
        if (!still_holds(run, tensor, run->image[tensor]))
            return wrong(run, "the backward call changed %s, which it only reads",
                         t->buffer[tensor].name);
    return true;
}

static bool run_batch(lab_run *run)
{
    const lab_tensors *t = run->tensors;
    const fc_buffers buffers = lab_tensors_buffers(t);
    fc_plan *plan;
    const fc_status status = fc_plan_create(run->context, &t->of.problem, &plan);
    if (status != FC_OK)
        return library_failed(run, status, "fc_plan_create");
    run->kernel = fc_plan_kernel(plan, FC_FORWARD);
    const bool backward = t->of.backward && !run->forward_only;
    run->backward_kernel = backward ? fc_plan_kernel(plan, FC_BACKWARD) : NULL;
    bool ok = with_workspace(run, plan, FC_FORWARD, &t->of.problem, buffers, NULL);
    if (ok && backward)
        ok = run_backward(run, plan, &buffers);
    fc_plan_destroy(plan);
    return ok;
}

static bool run_one_alone(lab_run *run, int64_t b, void *lengths)
{
    const lab_memory *memory = &run->target->memory;
    int32_t values[4];
    fc_attention problem;
    fc_buffers buffers;
    lab_alone_lengths(run->tensors, b, values);
    fc_status status = memory->upload(memory->user, lengths, values, sizeof values);
    if (status != FC_OK)
        return library_failed(run, status, "upload");
    lab_alone(run->tensors, b, lengths, &problem, &buffers);
    fc_plan *plan;
    status = fc_plan_create(run->context, &problem, &plan);
    if (status != FC_OK)
        return library_failed(run, status, "fc_plan_create for one sequence alone");
    const bool ok = with_workspace(run, plan, FC_FORWARD, &problem, buffers, NULL);
    fc_plan_destroy(plan);
    return ok;
}

static bool run_each_alone(lab_run *run)
{
    const lab_memory *memory = &run->target->memory;
    void *lengths = memory->allocate(memory->user, 4 * sizeof(int32_t));
    bool ok = lengths || wrong(run, "no memory for the lengths of one sequence");
    for (int64_t b = 0; ok && b < run->tensors->problem.batch; b++)
        ok = run_one_alone(run, b, lengths);
    if (lengths)
        memory->release(memory->user, lengths);
    return ok;
}

static bool inputs_unchanged(lab_run *run)
{
    for (lab_tensor tensor = 0; tensor < LAB_INPUT_COUNT; tensor++) {
        const lab_buffer *buffer = &run->tensors->buffer[tensor];
        if (!buffer->name || buffer->borrowed)
            continue;
        if (!still_holds(run, tensor, buffer->image))
            return wrong(run, "the input %s was changed", buffer->name);
    }
    return true;
}

static bool holds_poison(const lab_run *run, const uint8_t *bytes, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (bytes[i] != run->poison)
            return false;
    return true;
}

static bool output_in_bounds(lab_run *run, lab_tensor tensor)
{
    const lab_buffer *buffer = &run->tensors->buffer[tensor];
    const uint8_t *image = run->image[tensor], *elements = image + LAB_GUARD_BYTES;
    const int64_t size = buffer->element_bytes;
    if (!holds_poison(run, image, LAB_GUARD_BYTES))
        return wrong(run, "memory before %s was written", buffer->name);
    if (!holds_poison(run, elements + buffer->elements * size, LAB_GUARD_BYTES))
        return wrong(run, "memory past the end of %s was written", buffer->name);
    uint8_t *written = lab_written_elements(run->tensors, tensor);
    bool ok = true;
    for (int64_t i = 0; ok && i < buffer->elements; i++) {
        const bool poisoned = holds_poison(run, elements + i * size, size);
        if (written[i] && poisoned && run->poison == LAB_FIRST_POISON) {
            char name[96];
            compare_name_element(run->tensors, tensor, i, name, sizeof name);
            ok = wrong(run, "%s was not written", name);
        } else if (!written[i] && !poisoned) {
            ok = wrong(run,
                       "%s: memory between its elements was written, %lld elements from the "
                       "pointer",
                       buffer->name, (long long)(i - buffer->origin));
        }
    }
    free(written);
    return ok;
}

bool lab_run_guarded(lab_run *run)
{
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++) {
        const lab_buffer *buffer = &run->tensors->buffer[tensor];
        if (is_run_output(run, tensor) &&
            !fill_memory(run, buffer->memory, lab_buffer_bytes(buffer)))
            return false;
    }
    if (!(run->each_alone ? run_each_alone(run) : run_batch(run)))
        return false;
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++)
        if (is_run_output(run, tensor) && !output_in_bounds(run, tensor))
            return false;
    return inputs_unchanged(run);
}

void lab_run_free(lab_run *run)
{
    for (lab_tensor tensor = 0; tensor < LAB_TENSOR_COUNT; tensor++) {
        free(run->image[tensor]);
        run->image[tensor] = NULL;
    }
}

bool lab_run_same_bits(const lab_run *a, const lab_run *b, char *name, size_t name_bytes)
{
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++) {
        const lab_buffer *buffer = &a->tensors->buffer[tensor];
        if (!a->image[tensor] || !b->image[tensor])
            continue;
        uint8_t *written = lab_written_elements(a->tensors, tensor);
        const size_t size = (size_t)buffer->element_bytes;
        int64_t i = 0;
        while (
            i < buffer->elements &&
            (!written[i] || !memcmp(a->image[tensor] + LAB_GUARD_BYTES + (size_t)i * size,
                                    b->image[tensor] + LAB_GUARD_BYTES + (size_t)i * size, size)))
            i++;
        free(written);
        if (i < buffer->elements) {
            compare_name_element(a->tensors, tensor, i, name, name_bytes);
            return false;
        }
    }
    return true;
}
