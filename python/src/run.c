/* run.c: plan, workspace, run. */
#include "run.h"

#include "plans.h"

PyObject *raise_status(fc_status status)
{
    PyObject *kind = PyExc_RuntimeError;
    if (status == FC_ERROR_INVALID)
        kind = PyExc_ValueError;
    else if (status == FC_ERROR_UNSUPPORTED)
        kind = PyExc_NotImplementedError;
    else if (status == FC_ERROR_MEMORY)
        kind = PyExc_MemoryError;
    const char *sentence = fc_last_error();
    PyErr_SetString(kind, *sentence ? sentence : fc_status_text(status));
    return NULL;
}

static fc_status run_plan(const call *c, const fc_plan *plan, const fc_gradients *gradients,
                          void *stream)
{
    if (gradients)
        return fc_plan_backward(plan, &c->buffers, gradients, stream);
    return fc_plan_forward(plan, &c->buffers, stream);
}

static size_t workspace_bytes(const cached_plan *taken, const fc_gradients *gradients)
{
    return fc_plan_workspace_bytes(taken->plan, gradients ? FC_BACKWARD : FC_FORWARD);
}

/* A second call finds its plan; a first one may have to compile its kernel. */
static fc_status take_plan(const call *c, cached_plan **taken)
{
    const dl_device device = c->views[P_q].device;
    *taken = plan_find(device, &c->problem);
    if (*taken)
        return FC_OK;
    fc_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = plan_take(device, &c->problem, taken);
    Py_END_ALLOW_THREADS;
    return status;
}

static fc_status run_with_workspace(call *c, const cached_plan *taken,
                                    const fc_gradients *gradients)
{
    const size_t bytes = workspace_bytes(taken, gradients);
    workspace *memory = bytes ? workspace_take(bytes) : NULL;
    if (bytes && !memory)
        return FC_ERROR_MEMORY;
    c->buffers.workspace = memory ? memory->memory : NULL;
    c->buffers.workspace_bytes = memory ? memory->bytes : 0;
    const fc_status status = run_plan(c, taken->plan, gradients, NULL);
    if (memory)
        workspace_release(memory);
    return status;
}

static int read_stream(const call *c, void **stream)
{
    if (!c->values[P_stream])
        return framework_stream(c->framework, c->views[P_q].device, stream);
    *stream = PyLong_AsVoidPtr(c->values[P_stream]);
    return PyErr_Occurred() ? -1 : 0;
}

/* The framework's allocator knows the stream: memory given back behind a launch is reused in order,
 * and inside a graph capture it belongs to the graph. */
static int borrow_workspace(call *c, size_t bytes, new_tensor *memory)
{
    const int64_t shape[] = {(int64_t)(bytes + FC_WORKSPACE_ALIGNMENT)};
    if (tensor_allocate(c->framework, 1, shape, (dl_type){DL_UINT, 8, 1}, c->views[P_q].device,
                        memory) != 0)
        return -1;
    const uintptr_t past = (uintptr_t)memory->view.data % FC_WORKSPACE_ALIGNMENT;
    c->buffers.workspace = (char *)memory->view.data + (past ? FC_WORKSPACE_ALIGNMENT - past : 0);
    c->buffers.workspace_bytes = bytes;
    return 0;
}

static int run_on_gpu(call *c, const cached_plan *taken, const fc_gradients *gradients)
{
    void *stream;
    if (read_stream(c, &stream) != 0)
        return -1;
    new_tensor memory = {.object = NULL};
    const size_t bytes = workspace_bytes(taken, gradients);
    if (bytes && borrow_workspace(c, bytes, &memory) != 0)
        return -1;
    fc_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = run_plan(c, taken->plan, gradients, stream);
    Py_END_ALLOW_THREADS;
    if (status != FC_OK)
        raise_status(status);
    tensor_discard(&memory);
    return status == FC_OK ? 0 : -1;
}

/* Opening and closing Python's lock takes 0.3 us; so do 4,000 multiplications. */
static bool is_small(const fc_attention *p)
{
    const double scores =
        (double)p->batch * (double)p->q_heads * (double)p->q_length * (double)p->kv_length;
    return scores * (double)(p->head_dim + p->value_dim) <= 4096;
}

static int run_on_cpu(call *c, const cached_plan *taken, const fc_gradients *gradients)
{
    fc_status status;
    if (is_small(&c->problem)) {
        status = run_with_workspace(c, taken, gradients);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = run_with_workspace(c, taken, gradients);
        Py_END_ALLOW_THREADS;
    }
    if (status != FC_OK)
        raise_status(status);
    return status == FC_OK ? 0 : -1;
}

int run_call(call *c, const fc_gradients *gradients)
{
    cached_plan *taken;
    const fc_status status = take_plan(c, &taken);
    if (status != FC_OK) {
        raise_status(status);
        return -1;
    }
    const bool on_cpu = c->views[P_q].device.type == DL_CPU;
    const int result = (on_cpu ? run_on_cpu : run_on_gpu)(c, taken, gradients);
    plan_release(taken);
    return result;
}
