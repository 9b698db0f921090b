#!/usr/bin/env python3
"""Every CUDA kernel, on the emulator, against the double-precision truth.

Each kernel runs a sample of the case list, evenly spread over those that it accepts and that are
not large (`flashcore check --sample`): a few for the rungs of the ladder, more for kernels that
users get, and for these some cases that are drawn (`--random`). With --all it is the whole list and
more drawn: half an hour on two cores.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

LADDER_SAMPLE, SAMPLE = 12, 100
DRAWN, ALL_DRAWN = 40, 300
NOT_CUDA = ("cpu_", "reference")


def run(flashcore, *words):
    return subprocess.run([flashcore, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "FLASHCORE_EMU_THREADS": "1"})


def kernels_of(flashcore):
    done = run(flashcore, "kernels", "--backend", "emu", "--json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["kernels"]
    return [kernel for kernel in kernels if not kernel["name"].startswith(NOT_CUDA)]


def check(flashcore, kernel, *words):
    words = ["check", "--backend", "emu", "--kernel", kernel["name"], "--json", *words]
    if kernel["direction"] == "backward":
        words += ["--backward"]
    done = run(flashcore, *words)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def checks_of(kernel, whole):
    """What to run of it: the words that choose the cases."""
    ladder = kernel["name"].startswith("ladder_")
    sample = [] if whole else ["--sample", str(LADDER_SAMPLE if ladder else SAMPLE)]
    drawn = ["--random", str(ALL_DRAWN if whole else DRAWN)]
    return [sample] if ladder else [sample, drawn]


def verdict(name, result):
    """The line to print, and whether the kernel passed."""
    if "error" in result:
        return f"FAILED  {name}: {result['error'].strip()}", False
    lines = [f"{name}: {result['passed']} passed, {result['failed']} failed, "
             f"{result['seconds']:.1f} s"]
    lines += [f"        {case['name']}: {case['reason']}" for case in result["results"]
              if case["outcome"] == "failed"]
    good = result["failed"] == 0 and result["passed"] > 0
    return ("ok      " if good else "FAILED  ") + "\n".join(lines), good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--flashcore", required=True)
    parser.add_argument("--all", action="store_true", help="the whole case list")
    parser.add_argument("names", nargs="*", help="kernels; all when none is named")
    options = parser.parse_args()
    kernels = [k for k in kernels_of(options.flashcore)
               if not options.names or k["name"] in options.names]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [(k["name"], pool.submit(check, options.flashcore, k, *words))
                for k in kernels for words in checks_of(k, options.all)]
        for name, job in jobs:
            line, good = verdict(name, job.result())
            print(line, flush=True)
            failures += not good
    print(f"{len(kernels)} kernels, {failures} failures")
    sys.exit(failures != 0 or not kernels)


main()
