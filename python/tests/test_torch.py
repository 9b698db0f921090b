"""PyTorch's own semantics over a grid of shapes, types, masks and strides."""

import copy
import itertools
import pickle

import pytest

torch = pytest.importorskip("torch")

import flashcore  # noqa: E402
import flashcore.torch as fc  # noqa: E402
from torch_tools import LAYOUTS, close, draw, expected_sdpa, half_gone, on, sdpa  # noqa: E402

SHAPES = {
    "square": ((2, 3, 17, 16),) * 3,
    "few rows": ((2, 3, 2, 16), (2, 3, 9, 16), (2, 3, 9, 16)),
    "few keys": ((2, 3, 9, 16), (2, 3, 2, 16), (2, 3, 2, 16)),
    "one": ((1, 1, 1, 8),) * 3,
    "wide values": ((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 24)),
    "no batch": ((3, 5, 8), (3, 7, 8), (3, 7, 8)),
    "matrices": ((5, 8), (7, 8), (7, 4)),
    "five dimensions": ((2, 2, 3, 5, 8), (2, 2, 3, 7, 8), (2, 2, 3, 7, 6)),
    "batch broadcast": ((2, 3, 5, 8), (1, 3, 7, 8), (3, 7, 8)),
    "head broadcast": ((2, 3, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)),
    "query broadcast": ((2, 1, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "no rows": ((2, 3, 0, 8), (2, 3, 4, 8), (2, 3, 4, 8)),
    "no keys": ((2, 3, 4, 8), (2, 3, 0, 8), (2, 3, 0, 8)),
    "no batches": ((0, 3, 4, 8),) * 3,
    "no heads": ((2, 0, 4, 8),) * 3,
    "no values": ((2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 4, 0)),
}
MASKS = ["none", "causal", "bool", "float", "bool row", "float column", "bool of a batch"]


def mask_of(kind, q, k, dtype, device):
    rows, keys = q[-2], k[-2]
    if kind == "bool" or kind == "bool row":
        return half_gone((rows if kind == "bool" else 1, keys), device) if keys else None
    if kind == "float":
        return draw(rows, keys, device=device, dtype=dtype)
    if kind == "float column":
        return draw(rows, 1, device=device, dtype=dtype)
    if kind == "bool of a batch" and len(q) == 4 and keys:
        return half_gone((q[0], 1, rows, keys), device)
    return None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask_kind", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sdpa_is_pytorchs(device, shape, mask_kind, dtype):
    q, k, v = (draw(*s, device=device, dtype=dtype) for s in SHAPES[shape])
    mask = mask_of(mask_kind, q.shape, k.shape, dtype, device)
    options = {"is_causal": mask_kind == "causal"}
    out = on(device, lambda: fc.scaled_dot_product_attention(q, k, v, mask, **options))
    expected = expected_sdpa(q, k, v, mask, **options)
    assert out.shape == expected.shape and out.dtype == dtype
    close(out, expected)


# PyTorch itself makes NaN of a causal mask with scale 0.
@pytest.mark.parametrize("causal, scale", [(False, 0.3), (True, None), (True, 0.5), (False, 0.0)])
def test_sdpa_grouped_heads_and_scale(device, causal, scale):
    q, k, v = (draw(2, heads, 9, 16, device=device) for heads in (6, 2, 2))
    options = {"is_causal": causal, "scale": scale, "enable_gqa": True}
    out = on(device, lambda: fc.scaled_dot_product_attention(q, k, v, **options))
    close(out, expected_sdpa(q, k, v, **options))
    if not causal:
        mask = half_gone((9, 9), device)
        out = fc.scaled_dot_product_attention(q, k, v, mask, **options)
        close(out, expected_sdpa(q, k, v, mask, **options))


def test_sdpa_mask_of_fewer_dimensions(device):
    q, k, v = (draw(2, 2, 3, n, 8, device=device) for n in (5, 7, 7))
    mask = half_gone((2, 3, 5, 7), device)
    out = on(device, lambda: fc.scaled_dot_product_attention(q, k, v, mask))
    close(out, expected_sdpa(q, k, v, mask))


def test_sdpa_drops_as_many_weights_as_it_is_told(device):
    nothing = torch.zeros(1, 1, 64, 64, device=device, dtype=torch.float16)
    eye = torch.eye(64, device=device, dtype=torch.float16)[None, None]
    options = {"dropout_p": 0.25}
    out = on(device, lambda: fc.scaled_dot_product_attention(nothing, nothing, eye, **options))
    assert 0.21 < (out == 0).float().mean() < 0.29  # of 4096: six standard deviations
    assert out.max().item() == pytest.approx(1 / 64 / 0.75, rel=1e-2)


def test_sdpa_of_nested_tensors_is_refused():
    q = torch.nested.nested_tensor([torch.ones(2, 3, 8), torch.ones(2, 4, 8)])
    with pytest.raises(NotImplementedError, match="nested tensors are packed sequences"):
        fc.scaled_dot_product_attention(q, q, q)


def test_sdpa_refuses_what_pytorch_refuses(device):
    q, k = draw(1, 6, 5, 8, device=device), draw(1, 2, 5, 8, device=device)
    mask = torch.ones(5, 5, dtype=torch.bool, device=device)
    for arguments in [
        (q, k, k),  # grouped heads without enable_gqa
        (q, q.double(), q),
        (q, q.double(), q.double()),
        (q, q, q, mask.int()),
        (q, q[..., :4], q),
    ]:
        with pytest.raises(RuntimeError):
            sdpa(*arguments)
        with pytest.raises((RuntimeError, ValueError)):
            fc.scaled_dot_product_attention(*arguments)
    # Documented as errors too, but PyTorch's CPU kernel computes something.
    with pytest.raises(ValueError, match="attn_mask must be None when is_causal=True"):
        fc.scaled_dot_product_attention(q, q, q, mask, is_causal=True)
    with pytest.raises(ValueError, match="v has 5, k has 3"):
        fc.scaled_dot_product_attention(q, q[:, :, :3], q)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_strides(device, name, causal):
    q, k, v = (LAYOUTS[name](draw(2, 3, 11, 8, device=device)) for _ in range(3))
    out = on(device, lambda: fc.scaled_dot_product_attention(q, k, v, is_causal=causal))
    close(out, expected_sdpa(q, k, v, is_causal=causal))


def test_the_result_keeps_the_order_of_q(device):
    q = LAYOUTS["transposed"](draw(2, 3, 11, 8, device=device))
    assert on(device, lambda: flashcore.attention(q, q, q)).stride() == q.stride()


def test_out_is_written_in_place(device):
    q, k, v = (draw(1, 2, 9, 16, device=device) for _ in range(3))
    out = torch.full_like(q, float("nan"))
    assert on(device, lambda: flashcore.attention(q, k, v, out=out)) is out
    close(out, expected_sdpa(q, k, v))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8(device, name):
    if not hasattr(torch, name):
        pytest.skip("this PyTorch has no FP8")
    q, k, v = (draw(1, 2, 9, 64, device=device).to(getattr(torch, name)) for _ in range(3))
    try:
        torch.utils.dlpack.to_dlpack(q)
    except (BufferError, RuntimeError) as refusal:
        pytest.skip(str(refusal))  # PyTorch before 2.10 does not export FP8
    scales = {"q_scale": torch.tensor(2.0, device=device),
              "k_scale": torch.tensor([0.5, 2.0], device=device),
              "v_scale": torch.tensor([[3.0, 1.0]], device=device)}  # fmt: skip
    out = on(device, lambda: flashcore.attention(q, k, v, **scales))
    assert out.dtype == torch.bfloat16
    scaled_k = k.float() * scales["k_scale"][:, None, None]
    scaled_v = v.float() * scales["v_scale"][..., None, None]
    close(out, expected_sdpa(q.float() * 2, scaled_k, scaled_v))
    scales["k_scale"] = torch.rand(1, 2, 3, device=device) + 0.5  # 9 rows in blocks of 4
    out = flashcore.attention(q, k, v, scale_block=4, **scales)
    scaled_k = k.float() * scales["k_scale"].repeat_interleave(4, -1)[..., :9, None]
    close(out, expected_sdpa(q.float() * 2, scaled_k, scaled_v))


def test_a_model_that_attends_can_be_copied_and_pickled():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = fc.scaled_dot_product_attention

        def forward(self, x):
            return self.attend(x, x, x)

    layer, x = Layer(), draw(1, 1, 3, 8, device="cpu")
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert pickle.loads(pickle.dumps(layer.attend)) is layer.attend


def test_every_combination_of_flags_agrees_with_the_operator():
    """The way around the operator (eager) and the operator itself give the same bits."""
    q, k, v = (draw(2, 4, 7, 8, device="cpu") for _ in range(3))
    windows = [None, (2, 0), (None, 0), (3, None)]
    others = [{"softcap": 3.0}, {"dropout_p": 0.5, "dropout_seed": 3, "dropout_offset": 5}]
    for causal, window, more in itertools.product([False, True], windows, others):
        options = {"causal": causal, "window": window, **more}
        eager = fc.attention(q, k, v, **options)
        by_operator = fc.attention(q.clone().requires_grad_(), k, v, **options)
        assert torch.equal(eager, by_operator)
