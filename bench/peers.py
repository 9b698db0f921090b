#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention beside FlashCore: whole calls, p50, random Q, K, V.

    bench/peers.py --device cuda --shape 1,8,512,64 --type f16     CUDA-graph replays of 20 calls
    bench/peers.py --device cuda --shape 1,8,512,64 8,8,512,64     several shapes, one after another
    bench/peers.py --device cpu --shape 1,16,2048,128 --threads 1  plain calls
"""

import argparse
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CALLS = 20


def tensors(options, shape):
    shape = [int(n) for n in shape.split(",")]
    return [torch.randn(shape, device=options.device).to(TYPES[options.type]) for _ in range(3)]


def p50(samples):
    return sorted(samples)[len(samples) // 2]


def time_cuda(backend, q, k, v, causal):
    with sdpa_kernel(backend):
        for _ in range(3):
            scaled_dot_product_attention(q, k, v, is_causal=causal)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                scaled_dot_product_attention(q, k, v, is_causal=causal)
    samples = []
    for _ in range(100):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        samples.append(start.elapsed_time(stop) * 1e-3 / CALLS)
    return p50(samples)


def time_cpu(q, k, v, causal):
    scaled_dot_product_attention(q, k, v, is_causal=causal)
    samples = []
    while len(samples) < 5 or (sum(samples) < 1 and len(samples) < 1000):
        start = time.perf_counter()
        scaled_dot_product_attention(q, k, v, is_causal=causal)
        samples.append(time.perf_counter() - start)
    return p50(samples)


def time_shape(options, shape):
    q, k, v = tensors(options, shape)
    what = f"{shape} {options.type}{' causal' if options.causal else ''}"
    if options.device == "cpu":
        seconds = time_cpu(q, k, v, options.causal)
        print(f"PyTorch {torch.__version__} cpu, {options.threads} threads, {what}: {seconds * 1e6:.1f} us")
        return
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        seconds = time_cuda(backend, q, k, v, options.causal)
        print(f"PyTorch {torch.__version__} {backend.name}, {what}: {seconds * 1e6:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", nargs="+", default=["1,8,512,64"], help="batch,heads,length,dim")
    parser.add_argument("--type", choices=TYPES, default="f16")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--causal", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for shape in options.shape:
        time_shape(options, shape)


if __name__ == "__main__":
    main()
