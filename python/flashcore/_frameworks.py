"""What the extension can't find out by DLPack alone: how a framework makes a tensor, which stream
it works in, and which calls it has to take over itself."""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, NamedTuple, Optional

CPU, CUDA = 1, 2  # DLPack's numbers


class Adapter(NamedTuple):
    """See src/tensor.h."""

    empty: Optional[Callable[..., Any]] = None
    empty_like: Optional[Callable[..., Any]] = None
    strided: Optional[Callable[..., Any]] = None
    current_device: Optional[Callable[[], int]] = None
    stream: Optional[Callable[[int], int]] = None
    exporter: Optional[Callable[[Any], Any]] = None
    divert: Optional[Callable[..., Any]] = None
    records: Optional[Callable[[], bool]] = None


def adapt(kind: type) -> Adapter:
    """Called once for every type that q has had, and for the other tensors' types."""
    root = kind.__module__.partition(".")[0]
    if root == "numpy":
        return _numpy()
    if root == "torch" or _inherits_from(kind, "torch"):
        return _torch(kind)
    if root == "cupy":
        return _cupy()
    if root in ("jax", "jaxlib"):
        return Adapter(divert=_jax_attention)
    return Adapter()


def _inherits_from(kind: type, root: str) -> bool:
    return any(base.__module__.partition(".")[0] == root for base in kind.__mro__)


def _numpy() -> Adapter:
    import numpy

    types = {"f32": "float32", "f16": "float16", "f64": "float64", "uint8": "uint8"}

    def empty(shape, type_name, device_type, device_index):
        if type_name not in types:
            raise TypeError(f"NumPy has no {type_name}; give the memory as out=")
        return numpy.empty(shape, types[type_name])

    # From 2.1 on a read-only array can be told as such; before, it can't be exported.
    speaks_versions = tuple(int(n) for n in numpy.__version__.split(".")[:2]) >= (2, 1)
    keywords = {"max_version": (1, 0)} if speaks_versions else {}
    exporter = operator.methodcaller("__dlpack__", **keywords)
    like = functools.partial(numpy.empty_like, subok=False)
    return Adapter(empty=empty, empty_like=like, exporter=exporter)


def _torch(kind: type) -> Adapter:
    import torch
    from torch.utils.dlpack import to_dlpack

    types = {
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f64": torch.float64,
        "uint8": torch.uint8,
    }

    def empty(shape, type_name, device_type, device_index):
        device = f"cuda:{device_index}" if device_type == CUDA else "cpu"
        return torch.empty(shape, dtype=types[type_name], device=device)

    def stream(device_index):
        return torch.cuda.current_stream(device_index).cuda_stream

    def exporter(tensor):
        return to_dlpack(tensor.detach())

    # A subclass may have its own say in what is made; and the function is not public.
    makers = _strided_makers() if kind is torch.Tensor else {}

    def strided(shape, strides, type_name, device_type):
        maker = makers.get(device_type)
        return (maker, (shape, strides, types[type_name])) if maker else None

    return Adapter(
        empty=empty,
        empty_like=torch.empty_like,
        strided=strided if makers else None,
        current_device=getattr(torch._C, "_cuda_getDevice", None),
        stream=stream,
        exporter=exporter,
        divert=_torch_attention,
        records=torch.is_grad_enabled,
    )


def _strided_makers() -> dict[int, Callable[..., Any]]:
    """What PyTorch's compiled programs make their tensors with, in half of empty_like's time: no
    dispatch, no parsing of arguments. Nothing promises that it stays, so it is tried first."""
    import torch

    try:
        guards = torch._C._dynamo.guards
        made = guards._empty_strided_cpu((2, 3), (1, 2), torch.float16)
        as_asked = (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.float16)
        makers = {CPU: guards._empty_strided_cpu} if as_asked else {}
        if makers and hasattr(torch._C, "_cuda_getDevice"):
            makers[CUDA] = guards._empty_strided_cuda
        return makers
    except (AttributeError, TypeError, RuntimeError):
        return {}


def _cupy() -> Adapter:
    import cupy

    types = {"f32": "float32", "f16": "float16", "f64": "float64", "uint8": "uint8"}

    def empty(shape, type_name, device_type, device_index):
        with cupy.cuda.Device(device_index):
            return cupy.empty(shape, types[type_name])

    def stream(device_index):
        return cupy.cuda.get_current_stream().ptr

    return Adapter(empty=empty, empty_like=cupy.empty_like, stream=stream)


def _torch_attention(*arguments, **keywords):
    from . import torch

    return torch.attention(*arguments, **keywords)


def _jax_attention(*arguments, **keywords):
    from . import jax

    return jax.attention(*arguments, **keywords)
