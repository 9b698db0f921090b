"""Attention in double precision, written without FlashCore and for clarity alone."""

import numpy as np


def visible_keys(rows, keys, causal, window, diagonal):
    position = np.arange(rows)[:, None] + (keys - rows if diagonal == "bottom_right" else 0)
    distance = np.arange(keys)[None, :] - position
    seen = np.ones((rows, keys), bool)
    left, right = window or (None, None)
    if causal:
        seen &= distance <= 0
    if left is not None:
        seen &= distance >= -left
    if right is not None:
        seen &= distance <= right
    return seen, np.abs(distance)


def attention(
    q, k, v, *, causal=False, scale=None, window=None, softcap=None, alibi=None, bias=None,
    mask=None, sinks=None, diagonal="bottom_right", kv_lengths=None,
):  # fmt: skip
    """q, k, v: (batch, heads, length, dim). Returns out and lse."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = float(np.float32(q.shape[3] ** -0.5 if scale is None else scale))  # f32 in the library
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    lse = np.full(q.shape[:3], -np.inf)
    whole = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    bias = None if bias is None else np.broadcast_to(np.asarray(bias, np.float64), whole)
    mask = None if mask is None else np.broadcast_to(mask, whole)
    for b, h in np.ndindex(q.shape[:2]):
        keys = k.shape[2] if kv_lengths is None else kv_lengths[b]
        seen, distance = visible_keys(q.shape[2], keys, causal, window, diagonal)
        score = q[b, h] @ k[b, h, :keys].T * scale
        if softcap:
            score = softcap * np.tanh(score / softcap)
        if alibi is not None:
            score = score - np.broadcast_to(alibi, q.shape[:2])[b, h] * distance
        if bias is not None:
            score = score + bias[b, h, :, :keys]
        if mask is not None:
            seen = seen & mask[b, h, :, :keys].astype(bool)
        score = np.where(seen, score, -np.inf)
        sink = -np.inf if sinks is None else float(sinks[h])
        top = np.maximum(score.max(1, initial=-np.inf), sink)
        top = np.where(np.isfinite(top), top, 0)
        weight = np.exp(score - top[:, None])
        total = weight.sum(1) + np.exp(sink - top)
        with np.errstate(divide="ignore"):
            lse[b, h] = np.log(total) + top
        out[b, h] = (weight / np.where(total, total, 1)[:, None]) @ v[b, h, :keys]
    return out, lse
