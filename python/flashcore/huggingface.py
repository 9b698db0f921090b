"""attn_implementation="flashcore" for Hugging Face models.

    import flashcore.huggingface
    flashcore.huggingface.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flashcore")

Grouped heads, sliding windows, soft-capping, sinks, position bias, padding masks and KV caches are
FlashCore's own; nothing is repeated or expanded in memory. Attention weights are not returned.
"""

from __future__ import annotations

import types
from typing import Any, Optional

import torch
from torch import Tensor

from .torch import attention

__all__ = ["register", "attention_forward"]


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor] = None,
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    softcap: Optional[float] = None,
    s_aux: Optional[Tensor] = None,
    position_bias: Optional[Tensor] = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that models call; see transformers.AttentionInterface."""
    if kwargs.get("cache") is not None:
        raise NotImplementedError(
            "transformers' paged cache has a way of its own; FlashCore's is page_table="
        )
    options: dict[str, Any] = {"scale": scaling, "softcap": softcap}
    if attention_mask is not None:
        # The mask knows about causality, windows and padding.
        mask = attention_mask[..., : key.shape[2]]
        options["mask" if mask.dtype == torch.bool else "bias"] = mask
    else:
        # No mask: transformers means the upper-left corner, and one row that sees everything.
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        options["causal"] = bool(causal) and query.shape[2] > 1
        options["diagonal"] = "top_left"
    if position_bias is not None:
        if "bias" in options:
            position_bias = position_bias + options["bias"]
        options["bias"] = position_bias
    if s_aux is not None:
        options["sinks"] = s_aux.float()
    if dropout:
        state = torch.randint(2**62, (2,), dtype=torch.int64, device="cpu")
        options.update(dropout_p=dropout, dropout_state=state)
    out = attention(query, key, value, **options)
    return out.transpose(1, 2), None


def register(name: str = "flashcore") -> None:
    """Makes attn_implementation=name known to transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    if "flash" in name:
        _tell_from_flash_attention(name)


def _tell_from_flash_attention(name: str) -> None:
    """transformers takes every name with "flash" in it for one of the FlashAttention packages and
    tries to load that. All its modules ask one function, which learns here that this name is none:
    as code, because they have imported it by name."""
    from transformers.utils import generic

    function = getattr(generic, "is_flash_attention_requested", None)
    if function is None:
        return
    names = generic.__dict__.setdefault("_names_beside_flash_attention", set())
    names.add(name)
    if "_is_flash_attention_requested" in generic.__dict__:
        return
    generic._is_flash_attention_requested = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    function.__code__ = _is_flash_attention_requested.__code__


def _is_flash_attention_requested(
    config=None, requested_attention_implementation=None, version=None
):
    # Runs among the names of transformers.utils.generic.
    requested = requested_attention_implementation
    if (config._attn_implementation if config is not None else requested) in (
        _names_beside_flash_attention  # noqa: F821
    ):
        return False
    return _is_flash_attention_requested(config, requested, version)
