# The extension. Tensors are whatever speaks DLPack; a call returns tensors of q's kind.
from typing import Any, Literal, Optional, TypedDict, TypeVar, overload

Tensor = TypeVar("Tensor")
Layout = Literal["bhsd", "bshd"]
Diagonal = Literal["bottom_right", "top_left"]
Window = Optional[tuple[Optional[int], Optional[int]]]

class KernelRow(TypedDict):
    name: str
    summary: str
    direction: str
    accepts: bool
    chosen: bool
    reason: str

class KernelName(TypedDict):
    name: str
    summary: str
    direction: str

class Info(TypedDict):
    version: str
    build: str
    cuda_devices: int

@overload
def attention(
    q: Tensor,
    k: Any,
    v: Any,
    *,
    return_lse: Literal[True],
    causal: bool = False,
    scale: Optional[float] = None,
    window: Window = None,
    softcap: Optional[float] = None,
    alibi: Any = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    diagonal: Diagonal = "bottom_right",
    dropout_p: float = 0.0,
    dropout_seed: int = 0,
    dropout_offset: int = 0,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_kv: Optional[int] = None,
    kv_lengths: Any = None,
    page_table: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    scale_block: Optional[int] = None,
    layout: Layout = "bhsd",
    batch_invariant: bool = False,
    out: Optional[Tensor] = None,
    lse: Any = None,
    stream: Optional[int] = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: Optional[float] = None,
    window: Window = None,
    softcap: Optional[float] = None,
    alibi: Any = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    diagonal: Diagonal = "bottom_right",
    dropout_p: float = 0.0,
    dropout_seed: int = 0,
    dropout_offset: int = 0,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_kv: Optional[int] = None,
    kv_lengths: Any = None,
    page_table: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    scale_block: Optional[int] = None,
    layout: Layout = "bhsd",
    batch_invariant: bool = False,
    return_lse: Literal[False] = False,
    out: Optional[Tensor] = None,
    lse: Any = None,
    stream: Optional[int] = None,
) -> Tensor: ...
def attention_backward(
    dout: Any,
    q: Tensor,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    causal: bool = False,
    scale: Optional[float] = None,
    window: Window = None,
    softcap: Optional[float] = None,
    alibi: Any = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    diagonal: Diagonal = "bottom_right",
    dropout_p: float = 0.0,
    dropout_seed: int = 0,
    dropout_offset: int = 0,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_kv: Optional[int] = None,
    kv_lengths: Any = None,
    page_table: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    scale_block: Optional[int] = None,
    layout: Layout = "bhsd",
    batch_invariant: bool = False,
    return_dbias: bool = False,
    return_dsinks: bool = False,
    stream: Optional[int] = None,
) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor], Optional[Tensor]]: ...
def attention_here(q: Any, k: Any, v: Any, **options: Any) -> Any: ...
def explain(q: Any, k: Any, v: Any, **options: Any) -> list[KernelRow]: ...
def describe(q: Any, k: Any, v: Any, **options: Any) -> bytes: ...
def kernels() -> list[KernelName]: ...
def info() -> Info: ...
def xla_handlers() -> dict[str, Any]: ...
