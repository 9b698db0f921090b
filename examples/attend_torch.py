"""Attention with its gradient under PyTorch, then PyTorch's own calls routed to FlashCore."""

import torch

import flashcore
from flashcore.torch import sdpa_by_flashcore

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.float16 if device == "cuda" else torch.float32
q, k, v = (torch.randn(1, 8, 128, 64, device=device, dtype=dtype) for _ in range(3))

out = flashcore.attention(q, k, v)
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
away = (out - expected).abs().max().item()
print(f"{flashcore.explain(q, k, v).forward}: at most {away:.1e} away from PyTorch's")

layer = torch.nn.MultiheadAttention(64, 4, batch_first=True)
x = torch.randn(2, 10, 64)
with sdpa_by_flashcore():
    layer(x, x, x, need_weights=False)[0].sum().backward()
print(f"gradient of the projection: {layer.in_proj_weight.grad.norm().item():.3f}")
