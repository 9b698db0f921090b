"""FlashCore: fused scaled-dot-product attention, softmax(Q·Kᵀ·scale + bias)·V.

    out = flashcore.attention(q, k, v, causal=True)

for tensors of NumPy, PyTorch, JAX, CuPy and whatever else speaks DLPack, on their own device.
flashcore.torch, flashcore.jax and flashcore.huggingface are the parts for those packages.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from . import _C
from ._C import attention, attention_backward

__all__ = ["attention", "attention_backward", "explain", "kernels", "info", "Kernel", "Explanation"]
__version__: str = _C.info()["version"]


class Kernel(NamedTuple):
    """One kernel, and what it says to a call."""

    name: str
    summary: str
    direction: str  # "forward" or "backward"
    accepts: Optional[bool] = None
    chosen: Optional[bool] = None
    reason: str = ""  # why it does not accept


class Explanation(NamedTuple):
    """Which kernels would run a call, and why not the others."""

    forward: Optional[str]
    backward: Optional[str]  # None: nothing here can differentiate it
    kernels: list[Kernel]

    def __str__(self) -> str:
        lines = [f"forward by {self.forward}, backward by {self.backward}"]
        for kernel in self.kernels:
            verdict = "runs it" if kernel.chosen else kernel.reason or "could, but another is first"
            lines.append(f"  {kernel.name}: {verdict}")
        return "\n".join(lines)


def explain(q, k, v, **options) -> Explanation:
    """Which kernel attention(q, k, v, **options) would run, and why not another. Nothing runs."""
    rows = [Kernel(**row) for row in _C.explain(q, k, v, **options)]

    def chosen(direction: str) -> Optional[str]:
        return next((r.name for r in rows if r.chosen and r.direction == direction), None)

    return Explanation(chosen("forward"), chosen("backward"), rows)


def kernels() -> list[Kernel]:
    """Every kernel of this library, in the order of preference."""
    return [Kernel(**row) for row in _C.kernels()]


def info() -> _C.Info:
    """Version, how the library was built, and how many GPUs it sees."""
    return _C.info()
