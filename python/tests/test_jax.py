"""flashcore.attention on JAX arrays: in and outside jit, with gradients."""

import numpy as np
import pytest

import truth

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import flashcore  # noqa: E402


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def draw(rng, *shape, dtype=jnp.float32):
    return jnp.asarray(rng.standard_normal(shape), dtype)


def close(found, expected, tolerance=2e-5):
    found = np.asarray(found.astype(jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "dtype, tolerance", [("float32", 2e-5), ("float16", 4e-3), ("bfloat16", 3e-2)]
)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (3, 1)}, {"softcap": 2.0}])
def test_out_and_lse(rng, dtype, tolerance, options):
    q, k, v = (draw(rng, 2, h, 9, 16, dtype=dtype) for h in (4, 2, 2))
    expected = truth.attention(*(np.asarray(x.astype(jnp.float32)) for x in (q, k, v)), **options)

    def both(q, k, v):
        return flashcore.attention(q, k, v, return_lse=True, **options)

    for out, lse in (both(q, k, v), jax.jit(both)(q, k, v)):
        assert out.dtype == dtype and lse.dtype == jnp.float32
        close(out, expected[0], tolerance)
        close(lse, expected[1], tolerance)


def test_other_tensors(rng):
    q, k, v = (draw(rng, 2, 4, 9, 16) for _ in range(3))
    options = {
        "bias": draw(rng, 9, 9),
        "mask": jnp.asarray(rng.random((2, 1, 9, 9)) < 0.7),
        "sinks": draw(rng, 4),
        "alibi": jnp.asarray([0.1, 0.2, 0.3, 0.4], jnp.float32),
        "kv_lengths": jnp.asarray([9, 5], jnp.int32),
    }
    arrays = {name: np.asarray(value) for name, value in options.items()}
    expected, _ = truth.attention(*(np.asarray(x) for x in (q, k, v)), **arrays)
    close(jax.jit(lambda q, o: flashcore.attention(q, k, v, **o))(q, options), expected)


def test_bshd_and_packed(rng):
    x = draw(rng, 2, 9, 4, 16)
    turned = np.asarray(x).swapaxes(1, 2)
    out, lse = flashcore.attention(x, x, x, layout="bshd", return_lse=True)
    expected, expected_lse = truth.attention(turned, turned, turned)
    close(out, expected.swapaxes(1, 2))
    close(lse, expected_lse)
    cu = jnp.asarray([0, 9, 18], jnp.int32)
    packed = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=9, max_seqlen_kv=9)
    rows = x.reshape(18, 4, 16)
    close(flashcore.attention(rows, rows, rows, **packed).reshape(x.shape), expected.swapaxes(1, 2))
    with pytest.raises(ValueError, match="max_seqlen_q is needed beside cu_seqlens_q"):
        flashcore.attention(rows, rows, rows, cu_seqlens_q=cu, cu_seqlens_kv=cu)


def plain(q, k, v, bias, sinks):
    score = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1]) + bias
    sink = jnp.broadcast_to(sinks[None, :, None, None], (*score.shape[:3], 1))
    weights = jax.nn.softmax(jnp.concatenate([score, sink], -1), -1)[..., :-1]
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def test_gradients(rng):
    inputs = [draw(rng, 2, 3, 7, 8) for _ in range(3)] + [draw(rng, 3, 7, 7), draw(rng, 3)]
    weights = draw(rng, 2, 3, 7, 8)

    def ours(q, k, v, bias, sinks):
        return (flashcore.attention(q, k, v, bias=bias, sinks=sinks) * weights).sum()

    def theirs(*x):
        return (plain(*x) * weights).sum()

    which = (0, 1, 2, 3, 4)
    expected = jax.grad(theirs, which)(*inputs)
    for found in (jax.grad(ours, which)(*inputs), jax.jit(jax.grad(ours, which))(*inputs)):
        for a, b in zip(found, expected):
            close(a, np.asarray(b), 1e-4)


def test_dropout_is_that_of_every_other_framework(rng):
    x = draw(rng, 1, 2, 20, 8)
    options = {"dropout_p": 0.5, "dropout_seed": 3, "dropout_offset": 5}
    array = np.asarray(x)
    close(flashcore.attention(x, x, x, **options), flashcore.attention(*[array] * 3, **options))


def test_vmap(rng):
    x = draw(rng, 3, 1, 2, 5, 8)
    found = jax.vmap(lambda y: flashcore.attention(y, y, y))(x)
    close(found, np.asarray(jnp.stack([flashcore.attention(y, y, y) for y in x])))


def test_errors_are_told(rng):
    x = draw(rng, 1, 4, 5, 8)
    with pytest.raises(ValueError, match="kv_heads = 3 does not divide q_heads = 4"):
        jax.jit(flashcore.attention)(x, x[:, :3], x[:, :3])
    with pytest.raises(ValueError, match="arrays are immutable"):
        flashcore.attention(x, x, x, out=x)
    with pytest.raises(Exception, match=r"kv_lengths\[0\] = 9 is out of range"):
        flashcore.attention(x, x, x, kv_lengths=jnp.asarray([9], jnp.int32)).block_until_ready()


@pytest.mark.parametrize("dtype, tolerance", [("float16", 4e-3), ("bfloat16", 3e-2)])
def test_on_a_gpu(rng, dtype, tolerance):
    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError as refusal:
        pytest.skip(str(refusal))
    with jax.default_device(gpu):
        q, k, v = (draw(rng, 2, h, 70, 64, dtype=dtype) for h in (4, 2, 2))
        outs = [
            flashcore.attention(q, k, v, causal=True),
            jax.jit(lambda q, k, v: flashcore.attention(q, k, v, causal=True))(q, k, v),
        ]
    expected = truth.attention(
        *(np.asarray(x.astype(jnp.float32)) for x in (q, k, v)), causal=True
    )[0]
    for out in outs:
        assert out.devices() == q.devices()
        close(out, expected, tolerance)
