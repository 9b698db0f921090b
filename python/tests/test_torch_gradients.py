"""Gradients: PyTorch's, and differences in double precision."""

import pytest

torch = pytest.importorskip("torch")

import flashcore  # noqa: E402
import flashcore.torch as fc  # noqa: E402
from torch_tools import TOLERANCE, close, draw, expected_sdpa, on, sdpa  # noqa: E402


def gradients(function, inputs, weights):
    return torch.autograd.grad((function(*inputs) * weights).sum(), inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}], ids=str)
def test_gradients_are_pytorchs(device, dtype, options):
    heads = (4, 2, 2) if "enable_gqa" in options else (4, 4, 4)
    inputs = [draw(2, h, 13, 16, device=device, dtype=dtype, grad=True) for h in heads]
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    weights = draw(2, 4, 13, 16, device=device, dtype=dtype)

    def ours(q, k, v):
        return fc.scaled_dot_product_attention(q, k, v, **options)

    def theirs(q, k, v):
        return sdpa(q, k, v, **options)

    found = on(device, lambda: gradients(ours, inputs, weights))
    for grad, expected in zip(found, gradients(theirs, doubles, weights.double())):
        close(grad, expected, 2 * TOLERANCE[dtype])


CHECKED = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (2, 1)},
    "softcap": {"softcap": 1.0},
    "bshd": {"layout": "bshd"},
    "dropout": {"dropout_p": 0.3, "dropout_seed": 7},
}


@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck(name):
    q, k, v = (draw(1, 2, 4, 3, device="cpu", dtype=torch.float64, grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *x: fc.attention(*x, **CHECKED[name]), (q, k, v))


def test_gradcheck_of_grouped_transposed_heads():
    q = draw(1, 5, 4, 3, device="cpu", dtype=torch.float64, grad=True)
    k, v = (draw(1, 6, 2, d, device="cpu", dtype=torch.float64, grad=True) for d in (3, 2))
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    assert turned[0].shape == (1, 4, 5, 3)
    assert torch.autograd.gradcheck(
        lambda *x: fc.attention(*(y.transpose(1, 2) for y in x), causal=True), (q, k, v)
    )


@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 2, 4, 5), (1, 1, 1, 5), (5,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_bias_and_sinks(shape, dtype):
    q = draw(2, 2, 4, 8, device="cpu", dtype=torch.float64)
    k, v = (draw(2, 2, 5, 8, device="cpu", dtype=torch.float64) for _ in range(2))
    bias = draw(*shape, device="cpu", dtype=dtype, grad=True)
    sinks = draw(2, device="cpu", grad=True)
    weights = draw(2, 2, 4, 8, device="cpu", dtype=torch.float64)

    def theirs(bias, sinks):
        score = q @ k.mT * 8**-0.5 + bias.double()
        column = sinks.double()[None, :, None, None].expand(2, 2, 4, 1)
        return torch.cat([score, column], -1).softmax(-1)[..., :-1] @ v

    found = gradients(lambda b, s: fc.attention(q, k, v, bias=b, sinks=s), (bias, sinks), weights)
    for grad, expected in zip(found, gradients(theirs, (bias, sinks), weights)):
        close(grad, expected, 1e-5 if dtype is torch.float32 else 1e-2)


def test_an_expanded_bias_gets_its_whole_gradient():
    q, k, v = (draw(2, 2, 4, 8, device="cpu") for _ in range(3))
    bias = draw(4, 4, device="cpu", grad=True)
    weights = draw(2, 2, 4, 8, device="cpu")
    narrow = gradients(lambda b: fc.attention(q, k, v, bias=b), (bias,), weights)
    wide = gradients(lambda b: fc.attention(q, k, v, bias=b.expand(2, 2, 4, 4)), (bias,), weights)
    close(narrow[0], wide[0])


def test_flashcore_attention_leads_to_autograd_by_itself(device):
    q, k, v = (draw(1, 2, 6, 16, device=device, grad=True) for _ in range(3))
    out = on(device, lambda: flashcore.attention(q, k, v, causal=True))
    assert out.requires_grad
    with torch.no_grad():
        assert not flashcore.attention(q, k, v).requires_grad
    assert not flashcore.attention(*(x.detach() for x in (q, k, v))).requires_grad
    out, lse = flashcore.attention(q, k, v, return_lse=True)
    assert out.requires_grad and not lse.requires_grad
    with pytest.raises(ValueError, match="out= is for calls without a gradient"):
        flashcore.attention(q, k, v, out=torch.empty_like(q))


@pytest.mark.parametrize("wanted", ["q", "k", "v", "bias", "sinks"])
def test_one_tensor_that_wants_a_gradient_is_enough(wanted):
    shapes = {"bias": (6, 6), "sinks": (2,)}
    tensors = {
        name: draw(*shapes.get(name, (1, 2, 6, 16)), device="cpu", grad=name == wanted)
        for name in ("q", "k", "v", "bias", "sinks")
    }
    assert flashcore.attention(**tensors).requires_grad
    assert fc.attention(**tensors).requires_grad


def test_the_gradient_of_a_sum(device):
    """Its dout is one number, repeated: a tensor whose strides are all 0."""
    q, k, v = (draw(1, 2, 6, 16, device=device, grad=True) for _ in range(3))
    on(device, lambda: fc.attention(q, k, v).sum().backward())
    close(v.grad.sum(), torch.tensor(1.0 * q.numel()), 1e-4)


def test_a_parameter_is_a_tensor(device):
    layer = torch.nn.Parameter(draw(1, 2, 6, 16, device=device))
    with torch.no_grad():
        close(on(device, lambda: flashcore.attention(layer, layer, layer)),
              expected_sdpa(layer, layer, layer))  # fmt: skip
    assert on(device, lambda: flashcore.attention(layer, layer, layer)).requires_grad
