"""torch.ops.flashcore.attention: the operator, its fake form, gradient and autocast."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _C

if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(
        f"flashcore.torch needs PyTorch 2.5 or newer, this is {torch.__version__}; "
        "flashcore.attention works with any"
    )

_TENSORS = (
    "bias mask alibi sinks cu_seqlens_q cu_seqlens_kv kv_lengths page_table q_scale k_scale "
    "v_scale dropout_state"
).split()
_INPUTS = ["q", "k", "v", *_TENSORS]

# dropout_state is [seed, offset] on the CPU: a tensor, so that a compiled program draws another in
# every call.
_PARAMETERS = (
    ", ".join(f"Tensor? {name}=None" for name in _TENSORS)
    + ", *, bool causal=False, float? scale=None, SymInt? window_left=None, "
    "SymInt? window_right=None, float? softcap=None, str diagonal='bottom_right', "
    "float dropout_p=0.0, SymInt? max_seqlen_q=None, SymInt? max_seqlen_kv=None, "
    "SymInt? scale_block=None, str layout='bhsd', bool batch_invariant=False"
)

_library = torch.library.Library("flashcore", "DEF")
_library.define(f"attention(Tensor q, Tensor k, Tensor v, {_PARAMETERS}) -> (Tensor, Tensor)")
_library.define(
    "attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"{_PARAMETERS}, bool return_dbias=False, bool return_dsinks=False)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def pack_options(q: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """flashcore.attention's options as the operator's."""
    for name in ("out", "lse", "stream"):
        if options.pop(name, None) is not None:
            raise ValueError(f"{name}= is for calls without a gradient and outside torch.compile")
    window = options.pop("window", None)
    if window is not None:
        left, right = window
        options["window_left"] = -1 if left is None else left
        options["window_right"] = -1 if right is None else right
    seed, offset = options.pop("dropout_seed", None), options.pop("dropout_offset", 0)
    if seed is not None:
        options["dropout_state"] = torch.tensor([seed, offset], dtype=torch.int64)
    return options


def _unpack_options(tensors: tuple, options: dict[str, Any]) -> dict[str, Any]:
    """The operator's options as the extension's."""
    options.update(zip(_TENSORS, tensors))
    state = options.pop("dropout_state", None)
    if state is not None:
        options["dropout_seed"], options["dropout_offset"] = state.tolist()
    left, right = options.pop("window_left", None), options.pop("window_right", None)
    if left is not None or right is not None:
        options["window"] = (left, right)
    return options


def _forward(q: Tensor, k: Tensor, v: Tensor, *tensors: Optional[Tensor], **options: Any):
    return _C.attention_here(q, k, v, return_lse=True, **_unpack_options(tensors, options))


def _backward(dout, q, k, v, out, lse, *tensors, **options):
    options = _unpack_options(tensors, options)
    if dout.stride(-1) != 1:  # the gradient of a sum is one number, repeated
        dout = dout.contiguous()
    if options.get("return_dbias"):
        options["bias"] = options["bias"].contiguous()
    grads = _C.attention_backward(dout, q, k, v, out, lse, **options)
    return tuple(q.new_empty(0, dtype=torch.float32) if grad is None else grad for grad in grads)


def _empty_like(tensor: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    """What the extension makes for an output: the order of the tensor's axes is kept."""
    if dim == tensor.shape[-1] and dtype == tensor.dtype:
        return torch.empty_like(tensor)
    shape = list(tensor.shape[:-1]) + [dim]
    sizes, strides = tensor.shape, tensor.stride()
    if len(sizes) == 4 and sizes[1] > 1 and sizes[2] > 1 and strides[1] < strides[2]:
        shape[1], shape[2] = shape[2], shape[1]
        return tensor.new_empty(shape, dtype=dtype).transpose(1, 2)
    return tensor.new_empty(shape, dtype=dtype)


def _fake_forward(q, k, v, *tensors, layout="bhsd", **options):
    if tensors[_TENSORS.index("cu_seqlens_q") :][:1] not in ((), (None,)):
        lse_shape = [q.shape[1], q.shape[0]]
    elif layout == "bshd":
        lse_shape = [q.shape[0], q.shape[2], q.shape[1]]
    else:
        lse_shape = list(q.shape[:3])
    out_type = torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype
    return _empty_like(q, v.shape[-1], out_type), q.new_empty(lse_shape, dtype=torch.float32)


def _fake_backward(dout, q, k, v, out, lse, *tensors, return_dbias=False, return_dsinks=False, **_):
    given = dict(zip(_TENSORS, tensors))

    def gradient_of(name, wanted):
        return q.new_empty(given[name].shape if wanted else 0, dtype=torch.float32)

    return (
        _empty_like(q, q.shape[-1], out.dtype),
        _empty_like(k, k.shape[-1], out.dtype),
        _empty_like(v, v.shape[-1], out.dtype),
        gradient_of("bias", return_dbias),
        gradient_of("sinks", return_dsinks),
    )


def _setup_context(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(*inputs, *output)
    ctx.options = keyword_only_inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, dout, _dlse):
    *inputs, out, lse = ctx.saved_tensors
    if dout is None:
        return (None,) * len(ctx.needs_input_grad)
    wanted = dict(zip(_INPUTS, ctx.needs_input_grad))  # without the trailing ones not given
    dq, dk, dv, dbias, dsinks = torch.ops.flashcore.attention_backward(
        dout,
        *inputs[:3],
        out,
        lse,
        *inputs[3:],
        **ctx.options,
        return_dbias=wanted.get("bias", False),
        return_dsinks=wanted.get("sinks", False),
    )
    found = {"q": dq, "k": dk, "v": dv, "bias": dbias, "sinks": dsinks}
    return tuple(
        found[name].to(tensor.dtype) if needed and name in found else None
        for (name, needed), tensor in zip(wanted.items(), inputs)
    )


def _under_autocast(device_type: str):
    def cast(q, k, v, *tensors, **options):
        dtype = torch.get_autocast_dtype(device_type)
        with torch.autocast(device_type, enabled=False):
            return torch.ops.flashcore.attention(
                q.to(dtype), k.to(dtype), v.to(dtype), *tensors, **options
            )

    return cast


for _device in ("CPU", "CUDA"):
    _library.impl("attention", _forward, _device)
    _library.impl("attention_backward", _backward, _device)
    _library.impl("attention", _under_autocast(_device.lower()), f"Autocast{_device}")
torch.library.register_fake("flashcore::attention", _fake_forward, lib=_library)
torch.library.register_fake("flashcore::attention_backward", _fake_backward, lib=_library)
torch.library.register_autograd(
    "flashcore::attention", _differentiate, setup_context=_setup_context, lib=_library
)


# ---- When the operator's dispatch is not needed -------------------------------------------------

_dispatch_modes = torch._C._len_torch_dispatch_stack
_autocast_enabled = torch._C._is_any_autocast_enabled
_function_transforms = torch._C._functorch.peek_interpreter_stack


def eager(q: Any, k: Any, v: Any, bias: Any = None, sinks: Any = None) -> bool:
    """Plain tensors, no gradient, nobody watching: the extension may be called at once."""
    if torch.compiler.is_compiling() or not (type(q) is type(k) is type(v) is Tensor):
        return False
    if torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (bias is not None and bias.requires_grad)
        or (sinks is not None and sinks.requires_grad)
    ):
        return False
    return not (_autocast_enabled() or _dispatch_modes() or _function_transforms() is not None)
