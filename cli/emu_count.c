/* emu_count.c: see emu_count.h. */
#include "emu_count.h"
#include "core/internal.h"
#include "cuda/services.h"
#include "output.h"
#include "tensors.h"

static bool run_counted(const fc_plan *plan, const lab_memory *memory, fc_buffers *buffers,
                        const emu_control *emulator)
{
    buffers->workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    if (buffers->workspace_bytes > 0)
        buffers->workspace = memory->allocate(memory->user, buffers->workspace_bytes);
    emulator->reset();
    emulator->count(true);
    const fc_status status = fc_plan_forward(plan, buffers, NULL);
    emulator->count(false);
    if (status == FC_ERROR_DRIVER)
        cli_refuse("%s", emulator->report());
    else if (status != FC_OK)
        cli_refuse("%s", fc_last_error());
    if (buffers->workspace != NULL)
        memory->release(memory->user, buffers->workspace);
    return status == FC_OK;
}

bool emu_count(fc_context *context, emu_report *report)
{
    const emu_control *emulator = fc_cuda_emulator();
    const lab_memory memory = lab_memory_of(context);
    fc_plan *plan = NULL;
    fc_case c;
    lab_tensors tensors;
    if (fc_plan_create(context, &report->problem, &plan) != FC_OK)
        return cli_refuse("%s", fc_last_error());
    report->kernel = fc_plan_kernel(plan, FC_FORWARD);
    case_from_problem(&report->problem, &c);
    bool ok = lab_tensors_create(&c, &memory, &tensors) == FC_OK;
    if (ok) {
        fc_buffers buffers = lab_tensors_buffers(&tensors);
        ok = run_counted(plan, &memory, &buffers, emulator);
        lab_tensors_destroy(&tensors);
    }
    fc_plan_destroy(plan);
    emulator->totals(&report->totals);
    report->line_count = emulator->lines(report->lines, EMU_MOST_LINES);
    if (report->line_count > EMU_MOST_LINES)
        report->line_count = EMU_MOST_LINES;
    return ok;
}
