/* explain.c: which kernel would run a call and why not another; what this library is. */
#include "outputs.h"
#include "plans.h"
#include "run.h"

static PyObject *kernel_row(const fc_kernel_info *row)
{
    return Py_BuildValue("{s:s,s:s,s:s,s:O,s:O,s:s}", "name", row->name, "summary", row->summary,
                         "direction", row->direction == FC_FORWARD ? "forward" : "backward",
                         "accepts", row->accepts ? Py_True : Py_False, "chosen",
                         row->chosen ? Py_True : Py_False, "reason", row->reason);
}

static PyObject *query_kernels(fc_context *context, const fc_attention *problem)
{
    const int count = fc_kernel_count();
    PyObject *rows = PyList_New(0);
    for (int i = 0; rows && i < count; i++) {
        fc_kernel_info row = fc_kernel_info_init();
        const fc_status status = fc_kernel_query(context, problem, i, &row);
        PyObject *object = status == FC_OK ? kernel_row(&row) : raise_status(status);
        if (!object || PyList_Append(rows, object) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(object);
    }
    return rows;
}

/* Everything that attention() would state, without memory for the results. */
static int state_problem(call *c, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    c->opened = 0;
    output out, dq, dk, dv;
    fc_attention *p = &c->problem;
    if (arguments_parse(&forward_signature, given, count, names, c->values) != 0 ||
        call_open(c) != 0 || output_describe_out(c, &out) != 0)
        return -1;
    p->dout_strides = p->out_strides;
    if (output_describe(c, &dq, "dq", Q_SIDE, P_q, p->head_dim, &p->dq_strides) != 0 ||
        output_describe(c, &dk, "dk", KV_SIDE, P_k, p->head_dim, &p->dk_strides) != 0 ||
        output_describe(c, &dv, "dv", KV_SIDE, P_v, p->value_dim, &p->dv_strides) != 0)
        return -1;
    return 0;
}

PyObject *explain(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    (void)module;
    call c;
    PyObject *rows = NULL;
    if (state_problem(&c, given, count, names) == 0) {
        fc_context *context;
        const fc_status status = context_of(c.views[P_q].device, &context);
        rows = status == FC_OK ? query_kernels(context, &c.problem) : raise_status(status);
    }
    call_close(&c);
    return rows;
}

/* describe(...) -> the problem, for a call that is made later without Python; refused here if it
 * can't be run at all. */
PyObject *describe(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    (void)module;
    call c;
    PyObject *description = NULL;
    if (state_problem(&c, given, count, names) == 0) {
        cached_plan *taken;
        const fc_status status = plan_take(c.views[P_q].device, &c.problem, &taken);
        description = status == FC_OK ? PyBytes_FromStringAndSize((const char *)&c.problem,
                                                                  (Py_ssize_t)sizeof c.problem)
                                      : raise_status(status);
        if (status == FC_OK)
            plan_release(taken);
    }
    call_close(&c);
    return description;
}

PyObject *kernels(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    fc_context *context;
    const fc_status status = context_of((dl_device){DL_CPU, 0}, &context);
    if (status != FC_OK)
        return raise_status(status);
    fc_attention problem = fc_attention_init(); /* any: only names are asked for */
    problem.batch = problem.q_heads = problem.kv_heads = 1;
    problem.q_length = problem.kv_length = problem.head_dim = 1;
    problem.q_type = FC_F32;
    PyObject *rows = query_kernels(context, &problem);
    const Py_ssize_t count = rows ? PyList_Size(rows) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *row = PyList_GetItem(rows, i);
        PyDict_DelItemString(row, "accepts");
        PyDict_DelItemString(row, "chosen");
        PyDict_DelItemString(row, "reason");
    }
    return rows;
}

PyObject *info(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return Py_BuildValue("{s:s,s:s,s:i}", "version", fc_version(), "build", fc_build(),
                         "cuda_devices", fc_device_count(FC_CUDA));
}
