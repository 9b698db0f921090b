"""flashcore.attention on NumPy arrays, held to truth.py: every parameter, every layout."""

import ctypes

import numpy as np
import pytest

import flashcore
import truth

# Before 2.1 NumPy can't export an array that is read-only, as expanded ones are too.
exports_read_only = pytest.mark.skipif(
    tuple(int(n) for n in np.__version__.split(".")[:2]) < (2, 1), reason="NumPy before 2.1"
)
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "float64": 1e-12}


def draw(rng, *shape, dtype="float32"):
    return rng.standard_normal(shape).astype(dtype)


def close(found, expected, dtype="float32"):
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(
    "batch, heads, kv_heads, rows, keys, dim, value_dim",
    [(2, 4, 4, 33, 33, 16, 16), (1, 8, 2, 17, 65, 64, 32), (3, 6, 1, 1, 100, 40, 40),
     (1, 1, 1, 70, 3, 5, 7)],
)  # fmt: skip
@pytest.mark.parametrize("causal", [False, True])
def test_out_and_lse(rng, dtype, batch, heads, kv_heads, rows, keys, dim, value_dim, causal):
    q = draw(rng, batch, heads, rows, dim, dtype=dtype)
    k = draw(rng, batch, kv_heads, keys, dim, dtype=dtype)
    v = draw(rng, batch, kv_heads, keys, value_dim, dtype=dtype)
    out, lse = flashcore.attention(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = truth.attention(q, k, v, causal=causal)
    close(out, expected, dtype)
    close(lse, expected_lse)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.3},
        {"scale": 0.0},
        {"scale": -1.0},
        {"window": (3, 2)},
        {"window": (None, 4)},
        {"window": (5, None), "causal": True},
        {"causal": True, "diagonal": "top_left"},
        {"window": (2, 1), "diagonal": "top_left"},
        {"softcap": 1.5},
        {"alibi": np.float32([0.5, 0.25, 0.125, 1.0])},
        {"alibi": np.float32([[0.5, 0.25, 0.125, 1.0, 9], [1, 2, 3, 4, 9]])[:, :4], "causal": True},
        {"sinks": np.float32([0.0, 1.0, -1.0, 3.0])},
        {"kv_lengths": np.int32([5, 0])},
        {"kv_lengths": np.int32([13, 9]), "causal": True},
        {"kv_lengths": np.int32([13, 9]), "causal": True, "diagonal": "top_left"},
        {"batch_invariant": True},
    ],
    ids=str,
)
def test_parameters(rng, options):
    q, k, v = (draw(rng, 2, heads, 13, 8) for heads in (4, 2, 2))
    options_of_truth = {n: o for n, o in options.items() if n != "batch_invariant"}
    out, lse = flashcore.attention(q, k, v, return_lse=True, **options)
    expected, expected_lse = truth.attention(q, k, v, **options_of_truth)
    close(out, expected)
    close(lse, expected_lse)


@pytest.mark.parametrize("shape", [(13,), (9, 13), (4, 9, 13), (2, 1, 9, 13), (2, 4, 1, 13)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "uint8"])
def test_bias_and_mask_broadcast(rng, shape, dtype):
    q, k, v = draw(rng, 2, 4, 9, 8), draw(rng, 2, 4, 13, 8), draw(rng, 2, 4, 13, 8)
    if dtype in ("bool", "uint8"):
        options = {"mask": (rng.random(shape) < 0.6).astype(dtype)}
    else:
        options = {"bias": draw(rng, *shape, dtype=dtype)}
    close(flashcore.attention(q, k, v, **options), truth.attention(q, k, v, **options)[0])


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_bias_and_mask_are_read_in_place(rng, dtype):
    q, k, v = draw(rng, 2, 4, 9, 8), draw(rng, 2, 4, 13, 8), draw(rng, 2, 4, 13, 8)
    numbers = draw(rng, 13, 2, 9, 4, 2)[..., 0].transpose(1, 3, 2, 0)
    options = {"mask": numbers < 0.5} if dtype == "bool" else {"bias": numbers}
    assert numbers.strides[3] > numbers.itemsize
    close(flashcore.attention(q, k, v, **options), truth.attention(q, k, v, **options)[0])


def test_a_row_that_sees_nothing_gives_zero(rng):
    q, k, v = (draw(rng, 1, 1, 3, 8) for _ in range(3))
    mask = np.array([[True] * 3, [False] * 3, [True] * 3])
    out, lse = flashcore.attention(q, k, v, mask=mask, return_lse=True)
    assert (out[0, 0, 1] == 0).all() and lse[0, 0, 1] == -np.inf
    assert np.isfinite(lse[0, 0, [0, 2]]).all()


LAYOUTS = {
    "transposed": lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3),
    "sliced": lambda x: np.repeat(x, 3, axis=2)[:, :, ::3],
    "reversed": lambda x: np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1],
    "dim reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "columns": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "part of a larger": lambda x: np.pad(x, [(1, 1)] * 4, constant_values=np.nan)[
        1:-1, 1:-1, 1:-1, 1:-1
    ],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_strides_are_read_in_place(rng, name):
    q, k, v = (draw(rng, 2, 3, 11, 8) for _ in range(3))
    out = flashcore.attention(*(LAYOUTS[name](x) for x in (q, k, v)), causal=True)
    close(out, truth.attention(q, k, v, causal=True)[0])


class Altered:
    """An array whose DLPack capsule is not as NumPy makes it."""

    def __init__(self, array, alter, **keywords):
        self.array, self.alter, self.keywords = array, alter, keywords

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self):
        capsule = self.array.__dlpack__(**self.keywords)
        find = ctypes.pythonapi.PyCapsule_GetPointer
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = b"dltensor_versioned" if self.keywords else b"dltensor"
        self.alter(ctypes.cast(find(capsule, name), ctypes.POINTER(ctypes.c_int64)))
        return capsule


def test_byte_offsets_are_added(rng):
    q, k, v = (draw(rng, 2, 3, 11, 8) for _ in range(3))
    out = np.empty_like(q)

    def begin_earlier(words):
        assert words[0] == q.ctypes.data and words[5] == 0
        words[0], words[5] = words[0] - 64, 64  # data, byte_offset

    flashcore.attention(Altered(q, begin_earlier), k, v, out=out)
    close(out, truth.attention(q, k, v)[0])


@exports_read_only
def test_a_later_dlpack_is_refused(rng):
    q = draw(rng, 2, 3, 11, 8)

    def become_version_2(words):
        words[0] = 2

    with pytest.raises(BufferError, match="q comes as DLPack 2; known is 1"):
        flashcore.attention(Altered(q, become_version_2, max_version=(1, 0)), q, q, out=q + 0)


@exports_read_only
def test_expanded_keys_are_read_in_place(rng):
    q, k = draw(rng, 3, 4, 5, 8), draw(rng, 1, 1, 7, 8)
    shared = np.broadcast_to(k, (3, 4, 7, 8))
    close(flashcore.attention(q, shared, shared), truth.attention(q, shared, shared)[0])


def test_the_result_keeps_the_order_of_q(rng):
    x = LAYOUTS["transposed"](draw(rng, 2, 3, 11, 8))
    assert flashcore.attention(x, x, x).strides == x.strides
    narrow = flashcore.attention(x, x, np.ascontiguousarray(x[..., :4]))
    assert narrow.swapaxes(1, 2).flags.c_contiguous


def test_the_result_is_a_plain_array(rng, tmp_path):
    x = np.memmap(tmp_path / "x", "float32", "w+", shape=(1, 2, 5, 8))
    x[:] = draw(rng, *x.shape)
    out = flashcore.attention(x, x, x)
    assert type(out) is np.ndarray
    close(out, truth.attention(x, x, x)[0])


def test_bshd(rng):
    q, k, v = draw(rng, 2, 9, 4, 8), draw(rng, 2, 13, 2, 8), draw(rng, 2, 13, 2, 6)
    out, lse = flashcore.attention(q, k, v, layout="bshd", causal=True, return_lse=True)
    turned = [x.swapaxes(1, 2) for x in (q, k, v)]
    expected, expected_lse = truth.attention(*turned, causal=True)
    assert out.flags.c_contiguous
    close(out, expected.swapaxes(1, 2))
    close(lse, expected_lse)


@pytest.mark.parametrize("diagonal", ["bottom_right", "top_left"])
def test_packed_sequences(rng, diagonal):
    lengths_q, lengths_kv = [3, 0, 5], [4, 2, 5]
    cu_q, cu_kv = (np.int32(np.cumsum([0, *n])) for n in (lengths_q, lengths_kv))
    q, k, v = draw(rng, 8, 4, 16), draw(rng, 11, 2, 16), draw(rng, 11, 2, 16)
    rule = {"causal": True, "diagonal": diagonal}
    packed = {"cu_seqlens_q": cu_q, "cu_seqlens_kv": cu_kv, **rule}
    out, lse = flashcore.attention(q, k, v, return_lse=True, **packed)
    longest = flashcore.attention(q, k, v, max_seqlen_q=5, max_seqlen_kv=5, **packed)
    np.testing.assert_array_equal(out, longest)
    assert lse.shape == (4, 8)
    for i in range(3):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_kv[i], cu_kv[i + 1])
        parts = [x.swapaxes(0, 1)[None] for x in (q[rows], k[keys], v[keys])]
        expected, expected_lse = truth.attention(*parts, **rule)
        close(out[rows], expected[0].swapaxes(0, 1))
        close(lse[:, rows], expected_lse[0])


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_paged_keys(rng, layout):
    k, v = draw(rng, 6, 2, 4, 16), draw(rng, 6, 2, 4, 16)  # 6 pages of 4 rows
    table = np.int32([[5, 0, 3, 99], [2, 1, 4, 99]])[:, :3]  # its rows lie apart
    lengths = np.int32([9, 12])
    q = draw(rng, 2, 4, 1, 16)

    def dense(pages):
        return pages[table].transpose(0, 2, 1, 3, 4).reshape(2, 2, 12, 16)

    turn = (lambda x: x) if layout == "bhsd" else (lambda x: np.ascontiguousarray(x.swapaxes(1, 2)))
    out = flashcore.attention(
        turn(q), turn(k), turn(v), page_table=table, kv_lengths=lengths, layout=layout
    )
    close(turn(out), truth.attention(q, dense(k), dense(v), kv_lengths=lengths)[0])


def test_out_and_lse_are_written_where_they_are(rng):
    q, k, v = (draw(rng, 2, 3, 11, 8) for _ in range(3))
    out = np.full((2, 3, 22, 8), np.nan, "float32")[:, :, ::2]
    lse = np.full((3, 2, 7, 22), np.nan, "float32").swapaxes(0, 1)[:, :, 3, ::2]
    assert flashcore.attention(q, k, v, out=out, lse=lse) is out
    expected, expected_lse = truth.attention(q, k, v)
    close(out, expected)
    close(lse, expected_lse)
    wider = np.empty(q.shape, "float64")
    assert flashcore.attention(q, k, v, out=wider) is wider
    np.testing.assert_allclose(wider, expected, rtol=2e-5, atol=2e-5)


@exports_read_only
def test_read_only_arrays_are_read_and_never_written(rng):
    x = draw(rng, 1, 2, 5, 8)
    x.flags.writeable = False
    close(flashcore.attention(x, x, x), truth.attention(x, x, x)[0])
    with pytest.raises((ValueError, BufferError), match="read-?only"):
        flashcore.attention(x + 0, x, x, out=x)


@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 2, 0, 8)])
def test_empty(shape):
    x = np.zeros(shape, "float32")
    assert flashcore.attention(x, x, x).shape == shape


def test_no_keys_give_zero():
    q, k = np.ones((1, 2, 3, 8), "float32"), np.ones((1, 2, 0, 8), "float32")
    assert (flashcore.attention(q, k, k) == 0).all()


def test_dropout_repeats_with_its_seed(rng):
    q, k, v = (draw(rng, 1, 2, 40, 8) for _ in range(3))
    first, again, other = (
        flashcore.attention(q, k, v, dropout_p=0.5, dropout_seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    later = flashcore.attention(q, k, v, dropout_p=0.5, dropout_seed=1, dropout_offset=7)
    assert not np.array_equal(first, later)
    ones = flashcore.attention(q, k, np.ones_like(v), dropout_p=0.5, dropout_seed=1)
    assert 0.8 < ones.mean() < 1.2


@pytest.mark.parametrize("options", [{}, {"causal": True, "softcap": 2.0}, {"window": (3, 0)}])
def test_backward_against_differences(rng, options):
    q, k, v = (draw(rng, 1, heads, 6, 4, dtype="float64") for heads in (2, 1, 1))
    bias, sinks = draw(rng, 2, 6, 6), draw(rng, 2)
    weights = draw(rng, 1, 2, 6, 4, dtype="float64")
    options = {"bias": bias, "sinks": sinks, **options}
    out, lse = flashcore.attention(q, k, v, return_lse=True, **options)
    grads = flashcore.attention_backward(
        weights, q, k, v, out, lse, return_dbias=True, return_dsinks=True, **options
    )

    def value():
        return (flashcore.attention(q, k, v, **options) * weights).sum()

    for grad, of, step in zip(grads, (q, k, v, bias, sinks), (1e-6,) * 3 + (1e-3,) * 2):
        for _ in range(5):
            at = tuple(rng.integers(n) for n in of.shape)
            kept = of[at]
            of[at] = kept + step
            above, above_at = value(), of[at]
            of[at] = kept - step
            below, below_at = value(), of[at]
            of[at] = kept
            assert grad[at] == pytest.approx((above - below) / (above_at - below_at), abs=1e-5)
