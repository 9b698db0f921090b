"""FlashCore under JAX: a call that XLA makes itself, inside jit, on the CPU or a GPU's own stream.

    out = flashcore.jax.attention(q, k, v, causal=True)

takes flashcore.attention's parameters but for out=, lse= and stream=. It has gradients with respect
to q, k, v, bias and sinks; jax.vmap runs it once for each slice. The dropout seed is fixed when the
call is traced.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from . import _C

__all__ = ["attention"]

_TYPES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float64": "f64",
    "bool": "bool",
    "uint8": "uint8",
    "int32": "int32",
    "int64": "int64",
}
_TENSORS = (
    "q k v bias mask alibi sinks cu_seqlens_q cu_seqlens_kv kv_lengths page_table q_scale k_scale "
    "v_scale"
).split()
_DIFFERENTIABLE = ("q", "k", "v", "bias", "sinks")

_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}  # as JAX writes them
for _name, _handler in _C.xla_handlers().items():
    _platform, _, _direction = _name.partition("_")
    jax.ffi.register_ffi_target(f"flashcore_{_direction}", _handler, platform=_PLATFORMS[_platform])


def attention(q, k, v, **options: Any):
    """flashcore.attention for JAX arrays; returns out, or (out, lse) with return_lse=True."""
    for name in ("out", "lse", "stream"):
        if options.pop(name, None) is not None:
            raise ValueError(
                f"{name}= has no place in JAX: arrays are immutable, XLA has the stream"
            )
    return_lse = options.pop("return_lse", False)
    tensors = {"q": q, "k": k, "v": v}
    tensors.update({n: options.pop(n) for n in _TENSORS if options.get(n) is not None})
    tensors = {name: jnp.asarray(tensor) for name, tensor in tensors.items()}
    for cumulative, longest in (
        ("cu_seqlens_q", "max_seqlen_q"),
        ("cu_seqlens_kv", "max_seqlen_kv"),
    ):
        if cumulative in tensors and options.get(longest) is None:
            raise ValueError(f"{longest} is needed beside {cumulative}: shapes are fixed in JAX")
    out, lse = _attention(tensors, tuple(sorted(options.items())))
    return (out, jax.lax.stop_gradient(lse)) if return_lse else out


def _describe(tensor) -> tuple:
    return tuple(tensor.shape), _TYPES.get(tensor.dtype.name, tensor.dtype.name), "cpu"


def _call(direction: str, results: dict[str, jax.ShapeDtypeStruct], tensors, static) -> list:
    options = dict(static)
    seed = [options.pop("dropout_seed", 0), options.pop("dropout_offset", 0)]
    described = {name: _describe(tensors[name]) for name in _TENSORS if name in tensors}
    problem = _C.describe(**described, **options)
    call = jax.ffi.ffi_call(
        f"flashcore_{direction}", list(results.values()), vmap_method="sequential"
    )
    return call(
        *tensors.values(),
        problem=numpy.frombuffer(problem, numpy.int64),
        arguments=_text(tensors),
        results=_text(results),
        seed=numpy.array([s & (2**64 - 1) for s in seed], numpy.uint64),
    )


def _text(names) -> numpy.ndarray:
    return numpy.frombuffer(",".join(names).encode(), numpy.uint8)


def _forward(tensors, static):
    options = dict(static)
    q, v = tensors["q"], tensors["v"]
    if "cu_seqlens_q" in tensors:
        lse_shape = (q.shape[1], q.shape[0])
    elif options.get("layout", "bhsd") == "bshd":
        lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    else:
        lse_shape = q.shape[:3]
    out_type = jnp.bfloat16 if q.dtype.itemsize == 1 else q.dtype
    results = {
        "out": jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), out_type),
        "lse": jax.ShapeDtypeStruct(lse_shape, jnp.float32),
    }
    return _call("forward", results, tensors, static)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _attention(tensors, static):
    return tuple(_forward(tensors, static))


def _save(tensors, static):
    out, lse = _forward(tensors, static)
    return (out, lse), (tensors, out, lse)


def _differentiate(static, saved, cotangents):
    tensors, out, lse = saved
    inputs = {"dout": cotangents[0].astype(out.dtype), **tensors, "out": out, "lse": lse}
    results = {
        f"d{name}": jax.ShapeDtypeStruct(
            tensors[name].shape, out.dtype if name in ("q", "k", "v") else jnp.float32
        )
        for name in _DIFFERENTIABLE
        if name in tensors
    }
    found = dict(zip(results, _call("backward", results, inputs, static)))
    gradients = {}
    for name, tensor in tensors.items():
        if f"d{name}" in found:
            gradients[name] = found[f"d{name}"].astype(tensor.dtype)
        elif jnp.issubdtype(tensor.dtype, jnp.floating):
            gradients[name] = jnp.zeros_like(tensor)
        else:
            gradients[name] = numpy.zeros(tensor.shape, jax.dtypes.float0)
    return (gradients,)


_attention.defvjp(_save, _differentiate)
