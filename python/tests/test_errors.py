"""Bad input gets a Python exception with a sentence, and never a crash."""

import gc
import re
import sys

import numpy as np
import pytest

import flashcore

X = np.ones((2, 4, 5, 8), "float32")


def refused(kind, sentence, *arguments, **options):
    with pytest.raises(kind, match=re.escape(sentence)):
        flashcore.attention(*arguments, **options)


def test_the_librarys_own_sentence():
    three = X[:, :3]
    refused(ValueError, "kv_heads = 3 does not divide q_heads = 4", X, three, three)
    refused(ValueError, "dropout_p = 1 is out of range; allowed: 0 <= p < 1", X, X, X, dropout_p=1)
    refused(ValueError, "softcap = -1 is not allowed", X, X, X, softcap=-1.0)
    refused(ValueError, "scale = nan is not finite", X, X, X, scale=float("nan"))


@pytest.mark.parametrize(
    "kind, sentence, arguments, options",
    [
        (TypeError, "attention() needs 'v'", (X, X), {}),
        (TypeError, "attention() needs 'q'", (None, X, X), {}),
        (TypeError, "takes 3 arguments by position, 4 were given", (X, X, X, X), {}),
        (TypeError, "has no parameter 'is_causal'", (X, X, X), {"is_causal": True}),
        (TypeError, "has no parameter 'dout'", (X, X, X), {"dout": X}),
        (TypeError, "got 'q' twice", (X, X, X), {"q": X}),
        (TypeError, "k is a <class 'list'>", (X, [1.0], X), {}),
        (TypeError, "q has elements of type int64", (X.astype("int64"), X, X), {}),
        (TypeError, "k has elements of type f32, v of type f16", (X, X, X.astype("f2")), {}),
        (ValueError, "q has 3 dimensions; batched ones have 4", (X[0], X, X), {}),
        (ValueError, "5 dimensions; attention knows at most 4", (X[None], X, X), {}),
        (ValueError, "head_dim: k has 4, q has 8", (X, X[..., :4], X), {}),
        (ValueError, "heads: v has 2, k has 4", (X, X, X[:, :2]), {}),
        (ValueError, "sequences: k has 1, q has 2", (X, X[:1], X[:1]), {}),
        (ValueError, "v's last dimension is 0", (X, X, X[..., :0]), {}),
        (ValueError, "head_dim = 0 is out of range", (X[..., :0], X[..., :0], X), {}),
        (ValueError, "layout = 'sbhd' is not known", (X, X, X), {"layout": "sbhd"}),
        (ValueError, "diagonal = 3 is not known", (X, X, X), {"diagonal": 3}),
        (TypeError, "window = 5 is not (left, right)", (X, X, X), {"window": 5}),
        (TypeError, "an integer", (X, X, X), {"window": ("all", None)}),
        (TypeError, "must be real number", (X, X, X), {"scale": "large"}),
        (TypeError, "an integer", (X, X, X), {"dropout_seed": 1.5}),
        (ValueError, "window_right = 3 contradicts causal", (X, X, X),
         {"causal": True, "window": (None, 3)}),
        (ValueError, "mask does not broadcast", (X, X, X), {"mask": np.ones((3, 5), bool)}),
        (TypeError, "numbers to be added are the bias", (X, X, X), {"mask": X[0, 0, :, :5]}),
        (TypeError, "bias has elements of type bool", (X, X, X), {"bias": np.ones((5, 5), bool)}),
        (ValueError, "mask repeats along the keys", (X, X, X), {"mask": np.ones((5, 1), bool)}),
        (ValueError, "v repeats along its last dimension",
         (X, X, np.lib.stride_tricks.as_strided(X, X.shape, (640, 160, 32, 0))), {}),
        (ValueError, "sinks must be a dense f32 vector of 4", (X, X, X),
         {"sinks": np.ones(3, "f4")}),
        (ValueError, "sinks must be a dense f32 vector of 4", (X, X, X),
         {"sinks": np.ones(8, "f4")[::2]}),
        (ValueError, "kv_lengths must be a dense int32 vector of 2", (X, X, X),
         {"kv_lengths": np.ones(2, "int64")}),
        (ValueError, "kv_lengths[1] = 9 is out of range", (X, X, X),
         {"kv_lengths": np.int32([5, 9])}),
        (ValueError, "alibi must be f32 of shape (heads,)", (X, X, X), {"alibi": X}),
        (ValueError, "max_seqlen_q is given without cu_seqlens_q", (X, X, X), {"max_seqlen_q": 5}),
        (ValueError, "out must have q's shape", (X, X, X), {"out": np.empty((2, 4, 5, 4), "f4")}),
        (ValueError, "lse must be f32 of shape (batch, heads, length)", (X, X, X),
         {"lse": np.empty((2, 4, 6), "f4")}),
        (ValueError, "out's elements overlap", (X, X, X),
         {"out": np.lib.stride_tricks.as_strided(np.empty(99, "f4"), X.shape, (0, 0, 32, 4))}),
        (ValueError, "page_table must be int32", (X, X, X), {"page_table": np.ones((2, 2))}),
        (ValueError, "page_table[0][1] = 7 is out of range; page_count = 2", (X, X, X),
         {"page_table": np.int32([[0, 7], [1, 1]])}),
        (ValueError, "max_seqlen_kv = 11 is more than page_table's 10 keys", (X, X, X),
         {"page_table": np.int32([[0, 1], [1, 1]]), "max_seqlen_kv": 11}),
        (ValueError, "q_scale is given, but f32 elements have no scale", (X, X, X),
         {"q_scale": np.float32(1).reshape(1)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_refusals(kind, sentence, arguments, options):
    refused(kind, sentence, *arguments, **options)


def test_a_packed_problem_that_does_not_fit():
    rows = np.ones((5, 4, 8), "float32")
    cu = np.int32([0, 2, 6])
    refused(ValueError, "cu_q[2] = 6 is past the tensor's 5 rows", rows, rows, rows,
            cu_seqlens_q=cu, cu_seqlens_kv=cu)  # fmt: skip
    refused(ValueError, "cu_kv[2] = 6 is past the tensor's 5 rows", rows, rows, rows,
            cu_seqlens_q=np.int32([0, 2, 5]), cu_seqlens_kv=cu)  # fmt: skip
    refused(ValueError, "q has 4 dimensions; packed ones have 3", X, X, X, cu_seqlens_q=cu)


def test_backward_refuses_what_does_not_belong_together():
    out, lse = flashcore.attention(X, X, X, return_lse=True)
    with pytest.raises(ValueError, match="dout must have out's shape and type"):
        flashcore.attention_backward(X[..., :4], X, X, X, out, lse)
    with pytest.raises(ValueError, match="need the bias"):
        flashcore.attention_backward(X, X, X, X, out, lse, return_dbias=True)
    with pytest.raises(ValueError, match="bias must be dense for its gradient"):
        bias = np.ones((5, 10), "float32")[:, ::2]
        flashcore.attention_backward(X, X, X, X, out, lse, bias=bias, return_dbias=True)


def test_tensors_on_two_devices():
    """Described, not there: explain() takes a tensor's shape, type and device for it."""
    here, there = ((1, 2, 9, 16), "f16", "cpu"), ((1, 2, 9, 16), "f16", "cuda")
    with pytest.raises(ValueError, match="v is on cuda:0, but q is on the CPU"):
        flashcore.explain(here, here, there)


class Legacy:
    """Speaks DLPack as before its version 1."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self):
        return self.array.__dlpack__()


def test_nothing_is_leaked_by_refusals_or_calls():
    x = np.ones((1, 1, 3, 4), "float32")  # one head: one thread
    turned, out = np.ones((1, 2, 3, 4), "float32").swapaxes(1, 2), np.empty_like(x)
    legacy = Legacy(x)

    def every_way():
        made, lse = flashcore.attention(x, x, x, return_lse=True)
        flashcore.attention_backward(x, x, x, x, made, lse)
        flashcore.attention(turned, turned, turned[..., :2])
        flashcore.attention(legacy, legacy, legacy, out=out, lse=lse, causal=True)
        for wrong in ({"softcap": -1.0}, {"bias": x}, {"out": x}):
            try:
                flashcore.attention(x, x, x, **wrong)
            except ValueError:
                pass

    def count():
        gc.collect()
        constants = (sys.getrefcount(thing) for thing in (None, True, False, out, x))
        return sys.getallocatedblocks(), *constants

    for _ in range(100):  # until all that is kept is there
        every_way()
    before = count()
    for _ in range(1000):
        every_way()
    # Python's own stores come and go by hundreds.
    assert all(now - then < 500 for now, then in zip(count(), before)), (before, count())
