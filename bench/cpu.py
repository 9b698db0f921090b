#!/usr/bin/env python3
"""Times FlashCore's CPU kernels beside PyTorch's scaled_dot_product_attention and a naive version
over BLAS: whole calls, in turns in one process, after the results were compared. Each number of
threads and each type has a process of its own: a core that has used its matrix units may run slower
until their state is given back, which not everybody does. Prints a table of ratios, writes JSON.

    bench/cpu.py                          everything: about 20 minutes
    bench/cpu.py --only mission --threads 1 --types f32
    bench/cpu.py --python /usr/bin/python3      with that Python's PyTorch

PyTorch is taken from this Python where it has it, else from a virtual environment in build/peers,
which is made on first use. Where it can't be installed, the rest is timed without it.
"""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build" / "peers"
TYPES = ("f32", "f16", "bf16")


def shape(name, batch, q_heads, kv_heads, q_length, kv_length, head_dim, causal=0, backward=0):
    return dict(name=name, batch=batch, q_heads=q_heads, kv_heads=kv_heads, q_length=q_length,
                kv_length=kv_length, head_dim=head_dim, causal=causal, backward=backward)


SHAPES = [
    shape("mission", 1, 8, 8, 512, 512, 64),
    shape("batch", 8, 8, 8, 512, 512, 64),
    shape("prefill", 1, 16, 16, 2048, 2048, 128),
    shape("prefill-causal", 1, 16, 16, 2048, 2048, 128, causal=1),
    shape("decode-512", 1, 32, 8, 1, 512, 128),
    shape("decode-8k", 1, 32, 8, 1, 8192, 128),
    shape("decode-64k", 1, 32, 8, 1, 65536, 128),
    shape("backward", 1, 16, 16, 2048, 2048, 128, backward=1),
    shape("backward-causal", 1, 16, 16, 2048, 2048, 128, causal=1, backward=1),
]


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def install_torch():
    """Returns whether it worked."""
    python = ENVIRONMENT / "bin" / "python"
    # The default for x86_64 has gigabytes of CUDA in it.
    sources = [["--index-url", "https://download.pytorch.org/whl/cpu"]] if platform.machine() == "x86_64" else []
    print(f"installing PyTorch in {ENVIRONMENT} …", file=sys.stderr)
    steps = [[sys.executable, "-m", "venv", ENVIRONMENT], [python, "-m", "pip", "install", "--quiet", "numpy"]]
    for step in steps:
        if subprocess.run(step).returncode != 0:
            return False
    return any(subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", *source]).returncode == 0
               for source in [*sources, []])


def choose_python(wanted):
    own = ENVIRONMENT / "bin" / "python"
    if wanted:
        return wanted
    for python in (sys.executable, own):
        if os.path.exists(python) and has_torch(python):
            return python
    if not install_torch():
        print("PyTorch can't be installed here: going on without it", file=sys.stderr)
    return own if own.exists() else sys.executable


def build(folder):
    """The library that the worker loads."""
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
                       check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", folder, "--target", "flashcore_bench"], check=True, stdout=sys.stderr)
    return folder / "bench" / "libflashcore_bench.so"


def flops(row):
    """Of one call; a causal one sees half of the keys; backward has five products for forward's two."""
    products = 5 if row["backward"] else 2
    pairs = row["batch"] * row["q_heads"] * row["q_length"] * row["kv_length"]
    return 2 * products * pairs * row["head_dim"] * (0.5 if row["causal"] else 1)


def kv_bytes(row):
    size = 4 if row["type"] == "f32" else 2
    return 2 * row["batch"] * row["kv_heads"] * row["kv_length"] * row["head_dim"] * size


def judge(row, peaks):
    """Adds speed, share of the peak that bounds it, and ratios to the peers (above 1: faster)."""
    if "flashcore" not in row:
        return
    mine = row["flashcore"]["p50_ms"] * 1e-3
    row["gflops"] = flops(row) / mine * 1e-9
    row["kv_gigabytes_per_second"] = kv_bytes(row) / mine * 1e-9
    if row["q_length"] == 1:
        row["peak_share"] = row["kv_gigabytes_per_second"] * 1e9 / peaks["peak_bandwidth"]
    else:
        row["peak_share"] = row["gflops"] * 1e9 / peaks["peak_flops"]
    for peer in ("pytorch", "naive"):
        row[f"{peer}_ratio"] = row[peer]["p50_ms"] * 1e-3 / mine if peer in row else None


def run_worker(options, python, library, threads, rows):
    """Fills the rows in and returns the peaks."""
    environment = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = str(threads)
    command = [python, "-W", "ignore", ROOT / "bench" / "cpu_worker.py", library, str(options.seconds)]
    command += [json.dumps(row) for row in rows]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        peaks = dict(json.loads(worker.stdout.readline()), type=rows[0]["type"])
        for row, line in zip(rows, worker.stdout):
            row.update(json.loads(line), threads=threads)
            judge(row, peaks)
            print(table_line(row), flush=True)
    if worker.returncode != 0:
        sys.exit(f"the worker with {threads} threads failed")
    return peaks


HEADER = ("shape", "type", "threads", "kernel", "ms", "GFLOP/s", "GB/s of K, V", "of peak", "PyTorch ms",
          "PyTorch / us", "naive / us")


def table_line(row):
    cells = [row["name"], row["type"], str(row["threads"]), row["kernel"] or "-"]
    if "flashcore" not in row:
        return "| " + " | ".join([*cells, row["left_out"]]) + " |"
    ratio = lambda peer: f"{row[peer + '_ratio']:.2f}" if row[peer + "_ratio"] else "-"
    cells += [f"{row['flashcore']['p50_ms']:.3f}", f"{row['gflops']:.1f}",
              f"{row['kv_gigabytes_per_second']:.1f}", f"{100 * row['peak_share']:.0f} %",
              f"{row['pytorch']['p50_ms']:.3f}" if "pytorch" in row else "-", ratio("pytorch"), ratio("naive")]
    return "| " + " | ".join(cells) + " |"


def processor():
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", help="the Python whose PyTorch is timed")
    parser.add_argument("--threads", default="1,all", help="numbers, or all; default 1,all")
    parser.add_argument("--types", default=",".join(TYPES), help="default f32,f16,bf16")
    parser.add_argument("--only", default="*", help="shapes by a pattern: " + ", ".join(s["name"] for s in SHAPES))
    parser.add_argument("--seconds", type=float, default=1, help="of each contender in a row; default 1")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench-cpu.json")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build folder")
    return parser.parse_args()


def main():
    options = parse_options()
    everyone = len(os.sched_getaffinity(0))
    counts = [everyone if n == "all" else int(n) for n in options.threads.split(",")]
    wanted = [s for s in SHAPES if fnmatch.fnmatch(s["name"], options.only)]
    if not wanted:
        sys.exit(f"--only {options.only}: no shape has such a name")
    library, python = build(options.build), choose_python(options.python)
    report = {"when": datetime.datetime.now().isoformat(timespec="seconds"), "processor": processor(),
              "peaks": [], "rows": []}
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for threads in dict.fromkeys(counts):
        for kind in options.types.split(","):
            rows = [dict(s, type=kind) for s in wanted]
            report["peaks"].append(run_worker(options, python, library, threads, rows))
            report["rows"] += rows
    for peaks in report["peaks"]:
        print(f"\n{report['processor']}, {peaks['threads']} threads, {peaks['type']}: "
              f"{peaks['peak_flops'] * 1e-9:.1f} GFLOP/s of f32 multiply-adds, "
              f"{peaks['peak_bandwidth'] * 1e-9:.1f} GB/s read; PyTorch {peaks['pytorch']}", end="")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n\nwritten: {options.json}")


if __name__ == "__main__":
    main()
