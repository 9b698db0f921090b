"""Times the rows of one number of threads and one type for cpu.py, which sets OMP_NUM_THREADS:
FlashCore, PyTorch and a naive version over BLAS, in turns, in this process. Prints a line of JSON
for the machine's peaks and one for each row.

    cpu_worker.py LIBRARY SECONDS ROW…      a row is the JSON that cpu.py makes of its list
"""

import ctypes
import json
import os
import sys
import time

try:
    import torch
except ImportError:
    torch = None
try:
    import numpy
except ImportError:
    numpy = None

FORWARD, BACKWARD = 0, 1
TYPE_CODES = {"f32": 1, "f16": 2, "bf16": 3}
TYPE_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
SIZES = ("batch", "q_heads", "kv_heads", "q_length", "kv_length", "head_dim")
ROUNDS = 5
# OpenMP's threads go on looking for work for some milliseconds after a call, in the others' way.
REST_SECONDS = 0.05
# Two kernels of the same type may differ by the rounding of their results, and of the weights:
# parts of the largest value, or of 1 where all are smaller.
TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}


class Sizes(ctypes.Structure):
    """peers_sizes of calls.h."""

    _fields_ = [(name, ctypes.c_int64) for name in (*SIZES, "type", "causal", "backward")]


def load(path):
    library = ctypes.CDLL(path)
    library.peers_open.restype = ctypes.c_void_p
    library.peers_open.argtypes = [ctypes.POINTER(Sizes)]
    library.peers_close.argtypes = [ctypes.c_void_p]
    library.peers_error.restype = ctypes.c_char_p
    library.peers_kernel.restype = ctypes.c_char_p
    library.peers_kernel.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.peers_tensor.restype = ctypes.c_void_p
    library.peers_tensor.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.peers_seconds.restype = ctypes.c_double
    library.peers_seconds.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.peers_peak_flops.restype = ctypes.c_double
    library.peers_peak_bandwidth.restype = ctypes.c_double
    return library


class Problem:
    """FlashCore's call, and the memory of its tensors for the peers to work on."""

    def __init__(self, library, row):
        self.library, self.row = library, row
        self.direction = BACKWARD if row["backward"] else FORWARD
        sizes = Sizes(*(row[name] for name in SIZES), TYPE_CODES[row["type"]], row["causal"], row["backward"])
        self.call = library.peers_open(ctypes.byref(sizes))
        if not self.call:
            raise RuntimeError(library.peers_error().decode())

    def close(self):
        self.library.peers_close(self.call)

    def kernel(self):
        name = self.library.peers_kernel(self.call, self.direction)
        return name.decode() if name else None

    def seconds(self, direction=None):
        seconds = self.library.peers_seconds(self.call, self.direction if direction is None else direction)
        if seconds < 0:
            raise RuntimeError(self.library.peers_error().decode())
        return seconds

    def shape(self, name):
        side = "q" if name in ("q", "out", "dout", "dq") else "kv"
        return [self.row["batch"], self.row[side + "_heads"], self.row[side + "_length"], self.row["head_dim"]]

    def memory(self, name):
        count = 1
        for size in self.shape(name):
            count *= size
        address = self.library.peers_tensor(self.call, name.encode())
        return (ctypes.c_uint8 * (count * TYPE_BYTES[self.row["type"]])).from_address(address)


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Torch:
    """PyTorch's own attention, and the naive one over its matrix products."""

    def __init__(self, problem):
        kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        self.row, self.problem = problem.row, problem
        self.kind = kinds[problem.row["type"]]
        self.q, self.k, self.v = (self.tensor(name) for name in "qkv")
        if problem.row["backward"]:
            for leaf in (self.q, self.k, self.v):
                leaf.requires_grad_()
            self.dout = self.tensor("dout")
            self.graphs = {f: f() for f in (self.attention, self.naive)}

    def tensor(self, name):
        flat = torch.frombuffer(self.problem.memory(name), dtype=self.kind)
        return flat.view(self.problem.shape(name))

    def attention(self):
        grouped = {} if self.row["q_heads"] == self.row["kv_heads"] else {"enable_gqa": True}
        return torch.nn.functional.scaled_dot_product_attention(
            self.q, self.k, self.v, is_causal=bool(self.row["causal"]), **grouped)

    def naive(self):
        """The query heads of a KV head are rows of one product."""
        batch, heads, length, dim = self.k.shape
        q = self.q.reshape(batch, heads, -1, dim)
        scores = q @ self.k.transpose(-1, -2) * dim**-0.5
        if self.row["causal"]:
            hidden = torch.ones(q.shape[2], length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -float("inf"))
        return (torch.softmax(scores, -1) @ self.v).view(self.q.shape)

    def gradients(self, function):
        return torch.autograd.grad(self.graphs[function], (self.q, self.k, self.v), self.dout, retain_graph=True)

    def seconds(self, function):
        if self.row["backward"]:
            return timed(lambda: self.gradients(function))
        with torch.no_grad():
            return timed(function)

    def difference(self):
        """Between FlashCore's last result and PyTorch's, of the largest value where that is above 1."""
        if self.row["backward"]:
            pairs = zip((self.tensor(name) for name in ("dq", "dk", "dv")), self.gradients(self.attention))
        else:
            with torch.no_grad():
                pairs = [(self.tensor("out"), self.attention())]
        return max((ours.float() - theirs.float()).abs().max().item() / max(1, theirs.abs().max().item())
                   for ours, theirs in pairs)


class Numpy:
    """The naive version where there is no PyTorch: f32, forward."""

    def __init__(self, problem):
        self.row, self.problem = problem.row, problem
        self.q, self.k, self.v = (self.tensor(name) for name in "qkv")

    def tensor(self, name):
        return numpy.frombuffer(self.problem.memory(name), dtype=numpy.float32).reshape(self.problem.shape(name))

    def naive(self):
        batch, heads, length, dim = self.k.shape
        q = self.q.reshape(batch, heads, -1, dim)
        scores = q @ self.k.swapaxes(-1, -2) * numpy.float32(dim**-0.5)
        if self.row["causal"]:
            scores[..., ~numpy.tri(q.shape[2], length, dtype=bool)] = -numpy.inf
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ self.v).reshape(self.q.shape)

    def seconds(self, function):
        return timed(function)

    def difference(self):
        return float(abs(self.tensor("out") - self.naive()).max())


def peers_of(problem):
    """(name, function that runs a call and returns its seconds), and what knows FlashCore's error."""
    if torch:
        peer = Torch(problem)
        return [("pytorch", lambda: peer.seconds(peer.attention)), ("naive", lambda: peer.seconds(peer.naive))], peer
    if numpy and problem.row["type"] == "f32" and not problem.row["backward"]:
        peer = Numpy(problem)
        return [("naive", lambda: peer.seconds(peer.naive))], peer
    return [], None


def percentiles(samples):
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {"calls": len(ordered), **{f"p{p}_ms": 1e3 * ordered[round(last * p / 100)] for p in (10, 50, 90)}}


def time_in_turns(contenders, seconds):
    """Rounds, so that what else happens on the machine meets all of them alike."""
    samples = {name: [] for name, _ in contenders}
    for _ in range(ROUNDS):
        for name, call in contenders:
            time.sleep(REST_SECONDS)
            call()
            end = time.perf_counter() + seconds / ROUNDS
            samples[name].append(call())
            while time.perf_counter() < end:
                samples[name].append(call())
    return {name: percentiles(taken) for name, taken in samples.items()}


def measure(library, row, seconds):
    problem = Problem(library, row)
    kernel = problem.kernel()
    if kernel in (None, "reference"):
        problem.close()
        return {"kernel": kernel, "left_out": "no kernel but the reference, which is not for speed"}
    if row["backward"]:
        problem.seconds(FORWARD)
    problem.seconds()
    peers, judge = peers_of(problem)
    result = {"kernel": kernel, "difference": judge.difference() if judge else None}
    if judge and not result["difference"] <= TOLERANCE[row["type"]]:
        result["left_out"] = f"wrong: it differs by {result['difference']:.2g}"
    else:
        result.update(time_in_turns([("flashcore", problem.seconds), *peers], seconds))
    problem.close()
    return result


def main(path, seconds, *rows):
    library = load(path)
    threads = int(os.environ["OMP_NUM_THREADS"])
    if torch:
        torch.set_num_threads(threads)
    print(json.dumps({
        "threads": threads,
        "pytorch": torch.__version__ if torch else None,
        "numpy": numpy.__version__ if numpy else None,
        "peak_flops": library.peers_peak_flops(),
        "peak_bandwidth": library.peers_peak_bandwidth(),
    }), flush=True)
    for text in rows:
        print(json.dumps(measure(library, json.loads(text), float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
