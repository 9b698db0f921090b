"""Attention over NumPy arrays, held to the same in NumPy itself."""

import numpy as np

import flashcore

rng = np.random.default_rng(0)
q = rng.standard_normal((1, 8, 128, 64), dtype=np.float32)  # (batch, heads, length, dim)
k = rng.standard_normal((1, 8, 128, 64), dtype=np.float32)
v = rng.standard_normal((1, 8, 128, 64), dtype=np.float32)

out = flashcore.attention(q, k, v, causal=True)

score = np.einsum("bhqd,bhkd->bhqk", q, k, dtype=np.float64) / 8
score[..., ~np.tri(128, dtype=bool)] = -np.inf
weight = np.exp(score - score.max(-1, keepdims=True))
expected = weight / weight.sum(-1, keepdims=True) @ v

error = np.abs(out - expected).max()
print(f"{flashcore.explain(q, k, v, causal=True).forward}: largest error {error:.1e}")
assert error < 1e-5
