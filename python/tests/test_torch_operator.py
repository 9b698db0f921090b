"""torch.ops.flashcore.attention: fake tensors, torch.compile, autocast, routing."""

import logging

import pytest

torch = pytest.importorskip("torch")

import flashcore  # noqa: E402
import flashcore.torch as fc  # noqa: E402
from torch_tools import LAYOUTS, close, draw, expected_sdpa, on, sdpa  # noqa: E402


@pytest.mark.parametrize("layout", ["plain", "transposed", "part of a larger"])
@pytest.mark.parametrize("value_dim", [8, 4])
def test_the_operator_is_what_it_says(layout, value_dim):
    """PyTorch's own check: schema, fake tensors, autograd registration, tracing."""
    turn = LAYOUTS.get(layout, lambda x: x)
    q, k, v = (turn(draw(2, 3, 11, d, device="cpu")) for d in (8, 8, value_dim))
    bias = draw(3, 11, 11, device="cpu", grad=True)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)] + [bias]
    torch.library.opcheck(torch.ops.flashcore.attention.default, tuple(inputs), {"causal": True})


def test_the_operator_with_packed_rows_and_bshd():
    cu = torch.tensor([0, 3, 7], dtype=torch.int32)
    rows = draw(7, 2, 8, device="cpu")
    op = torch.ops.flashcore.attention
    packed = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=4, max_seqlen_kv=4)
    for arguments, options in [((rows,) * 3, packed), ((rows[None],) * 3, {"layout": "bshd"})]:
        real = op(*arguments, **options)
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            fake = op(*arguments, **options)
        assert [x.shape for x in real] == [x.shape for x in fake]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("value_dim", [8, 4])
def test_fake_outputs_lie_as_the_real_ones(name, value_dim):
    """torch.compile computes addresses from the fake ones."""
    turn = LAYOUTS[name]
    q, k, v = (turn(draw(2, 3, 11, 8, device="cpu")) for _ in range(3))
    if q.stride(-1) == 0:
        pytest.skip("such a tensor can't be read in place")
    v = v[..., :value_dim]

    def lie(tensors):
        return [(x.shape, x.stride(), x.dtype) for x in tensors]

    forward, backward = torch.ops.flashcore.attention, torch.ops.flashcore.attention_backward
    out, lse = forward(q, k, v)
    grads = backward(out, q, k, v, out, lse)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert lie(forward(q, k, v)) == lie([out, lse])
        assert lie(backward(out, q, k, v, out, lse)) == lie(grads)


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def test_compile_has_no_graph_break(device):
    q, k, v = (draw(2, 4, 9, 16, device=device, grad=True) for _ in range(3))
    on(device, lambda: fc.attention(q, k, v, causal=True))

    def every_way(q, k, v):
        a = flashcore.attention(q * 1, k, v, causal=True, window=(5, None))
        b = fc.attention(q, k, v, causal=True, softcap=2.0)
        c = fc.scaled_dot_product_attention(q, k, v, is_causal=True)
        return a + b.sin() + c

    expected = every_way(q, k, v)
    found = compiled(every_way)(q, k, v)
    close(found, expected)
    weights = torch.rand_like(found)

    def gradients(out):
        return torch.autograd.grad((out * weights).sum(), (q, k, v))

    for a, b in zip(on(device, lambda: gradients(found)), on(device, lambda: gradients(expected))):
        close(a, b)


def test_compile_with_dynamic_shapes():
    function = compiled(lambda q: fc.scaled_dot_product_attention(q, q, q), dynamic=True)
    for length in (5, 9, 12):
        q = draw(2, 3, length, 8, device="cpu")
        close(function(q), expected_sdpa(q, q, q))


def test_compile_by_inductor():
    torch._dynamo.reset()
    q = draw(1, 2, 9, 16, device="cpu", grad=True)

    @torch.compile(fullgraph=True)
    def layer(q):
        turned = (q * 2).transpose(1, 2).contiguous().transpose(1, 2)
        return fc.attention(turned, q, q, causal=True) * 3

    expected = sdpa(q * 2, q, q, is_causal=True) * 3
    found = layer(q)
    close(found, expected)
    close(torch.autograd.grad(found.sum(), q)[0], torch.autograd.grad(expected.sum(), q)[0], 1e-4)


def test_compiled_dropout_draws_a_new_seed_each_call():
    function = compiled(lambda q: fc.scaled_dot_product_attention(q, q, q, dropout_p=0.5))
    q = draw(1, 2, 32, 8, device="cpu")
    assert not torch.equal(function(q), function(q))


def test_autocast(device):
    q, k, v = (draw(1, 2, 9, 16, device=device, dtype=torch.float32) for _ in range(3))
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(device, dtype=dtype):
            for call in (fc.attention, fc.scaled_dot_product_attention):
                out = on(device, lambda call=call: call(q, k, v))
                assert out.dtype == sdpa(q, k, v).dtype == dtype
                close(out, expected_sdpa(q, k, v))
    q.requires_grad_()
    with torch.autocast(device, dtype=torch.bfloat16):
        on(device, lambda: fc.attention(q, k, v).sum().backward())
    assert q.grad.dtype == torch.float32


def test_without_gradients_autocast_is_not_asked(device):
    """flashcore.attention keeps the tensors' types, also of those that could want a gradient."""
    q = draw(1, 2, 9, 16, device=device, dtype=torch.float16, grad=True)
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        assert on(device, lambda: flashcore.attention(q, q, q)).dtype == torch.float16


def test_dispatch_modes_see_the_operator():
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    q = draw(1, 2, 5, 8, device="cpu")
    with Watch():
        fc.attention(q, q, q)
        fc.scaled_dot_product_attention(q, q, q)
    assert seen.count(torch.ops.flashcore.attention.default) == 2


def test_vmap_and_fake_tensors_are_told_not_crashed():
    q = draw(2, 1, 2, 5, 8, device="cpu")
    with pytest.raises(RuntimeError):
        torch.vmap(lambda x: flashcore.attention(x, x, x))(q)
    q = draw(1, 2, 5, 8, device="cpu")
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(q)
        with pytest.raises((RuntimeError, ValueError, BufferError)):
            flashcore.attention(fake, fake, fake)


@pytest.mark.parametrize("fallback", [False, True])
def test_pytorchs_own_calls_are_routed(device, monkeypatch, fallback):
    from flashcore import _sdpa

    calls, inner = [], _sdpa._sdpa
    monkeypatch.setattr(_sdpa, "eager", lambda *tensors: False)
    monkeypatch.setattr(_sdpa, "_sdpa", lambda *a: calls.append(1) or inner(*a))
    q, x = draw(1, 2, 9, 16, device=device), draw(2, 5, 16, device=device)
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True).to(x)
    expected = layer(x, x, x, need_weights=False)[0]
    with fc.sdpa_by_flashcore(fallback):
        on(device, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
        sdpa(q, q, q)  # imported before, by name
        found = layer(x, x, x, need_weights=False)[0]  # inside PyTorch's own function
    assert len(calls) == 3
    close(found, expected)
    sdpa(q, q, q)
    assert torch.nn.functional.scaled_dot_product_attention is sdpa and len(calls) == 3


def test_routing_inside_torch_compile():
    q = draw(1, 2, 9, 16, device="cpu")
    with fc.sdpa_by_flashcore():
        graphs = []

        def backend(graph, inputs):
            graphs.append(graph.code)
            return graph

        torch._dynamo.reset()
        found = torch.compile(sdpa_of_sin, fullgraph=True, backend=backend)(q)
    assert len(graphs) == 1 and "flashcore" in graphs[0]
    close(found, sdpa_of_sin(q))


def sdpa_of_sin(q):
    return torch.nn.functional.scaled_dot_product_attention(q.sin(), q, q)


def test_no_fallback_unless_allowed_and_then_it_is_logged(caplog):
    wide = draw(1, 1, 3, 600, device="cpu")
    numbers = torch.ones(1, 1, 3, 8, dtype=torch.complex64)
    with pytest.raises(NotImplementedError, match="over 576"):
        fc.scaled_dot_product_attention(wide, wide, wide)
    with pytest.raises(NotImplementedError, match="complex64"):
        fc.scaled_dot_product_attention(numbers, numbers, numbers)
    with caplog.at_level(logging.WARNING, "flashcore"), fc.fallback_to_pytorch():
        for _ in range(2):
            close(
                fc.scaled_dot_product_attention(wide, wide, wide), expected_sdpa(wide, wide, wide)
            )
    assert caplog.text.count("goes to PyTorch: head dimensions over 576 are not served") == 1
