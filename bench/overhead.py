#!/usr/bin/env python3
"""What a call from Python costs beside the kernel: processor time of the calling thread, the best
of several runs, for the smallest of problems. Beside it PyTorch's own call on the same tensors.

    OMP_NUM_THREADS=1 bench/overhead.py
    bench/overhead.py --device cuda       the host's time until the launch is queued
"""

import argparse
import sys
import time

try:
    import torch

    import flashcore
    import flashcore.torch
except ImportError as missing:
    sys.exit(f"bench/overhead.py needs PyTorch and FlashCore's package (pip install .): {missing}")

CALLS = 2000


def microseconds(call, synchronize):
    best = float("inf")
    for _ in range(10):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.thread_time() - start)
        synchronize()
    return best / CALLS * 1e6


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    shape, dtype = ((1, 1, 64, 64), torch.float16) if on_gpu else ((1, 1, 1, 8), torch.float32)
    q, k, v, out = (torch.randn(shape, device=options.device, dtype=dtype) for _ in range(4))
    torch_sdpa = torch.nn.functional.scaled_dot_product_attention
    rows = {
        "flashcore.attention(q, k, v, out=out)": lambda: flashcore.attention(q, k, v, out=out),
        "flashcore.attention(q, k, v)": lambda: flashcore.attention(q, k, v),
        "flashcore.torch.scaled_dot_product_attention": lambda: (
            flashcore.torch.scaled_dot_product_attention(q, k, v)
        ),
        "torch.ops.flashcore.attention": lambda: torch.ops.flashcore.attention(q, k, v),
        "torch.nn.functional.scaled_dot_product_attention": lambda: torch_sdpa(q, k, v),
        "torch.empty_like(q)": lambda: torch.empty_like(q),
    }
    if not on_gpu:
        arrays = [x.numpy() for x in (q, k, v, out)]
        rows["flashcore.attention of NumPy arrays"] = lambda: flashcore.attention(*arrays[:3])
    with torch.no_grad():
        for name, call in rows.items():
            print(f"{microseconds(call, synchronize):8.2f} us  {name}")


if __name__ == "__main__":
    main()
