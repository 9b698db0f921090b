/* jax.c: FlashCore as functions that XLA calls, without Python: attention inside jit on a CPU and
 * on a GPU's own stream. The problem was stated when the call was traced (describe, in explain.c).
 */
#include "plans.h"
#include "run.h"
#include "xla.h"

#include <string.h>

#define BUFFER(name, field)               \
    {                                     \
        name, offsetof(fc_buffers, field) \
    }
#define GRADIENT(name, field)               \
    {                                       \
        name, offsetof(fc_gradients, field) \
    }
typedef struct place {
    const char *name;
    size_t offset;
} place;

static const place buffer_places[] = {
    BUFFER("q", q),
    BUFFER("k", k),
    BUFFER("v", v),
    BUFFER("out", out),
    BUFFER("lse", lse),
    BUFFER("q_scale", q_scale),
    BUFFER("k_scale", k_scale),
    BUFFER("v_scale", v_scale),
    BUFFER("alibi", alibi),
    BUFFER("bias", bias),
    BUFFER("mask", mask),
    BUFFER("sinks", sinks),
    BUFFER("cu_seqlens_q", cu_q),
    BUFFER("cu_seqlens_kv", cu_kv),
    BUFFER("kv_lengths", kv_lengths),
    BUFFER("page_table", page_table),
};
static const place gradient_places[] = {
    GRADIENT("dout", dout), GRADIENT("dq", dq),       GRADIENT("dk", dk),
    GRADIENT("dv", dv),     GRADIENT("dbias", dbias), GRADIENT("dsinks", dsinks),
};

typedef struct xla_run {
    const xla_call *frame;
    fc_direction direction;
    dl_device device;
    fc_attention problem;
    fc_buffers buffers;
    fc_gradients gradients;
    void *stream;
} xla_run;

static xla_error *fail(const xla_call *frame, int code, const char *message)
{
    xla_error_create_args args = {.struct_size = sizeof args, .message = message, .code = code};
    return frame->api->error_create(&args);
}

static xla_error *fail_with(const xla_call *frame, fc_status status)
{
    const int code = status == FC_ERROR_INVALID       ? XLA_ERROR_INVALID_ARGUMENT
                     : status == FC_ERROR_UNSUPPORTED ? XLA_ERROR_UNIMPLEMENTED
                                                      : XLA_ERROR_INTERNAL;
    const char *sentence = fc_last_error();
    return fail(frame, code, *sentence ? sentence : fc_status_text(status));
}

static const xla_array *find_attribute(const xla_call *frame, const char *name)
{
    const xla_attributes *all = &frame->attributes;
    for (int64_t i = 0; i < all->count; i++)
        if (all->types[i] == XLA_ATTRIBUTE_ARRAY && all->names[i]->length == strlen(name) &&
            memcmp(all->names[i]->data, name, strlen(name)) == 0)
            return all->values[i];
    return NULL;
}

static bool set_pointer(const place *places, size_t count, void *record, const char *name,
                        size_t length, void *data)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(places[i].name) == length && memcmp(places[i].name, name, length) == 0) {
            memcpy((char *)record + places[i].offset, &data, sizeof data);
            return true;
        }
    return false;
}

/* names: "q,k,v,bias", as bytes; one for each value. */
static bool set_pointers(xla_run *run, const xla_values *values, const xla_array *names)
{
    const char *at = names->data, *end = at + names->count;
    for (int64_t i = 0; i < values->count; i++) {
        const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        const size_t length = (size_t)((comma ? comma : end) - at);
        void *data = ((const xla_buffer *)values->values[i])->data;
        if (!set_pointer(buffer_places, sizeof buffer_places / sizeof *buffer_places, &run->buffers,
                         at, length, data) &&
            !set_pointer(gradient_places, sizeof gradient_places / sizeof *gradient_places,
                         &run->gradients, at, length, data))
            return false;
        at += length + 1;
    }
    return true;
}

static bool read_call(xla_run *run)
{
    const xla_array *problem = find_attribute(run->frame, "problem");
    const xla_array *arguments = find_attribute(run->frame, "arguments");
    const xla_array *results = find_attribute(run->frame, "results");
    const xla_array *seed = find_attribute(run->frame, "seed");
    if (!problem || !arguments || !results || !seed || seed->count != 2 ||
        problem->count * sizeof(int64_t) != sizeof run->problem)
        return false;
    memcpy(&run->problem, problem->data, sizeof run->problem);
    run->buffers = fc_buffers_init();
    run->gradients = fc_gradients_init();
    memcpy(&run->buffers.dropout_seed, seed->data, sizeof(uint64_t));
    memcpy(&run->buffers.dropout_offset, (const char *)seed->data + sizeof(uint64_t),
           sizeof(uint64_t));
    return set_pointers(run, &run->frame->arguments, arguments) &&
           set_pointers(run, &run->frame->results, results);
}

static xla_error *find_gpu(xla_run *run)
{
    const xla_api *api = run->frame->api;
    xla_stream_get_args stream = {.struct_size = sizeof stream, .context = run->frame->context};
    xla_error *error = api->stream_get(&stream);
    run->stream = stream.stream;
    if (error || api->struct_size < offsetof(xla_api, ordinal_get) + sizeof(xla_function))
        return error; /* versions that can't tell: the first GPU */
    xla_ordinal_args ordinal = {.struct_size = sizeof ordinal, .context = run->frame->context};
    error = api->ordinal_get(&ordinal);
    run->device.index = ordinal.ordinal;
    return error;
}

static fc_status run_plan(xla_run *run, const fc_plan *plan)
{
    if (run->direction == FC_BACKWARD)
        return fc_plan_backward(plan, &run->buffers, &run->gradients, run->stream);
    return fc_plan_forward(plan, &run->buffers, run->stream);
}

static xla_error *run_with_workspace(xla_run *run, const fc_plan *plan, size_t bytes)
{
    workspace *memory = NULL;
    if (bytes && run->device.type == DL_CPU) {
        memory = workspace_take(bytes);
        run->buffers.workspace = memory ? memory->memory : NULL;
    } else if (bytes) { /* XLA takes it back when this call is over, in the stream's order */
        xla_memory_args args = {.struct_size = sizeof args,
                                .context = run->frame->context,
                                .bytes = bytes,
                                .alignment = FC_WORKSPACE_ALIGNMENT};
        xla_error *error = run->frame->api->memory_allocate(&args);
        if (error)
            return error;
        run->buffers.workspace = args.data;
    }
    run->buffers.workspace_bytes = bytes;
    const fc_status status = run_plan(run, plan);
    if (memory)
        workspace_release(memory);
    return status == FC_OK ? NULL : fail_with(run->frame, status);
}

static xla_error *execute(xla_run *run)
{
    if (!read_call(run))
        return fail(run->frame, XLA_ERROR_INVALID_ARGUMENT,
                    "the call was traced by another version of flashcore");
    xla_error *error = run->device.type == DL_CUDA ? find_gpu(run) : NULL;
    if (error)
        return error;
    cached_plan *taken;
    const fc_status status = plan_take(run->device, &run->problem, &taken);
    if (status != FC_OK)
        return fail_with(run->frame, status);
    error =
        run_with_workspace(run, taken->plan, fc_plan_workspace_bytes(taken->plan, run->direction));
    plan_release(taken);
    return error;
}

/* XLA first asks for the version that a handler was made for, in a call without data. */
static xla_error *answer_or_execute(const xla_call *frame, fc_direction direction, int device_type)
{
    if (frame->extension && frame->extension->type == XLA_EXTENSION_METADATA) {
        xla_metadata *metadata = ((xla_metadata_extension *)(void *)frame->extension)->metadata;
        metadata->version.major = XLA_API_MAJOR;
        metadata->version.minor = frame->api->version.minor;
        metadata->traits = 0;
        if (metadata->struct_size >= sizeof *metadata)
            metadata->state_type = 0;
        return NULL;
    }
    if (frame->stage != XLA_STAGE_EXECUTE)
        return NULL;
    xla_run run = {.frame = frame, .direction = direction, .device = {device_type, 0}};
    return execute(&run);
}

static xla_error *cpu_forward(xla_call *frame)
{
    return answer_or_execute(frame, FC_FORWARD, DL_CPU);
}

static xla_error *cpu_backward(xla_call *frame)
{
    return answer_or_execute(frame, FC_BACKWARD, DL_CPU);
}

static xla_error *cuda_forward(xla_call *frame)
{
    return answer_or_execute(frame, FC_FORWARD, DL_CUDA);
}

static xla_error *cuda_backward(xla_call *frame)
{
    return answer_or_execute(frame, FC_BACKWARD, DL_CUDA);
}

typedef xla_error *(*xla_handler)(xla_call *);

static int add_handler(PyObject *all, const char *name, xla_handler handler)
{
    void *address;
    memcpy(&address, &handler, sizeof address);
    PyObject *capsule = PyCapsule_New(address, NULL, NULL);
    const int failed = !capsule || PyDict_SetItemString(all, name, capsule) != 0;
    Py_XDECREF(capsule);
    return failed;
}

/* xla_handlers() -> {"cpu_forward": capsule, …} */
PyObject *xla_handlers(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    PyObject *all = PyDict_New();
    if (all && (add_handler(all, "cpu_forward", cpu_forward) ||
                add_handler(all, "cpu_backward", cpu_backward) ||
                add_handler(all, "cuda_forward", cuda_forward) ||
                add_handler(all, "cuda_backward", cuda_backward)))
        Py_CLEAR(all);
    return all;
}
