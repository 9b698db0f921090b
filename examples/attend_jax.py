"""Attention inside jax.jit, with its gradient."""

import jax
import jax.numpy as jnp

import flashcore

q, k, v = (
    jax.random.normal(key, (1, 8, 128, 64)) for key in jax.random.split(jax.random.key(0), 3)
)


@jax.jit
def loss(q):
    return (flashcore.attention(q, k, v, causal=True) ** 2).sum()


print(f"loss {loss(q):.3f}, norm of its gradient {jnp.linalg.norm(jax.grad(loss)(q)):.3f}")
