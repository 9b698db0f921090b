/* module.c: the module flashcore._C. What its functions take is documented in
 * flashcore/__init__.pyi and docs/python.md. */
#include "plans.h"
#include "run.h"

#define COMMON_PARAMETERS                                                                     \
    "causal=False, scale=None, window=None, softcap=None, alibi=None, bias=None, mask=None, " \
    "sinks=None, diagonal='bottom_right', dropout_p=0.0, dropout_seed=0, dropout_offset=0, "  \
    "cu_seqlens_q=None, cu_seqlens_kv=None, max_seqlen_q=None, max_seqlen_kv=None, "          \
    "kv_lengths=None, page_table=None, q_scale=None, k_scale=None, v_scale=None, "            \
    "scale_block=None, layout='bhsd', batch_invariant=False"

PyDoc_STRVAR(attention_doc,
             "attention(q, k, v, *, " COMMON_PARAMETERS
             ", return_lse=False, out=None, lse=None, stream=None)\n--\n\n"
             "softmax(q @ k.T * scale + bias) @ v for tensors of any framework that speaks "
             "DLPack,\non their own device and current stream, without a copy.\n\n"
             "q is (batch, heads, length, dim), k and v likewise with heads that divide q's;\n"
             "layout='bshd' puts the length before the heads. Returns out, or (out, lse).\n"
             "A row sees the keys up to its own position with causal=True, and from left to\n"
             "right of it with window=(left, right); positions count from the last key\n"
             "(diagonal='bottom_right') or the first ('top_left'). See docs/python.md.");

PyDoc_STRVAR(backward_doc,
             "attention_backward(dout, q, k, v, out, lse, *, " COMMON_PARAMETERS
             ", return_dbias=False, return_dsinks=False, stream=None)\n--\n\n"
             "The gradients (dq, dk, dv, dbias, dsinks) of a call of attention() with the same\n"
             "arguments, whose out and lse are given; the last two are None unless asked for.");

static PyMethodDef methods[] = {
    FAST_METHOD("attention", attention, attention_doc),
    FAST_METHOD("attention_here", attention_here, NULL),
    FAST_METHOD("attention_backward", attention_backward, backward_doc),
    FAST_METHOD("explain", explain, NULL),
    FAST_METHOD("describe", describe, NULL),
    {"kernels", kernels, METH_NOARGS, NULL},
    {"info", info, METH_NOARGS, NULL},
    {"xla_handlers", xla_handlers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "flashcore._C",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void)
{
    if (plans_prepare() != 0)
        return PyErr_NoMemory();
    if (arguments_prepare() != 0 || forward_prepare() != 0)
        return NULL;
    return PyModule_Create(&definition);
}
