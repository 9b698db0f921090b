#!/usr/bin/env python3
"""Times PyTorch's attention beside FlashCore: whole calls, p50, random Q, K, V.

    bench/peers.py --device cuda --shape 1,8,512,64 --type f16     CUDA-graph replays of 20 calls
    bench/peers.py --device cuda --shape 1,8,512,64 8,8,512,64     several shapes, one after another
    bench/peers.py --device cpu --shape 1,16,2048,128 --threads 1  plain calls
    bench/peers.py --device cuda --peers cuDNN FlashAttention-2    these two alone
    bench/peers.py --device cuda --shape 1,32,8192,128 --kv-heads 8 --q-length 1   decoding
    bench/peers.py --device cuda --json peers.json                 for `flashcore report`

On CUDA the peers are PyTorch's default choice, each of its backends, FlexAttention and, where they are
installed, FlashAttention (`flash_attn`) and FlashAttention-3 (`flash_attn_3`, or xFormers, whose packages
up to 0.0.34 bring it along); one that refuses a problem says why and the others go on.
"""

import argparse
import glob
import importlib.util
import json
import os
import sys
import time

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError as missing:
    sys.exit(f"bench/peers.py times PyTorch, which {sys.executable} does not have: {missing}")

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CALLS = 20
SECONDS = 0.5  # of a peer's replays on a GPU, or 100 of them
BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "FlashAttention-2": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
PEERS = ["default", *BACKENDS, "FlexAttention", "flash_attn", "FlashAttention-3"]
NOT_PYTORCH = ["flash_attn", "FlashAttention-3"]


def sizes(options, shape):
    """Those of q, and of k and v: batch, heads, rows, dim."""
    batch, heads, length, dim = (int(n) for n in shape.split(","))
    return (batch, heads, options.q_length or length, dim), (batch, options.kv_heads or heads, length, dim)


def tensors(options, shape):
    q_size, kv_size = sizes(options, shape)
    return [torch.randn(size, device=options.device).to(TYPES[options.type]) for size in (q_size, kv_size, kv_size)]


def is_grouped(q, k):
    return q.shape[1] != k.shape[1]


def p50(samples):
    return sorted(samples)[len(samples) // 2]


def default_call(q, k, v, causal):
    return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=is_grouped(q, k))


def backend_call(backend):
    def call(q, k, v, causal):
        with sdpa_kernel(backend):
            return default_call(q, k, v, causal)

    return call


def flex_call():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    masks = {}

    def call(q, k, v, causal):
        key = (q.shape[2], k.shape[2])
        if causal and key not in masks:
            masks[key] = create_block_mask(lambda b, h, i, j: i >= j, None, None, *key)
        return compiled(q, k, v, block_mask=masks[key] if causal else None, enable_gqa=is_grouped(q, k))

    return call


def flash_attn_call():
    from flash_attn import flash_attn_func  # heads and rows the other way round

    def call(q, k, v, causal):
        return flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)

    return call


def flash_attention_3_library():
    """The file with its operators: a package of its own, or a folder of xFormers'."""
    for package, pattern in (("flash_attn_3", "_C*.so"), ("xformers", "flash_attn_3/_C*.so")):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else []:
            for library in glob.glob(os.path.join(folder, pattern)):
                return library
    raise ImportError("neither flash_attn_3 is installed nor an xFormers that has it")


def flash_attention_3_call():
    torch.ops.load_library(flash_attention_3_library())

    def call(q, k, v, causal):
        rows_first = (x.transpose(1, 2) for x in (q, k, v))
        return torch.ops.flash_attn_3.fwd(*rows_first, softmax_scale=q.shape[-1] ** -0.5, is_causal=causal,
                                          num_splits=1)

    return call


def make_call(name):
    """The peer's call, or why there is none."""
    if name in BACKENDS:
        return backend_call(BACKENDS[name])
    try:
        return {"default": lambda: default_call, "FlexAttention": flex_call, "flash_attn": flash_attn_call,
                "FlashAttention-3": flash_attention_3_call}[name]()
    except (ImportError, OSError) as reason:
        return str(reason)


def time_cuda(call, q, k, v, causal):
    for _ in range(3):
        call(q, k, v, causal)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call(q, k, v, causal)
    samples = []
    while len(samples) < 5 or (sum(samples) * CALLS < SECONDS and len(samples) < 100):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        samples.append(start.elapsed_time(stop) * 1e-3 / CALLS)
    return p50(samples)


def time_cpu(call, q, k, v, causal):
    call(q, k, v, causal)
    samples = []
    while len(samples) < 5 or (sum(samples) < 1 and len(samples) < 1000):
        start = time.perf_counter()
        call(q, k, v, causal)
        samples.append(time.perf_counter() - start)
    return p50(samples)


def problem_text(options, shape):
    """As FlashCore writes it, so that a report finds the rows of one problem."""
    (batch, heads, q_length, dim), (_, kv_heads, length, _) = sizes(options, shape)
    heads_text = f"{heads}/{kv_heads}" if kv_heads != heads else f"{heads}"
    length_text = f"{q_length}/{length}" if q_length != length else f"{length}"
    causal = " causal" if options.causal else ""
    return f"B={batch} H={heads_text} S={length_text} D={dim} {options.type}{causal}"


def time_shape(options, shape):
    q, k, v = tensors(options, shape)
    text = problem_text(options, shape)
    rows = []
    for name in ["default"] if options.device == "cpu" else options.peers:
        call = make_call(name)
        row = {"peer": name if name in NOT_PYTORCH else f"PyTorch {name}", "problem": {"text": text}}
        try:
            if isinstance(call, str):
                raise RuntimeError(call)
            seconds = (time_cpu if options.device == "cpu" else time_cuda)(call, q, k, v, options.causal)
            row.update(p50_us=seconds * 1e6, reason="")
            print(f"{text}, {row['peer']}: {seconds * 1e6:.2f} us", flush=True)
        except Exception as reason:  # a peer may fail in any way; the others go on
            row["reason"] = str(reason).splitlines()[0]
            print(f"{text}, {row['peer']}: not timed: {row['reason']}", flush=True)
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", nargs="+", default=["1,8,512,64"], help="batch,heads,length,dim")
    parser.add_argument("--q-length", type=int, metavar="N", help="query rows (default: the length)")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="KV heads (default: the heads)")
    parser.add_argument("--type", choices=TYPES, default="f16")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, metavar="NAME",
                        help=f"on CUDA: {', '.join(PEERS)} (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the times for `flashcore report`")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [row for shape in options.shape for row in time_shape(options, shape)]
    if options.json:
        device = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {options.threads} threads"
        content = {"verb": "peers", "version": f"PyTorch {torch.__version__}", "device": device, "rows": rows}
        with open(options.json, "w") as file:
            json.dump(content, file, indent=2)


if __name__ == "__main__":
    main()
