/* outputs.h: the tensors that a call writes: given by the caller, or made in q's framework. */
#ifndef FLASHCORE_OUTPUTS_H
#define FLASHCORE_OUTPUTS_H

#include "call.h"

/* A tensor of the caller's shape, whose memory keeps the order of the two middle axes of `like`:
 * what comes from a transposed tensor goes back the same way, without a copy. */
typedef struct output {
    tensor_view view; /* shape and strides; data is NULL until output_make */
    bool wanted;
    bool swapped;
    tensor_side side;
    const char *name;
    int like;            /* the parameter whose order it keeps */
    fc_strides *strides; /* the problem's field */
    new_tensor made;
} output;

/* States the output in the problem's strides. */
int output_describe(const call *c, output *o, const char *name, tensor_side side, int like,
                    int64_t dim, fc_strides *strides);
void output_describe_lse(const call *c, output *o);

int output_make(const call *c, output *o, fc_type type, void **data);

/* The Python object; with result != 0 NULL, and the memory is given back. */
PyObject *output_finish(const call *c, output *o, int result);

/* out= and lse=: written where they are. */
int output_accept(call *c, const char *name, int parameter);

/* The problem's out_type, and the output's description (or out= where given). */
int output_describe_out(call *c, output *out);

#endif
