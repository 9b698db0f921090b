"""What the tests of the PyTorch part share. With a GPU they run on it too; what no kernel there
serves yet is skipped with the library's sentence."""

import pytest
import torch

sdpa = torch.nn.functional.scaled_dot_product_attention
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def draw(*shape, device, dtype=None, grad=False):
    """On a GPU in half precision unless told otherwise: that is what its kernels take."""
    if dtype is None:
        dtype = torch.float32 if device == "cpu" else torch.float16
    return torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_(grad)


def close(found, expected, tolerance=None):
    tolerance = TOLERANCE[found.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(
        found, expected.to(found.dtype), rtol=tolerance, atol=tolerance, equal_nan=False
    )


def served(call):
    """The GPU's kernels do not have everything yet; the CPU's do."""
    try:
        return call()
    except NotImplementedError as refusal:
        pytest.skip(str(refusal))


def on(device, call):
    return call() if device == "cpu" else served(call)


def expected_sdpa(q, k, v, mask=None, **options):
    """PyTorch's own, in double precision, on the CPU, by its plain way: the others die of empty
    tensors on some machines."""
    if mask is not None:
        mask = mask.cpu() if mask.dtype == torch.bool else mask.double().cpu()
    q64, k64, v64 = (x.double().cpu() for x in (q, k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return sdpa(q64, k64, v64, mask, **options).to(q.device)


def half_gone(shape, device):
    mask = torch.rand(shape, device=device) < 0.5
    mask[..., 0] = True  # PyTorch's rows that see nothing depend on its version
    return mask


LAYOUTS = {
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "heads first": lambda x: x.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3),
    "dim before rows": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "sliced": lambda x: x.repeat_interleave(2, 2)[:, :, ::2],
    "columns": lambda x: x.repeat_interleave(2, 3)[..., ::2],
    "part of a larger": lambda x: torch.nn.functional.pad(x, (3, 5, 1, 2), value=float("nan"))[
        :, :, 1:-2, 3:-5
    ],
    "expanded batch": lambda x: x[:1].expand(2, -1, -1, -1),
    "expanded heads": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "expanded rows": lambda x: x[:, :, :1].expand(-1, -1, 11, -1),
    "one number": lambda x: x[:1, :1, :1, :1].expand(2, 3, 11, 8),
}
