"""FlashCore under PyTorch: differentiable, compilable, and with PyTorch's own SDPA semantics.

    from flashcore.torch import attention, scaled_dot_product_attention, sdpa_by_flashcore

    out = attention(q, k, v, causal=True)                        # FlashCore's parameters
    out = scaled_dot_product_attention(q, k, v, is_causal=True)  # PyTorch's
    with sdpa_by_flashcore():                                    # PyTorch's own calls, routed
        model(x)

torch.ops.flashcore.attention is the operator behind them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _C
from ._sdpa import fallback_to_pytorch, scaled_dot_product_attention, sdpa_by_flashcore
from ._torch_op import eager, pack_options

__all__ = [
    "attention",
    "scaled_dot_product_attention",
    "sdpa_by_flashcore",
    "fallback_to_pytorch",
]


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any):
    """flashcore.attention with gradients, torch.compile and autocast. The same parameters, but for
    out=, lse= and stream=, which only calls without a gradient may have. dropout_state, a tensor
    [seed, offset] on the CPU, may stand for dropout_seed and dropout_offset."""
    if "dropout_state" not in options and eager(q, k, v, options.get("bias"), options.get("sinks")):
        return _C.attention_here(q, k, v, **options)
    return_lse = options.pop("return_lse", False)
    out, lse = torch.ops.flashcore.attention(q, k, v, **pack_options(q, options))
    return (out, lse) if return_lse else out


def _attention_in_graph(q: Tensor, k: Tensor, v: Tensor, **options: Any):
    return attention(q, k, v, **options)


# flashcore.attention itself is C, which torch.compile can't look into.
if hasattr(torch.compiler, "substitute_in_graph"):
    torch.compiler.substitute_in_graph(_C.attention, skip_signature_check=True)(_attention_in_graph)
