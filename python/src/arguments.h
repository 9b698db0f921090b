/* arguments.h: the parameters that attention, its backward pass and explain share. */
#ifndef FLASHCORE_ARGUMENTS_H
#define FLASHCORE_ARGUMENTS_H

#include "py.h"

/* Tensors first, so that a parameter's number is also its view's. */
#define TENSOR_PARAMETERS(X) \
    X(q)                     \
    X(k)                     \
    X(v)                     \
    X(dout)                  \
    X(out)                   \
    X(lse)                   \
    X(alibi)                 \
    X(bias)                  \
    X(mask)                  \
    X(sinks)                 \
    X(cu_seqlens_q)          \
    X(cu_seqlens_kv)         \
    X(kv_lengths)            \
    X(page_table)            \
    X(q_scale)               \
    X(k_scale)               \
    X(v_scale)

#define OTHER_PARAMETERS(X) \
    X(causal)               \
    X(scale)                \
    X(window)               \
    X(softcap)              \
    X(diagonal)             \
    X(dropout_p)            \
    X(dropout_seed)         \
    X(dropout_offset)       \
    X(max_seqlen_q)         \
    X(max_seqlen_kv)        \
    X(scale_block)          \
    X(layout)               \
    X(batch_invariant)      \
    X(return_lse)           \
    X(return_dbias)         \
    X(return_dsinks)        \
    X(stream)               \
    X(grouped)

#define PARAMETER_NUMBER(name) P_##name,
enum {
    TENSOR_PARAMETERS(PARAMETER_NUMBER) TENSOR_COUNT,
    P_before_others = TENSOR_COUNT - 1,
    OTHER_PARAMETERS(PARAMETER_NUMBER) PARAMETER_COUNT
};
#undef PARAMETER_NUMBER

#define PARAMETER_BIT(name) (UINT64_C(1) << P_##name)

extern const char *const parameter_names[PARAMETER_COUNT];

typedef struct signature {
    const char *function;
    const uint8_t *positional; /* all of them required */
    int positional_count;
    uint64_t refused; /* parameters of another function */
} signature;

int arguments_prepare(void); /* once, when the module is made */

/* Borrowed references; NULL for what is not given or None. */
int arguments_parse(const signature *s, PyObject *const *given, Py_ssize_t given_count,
                    PyObject *keyword_names, PyObject *values[PARAMETER_COUNT]);

#endif
