/* call.h: one call: its arguments, the tensors behind them, and the problem that they state. */
#ifndef FLASHCORE_CALL_H
#define FLASHCORE_CALL_H

#include "arguments.h"
#include "flashcore.h"
#include "tensor.h"

typedef struct call {
    PyObject *values[PARAMETER_COUNT];
    tensor_view views[TENSOR_COUNT]; /* of those that are given */
    uint32_t opened;                 /* one bit a view */
    const framework *framework;      /* of q: makes the results */
    fc_attention problem;
    fc_buffers buffers;
    int head_axis, row_axis; /* of tensors that are not packed */
} call;

/* Opens every tensor that is given and states the problem; the outputs' fields are left alone.
 * Returns 0, or -1 with a Python error set; call_close in either case. */
int call_open(call *c);
void call_close(call *c);

static inline bool call_has(const call *c, int parameter)
{
    return c->values[parameter] != NULL;
}

/* Which way a tensor lies: that of q (out, dq…) or that of the keys. */
typedef enum tensor_side { Q_SIDE, KV_SIDE } tensor_side;

int call_set_strides(const call *c, const char *name, const tensor_view *view, tensor_side side,
                     fc_strides *strides);

/* The shape of an output in the caller's layout; returns its dimensions. */
int call_output_shape(const call *c, tensor_side side, int64_t dim, int64_t shape[MOST_DIMENSIONS]);
int call_lse_shape(const call *c, int64_t shape[MOST_DIMENSIONS]);
int call_set_lse_strides(const call *c, const tensor_view *view, fc_strides *strides);

/* numbers.c: the arguments that are no tensors. */
int call_read_numbers(call *c);
int call_flag(const call *c, int parameter, int32_t *flag);
int call_integer(const call *c, int parameter, int64_t fallback, int64_t *value);

/* extras.c: the tensors beside q, k and v. */
int call_read_extras(call *c);
int call_check_vector(const call *c, int parameter, dl_type type, int64_t count);

#endif
