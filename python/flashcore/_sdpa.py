"""PyTorch's scaled_dot_product_attention by FlashCore: the same signature and semantics."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Optional

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

from . import _C
from ._torch_op import eager

logger = logging.getLogger("flashcore")
_pytorch = torch.nn.functional.scaled_dot_product_attention
_fallback: ContextVar[bool] = ContextVar("flashcore_fallback", default=False)
_logged: set[str] = set()
LARGEST_DIM = 576  # flashcore.h


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """PyTorch's function of this name, computed by FlashCore: causal masks are aligned top-left,
    float masks are added, boolean ones show a key where True. A row that sees no key gives 0.

    What FlashCore has no kernel for raises NotImplementedError; inside fallback_to_pytorch() it
    goes to PyTorch, and is logged."""
    if attn_mask is None and not dropout_p and eager(query, key, value):
        try:
            return _C.attention_here(
                query,
                key,
                value,
                causal=is_causal,
                scale=scale,
                diagonal="top_left",
                grouped=enable_gqa,
            )
        except (RuntimeError, ValueError, TypeError, BufferError):
            pass  # told below, or a shape that has to be broadcast first
    arguments = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if has_torch_function((query, key, value)):
        return handle_torch_function(scaled_dot_product_attention, (query, key, value), *arguments)
    if torch.compiler.is_compiling() or not _fallback.get():
        return _sdpa(*arguments)
    try:
        return _sdpa(*arguments)
    except NotImplementedError as refusal:
        _log_once(str(refusal))
        return _pytorch(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def _log_once(reason: str) -> None:
    if reason not in _logged:
        _logged.add(reason)
        logger.warning("scaled_dot_product_attention goes to PyTorch: %s", reason)


def _sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) -> Tensor:
    _check(query, key, value, attn_mask, is_causal)
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    q, k, v = _with_heads(query, key, value, lead, enable_gqa)
    if q.size(-3) == 0 or v.size(-1) == 0:
        return q @ k.mT @ v  # nothing to compute, of the right shape
    options: dict[str, Any] = {"causal": is_causal, "scale": scale, "diagonal": "top_left"}
    if attn_mask is not None:
        name = "mask" if attn_mask.dtype == torch.bool else "bias"
        options[name] = _mask_for_batch(attn_mask, lead, k.size(-2))
    if dropout_p:
        options["dropout_p"] = dropout_p
        options["dropout_state"] = torch.randint(2**62, (2,), dtype=torch.int64, device="cpu")
    flat = [x if len(lead) == 1 else x.reshape(lead.numel(), *x.shape[-3:]) for x in (q, k, v)]
    flat = [x.contiguous() if x.size(-1) > 1 and x.stride(-1) == 0 else x for x in flat]
    out, _ = torch.ops.flashcore.attention(*flat, **options)
    if query.dim() == key.dim() == value.dim() == 2:
        return out[0, 0]
    return out if len(lead) == 1 else out.reshape(*lead, *out.shape[1:])


def _check(query, key, value, attn_mask, is_causal) -> None:
    if query.is_nested or key.is_nested or value.is_nested:
        raise NotImplementedError("nested tensors are packed sequences: flashcore.torch.attention")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            f"query, key and value must have one type, not {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )
    if not query.is_floating_point():
        raise NotImplementedError(f"there is no attention of {query.dtype}")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError("query, key and value need at least 2 dimensions")
    if max(query.size(-1), value.size(-1)) > LARGEST_DIM:
        raise NotImplementedError(f"head dimensions over {LARGEST_DIM} are not served")
    if attn_mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask must be None when is_causal=True")
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise ValueError(f"attn_mask is {attn_mask.dtype}; allowed: bool, float32, {query.dtype}")


def _with_heads(query, key, value, lead, enable_gqa):
    """All three as lead + (heads, rows, dim), expanded where PyTorch would broadcast."""
    tensors = [x.unsqueeze(0) if x.dim() == 2 else x for x in (query, key, value)]
    if not enable_gqa:
        (heads,) = torch.broadcast_shapes(*(x.shape[-3:-2] for x in tensors))
        return [x.expand(*lead, heads, *x.shape[-2:]) for x in tensors]
    return [x.expand(*lead, *x.shape[-3:]) for x in tensors]


def _mask_for_batch(mask: Tensor, lead: torch.Size, keys: int) -> Tensor:
    """At most 4 dimensions, whole along the keys: a mask that repeats there is made whole."""
    if keys > 1 and (mask.size(-1) == 1 or mask.stride(-1) == 0):
        mask = mask.expand(*mask.shape[:-1], keys).contiguous()
    if mask.dim() > 4 or (mask.dim() == 4 and len(lead) != 1):
        mask = mask.expand(*lead, *mask.shape[-3:]).reshape(lead.numel(), *mask.shape[-3:])
    return mask


@contextlib.contextmanager
def fallback_to_pytorch() -> Iterator[None]:
    """Inside, calls that FlashCore has no kernel for go to PyTorch; each reason is logged once."""
    token = _fallback.set(True)
    try:
        yield
    finally:
        _fallback.reset(token)


def _with_fallback(*arguments: Any, **options: Any) -> Tensor:
    with fallback_to_pytorch():
        return scaled_dot_product_attention(*arguments, **options)


class sdpa_by_flashcore(TorchFunctionMode):
    """Inside, PyTorch's own scaled_dot_product_attention is FlashCore's, from whatever code it is
    called. What FlashCore has no kernel for raises, unless fallback=True lets PyTorch do it.

    Two ways lead here. The mode catches calls of a function that was imported by name, in this
    thread; inside PyTorch's own functions (multi_head_attention_forward) it is not seen, but those
    look the name up in torch.nn.functional, where it stands for ours meanwhile, in all threads."""

    def __init__(self, fallback: bool = False) -> None:
        super().__init__()
        self._attend = _with_fallback if fallback else scaled_dot_product_attention
        self._before: list[Any] = []

    def __enter__(self):
        self._before.append(torch.nn.functional.scaled_dot_product_attention)
        torch.nn.functional.scaled_dot_product_attention = self._attend
        return super().__enter__()

    def __exit__(self, *error):
        torch.nn.functional.scaled_dot_product_attention = self._before.pop()
        return super().__exit__(*error)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (self._attend if func is _pytorch else func)(*args, **(kwargs or {}))
