"""The ways that tensors come in and go out: capsules, the C exchange, streams, CUDA graphs."""

import contextlib
import gc
import sys

import pytest

torch = pytest.importorskip("torch")

import flashcore  # noqa: E402
from flashcore import _frameworks  # noqa: E402
from torch_tools import close, draw, expected_sdpa, on, served  # noqa: E402


class Exported:
    """A tensor that speaks DLPack through Python alone, with or without versions."""

    def __init__(self, tensor, **keywords):
        self.tensor, self.keywords, self.streams = tensor, keywords, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream, **self.keywords)


@pytest.mark.parametrize("keywords", [{}, {"max_version": (1, 0)}], ids=["legacy", "versioned"])
def test_capsules_of_either_kind(device, keywords):
    q, k, v = (draw(1, 2, 9, 16, device=device) for _ in range(3))
    out = torch.empty_like(q)
    try:
        tensors = [Exported(x, **keywords) for x in (q, k, v)]
        q.__dlpack__(**keywords)
    except TypeError:
        pytest.skip("this PyTorch knows no versions")
    on(device, lambda: flashcore.attention(*tensors, out=out))
    close(out, expected_sdpa(q, k, v))
    assert (tensors[0].streams == [None]) == (device == "cpu")
    with pytest.raises(TypeError, match="give the memory as out="):
        flashcore.attention(*tensors)


def test_without_the_c_exchange(device):
    """As in PyTorch before 2.10, which a class of its own stands for."""

    class Old(torch.Tensor):
        pass

    q, k, v = (draw(1, 2, 9, 16, device=device).as_subclass(Old) for _ in range(3))
    out = on(device, lambda: flashcore.attention(q, k, v, causal=True))
    close(out.as_subclass(torch.Tensor), expected_sdpa(q, k, v, is_causal=True))
    assert _frameworks.adapt(Old).stream is not None


def test_pytorchs_private_function_is_used_only_as_it_is_known(monkeypatch):
    if not hasattr(torch._C._dynamo.guards, "_empty_strided_cpu"):
        pytest.skip("this PyTorch does not have it")
    assert _frameworks.adapt(torch.Tensor).strided is not None
    assert _frameworks.adapt(torch.nn.Parameter).strided is None

    def other_function(shape, strides, dtype):
        return torch.empty(shape, dtype=dtype)

    for other in (other_function, lambda shape: None):
        monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cpu", other)
        assert _frameworks.adapt(torch.Tensor).strided is None
    monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
    assert _frameworks.adapt(torch.Tensor).strided is None


def test_nothing_is_leaked(device):
    q, k, v = (draw(1, 1, 3, 8, device=device) for _ in range(3))  # one head: one thread
    turned, out = draw(1, 2, 3, 8, device=device).transpose(1, 2), torch.empty_like(q)

    def every_way():
        flashcore.attention(q, k, v, return_lse=True)
        flashcore.attention(turned, turned, turned[..., :4])
        flashcore.attention(q, k, v, out=out)
        with contextlib.suppress(ValueError):
            flashcore.attention(q, k, v, softcap=-1.0)

    def count():
        gc.collect()
        constants = (sys.getrefcount(thing) for thing in (None, True, False, out, q))
        return sys.getallocatedblocks(), *constants

    on(device, every_way)
    for _ in range(100):  # until all that is kept is there
        every_way()
    before = count()
    for _ in range(1000):
        every_way()
    # Python's own stores come and go by hundreds.
    assert all(now - then < 500 for now, then in zip(count(), before)), (before, count())


def test_tensors_on_two_devices():
    if not torch.cuda.is_available():
        pytest.skip("one device only")
    q = draw(1, 2, 9, 16, device="cuda", dtype=torch.float16)
    with pytest.raises(ValueError, match="k is on the CPU, but q is on cuda:0"):
        flashcore.attention(q, q.cpu(), q)


def qkv_on_a_gpu(rows=512):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    q, k, v = (draw(1, 8, n, 64, device="cuda") for n in (rows, 2048, 2048))
    served(lambda: flashcore.attention(q, k, v))
    torch.cuda.synchronize()
    return q, k, v


def test_a_call_is_queued_in_the_current_stream_and_not_waited_for():
    q, k, v = qkv_on_a_gpu()
    other, stream = torch.randn_like(q), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # cycles, 0.1 s: then q changes, and then the call may run
        q.copy_(other)
        aside = flashcore.attention(q, k, v)
    assert not stream.query()
    torch.cuda.synchronize()
    close(aside, expected_sdpa(other, k, v))


@pytest.mark.parametrize("rows", [512, 1])  # one row has its keys split, which needs a workspace
def test_cuda_graph(rows):
    q, k, v = qkv_on_a_gpu(rows)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = flashcore.attention(q, k, v)
    for _ in range(2):
        q.copy_(torch.randn_like(q))
        graph.replay()
        torch.cuda.synchronize()
        close(captured, expected_sdpa(q, k, v))
