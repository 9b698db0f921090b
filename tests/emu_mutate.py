#!/usr/bin/env python3
"""Proves that the emulator catches things: breaks a CUDA kernel in every way that
tests/emu_mutations.ini lists, one at a time, and expects `flashcore check --backend emu` to say so,
or, where the answer stays right but costs more than it should, a test of the counts.

A section is one breakage:

    kernel  of `flashcore kernels`
    file    below src/cuda, the one that is broken; the kernel's own unless said
    old     text of that file, found exactly once (or `count` times, when given); the indentation
            of its lines does not matter
    new     what replaces it
    says    a regular expression that the reason of the failure must match
    case    of the case list; CASE unless said
    variant how the name of the variant begins that is broken; the kernel's first for head dimension
            64 unless said
    test    of emu_sm80_counts_test.py or the like, which is run in place of a case

The broken kernel is compiled alone and takes the place of the whole one. Unbroken, every kernel
must pass. Where neither names nor --all are given, every fifth breakage is tried, and of the others
whether the old text is still there.
"""

import argparse
import concurrent.futures
import configparser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from breakage import Failure, call, report

TESTS = pathlib.Path(__file__).resolve().parent
CUDA = TESTS.parent / "src" / "cuda"
# Several tiles of keys, the last not full, and rows that end within a warp.
CASE = "plain-q100-kv257-d64-f16"
SECONDS = 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--flashcore", required=True)
    parser.add_argument("--emulator", required=True, help="libflashcore_emu.so")
    parser.add_argument("--compiler", required=True, help="compiler and flags, separated by ;")
    parser.add_argument("--all", action="store_true", help="try all breakages")
    parser.add_argument("names", nargs="*", help="breakages to try; every fifth when none is named")
    return parser.parse_args()


def read_mutations(names):
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.read(TESTS / "emu_mutations.ini", encoding="utf-8")
    unknown = set(names) - set(parser.sections())
    assert not unknown, f"no such breakage: {unknown}"
    return {name: parser[name] for name in parser.sections() if not names or name in names}


def variant_of(beginning):
    """Name, file and macros of the first variant whose name begins so."""
    for line in (CUDA / "variants.txt").read_text(encoding="utf-8").splitlines():
        columns = [column.strip() for column in line.split("|")]
        if columns[0].startswith(beginning):
            return columns[0], columns[1], columns[4].split()
    raise Failure(f"src/cuda/variants.txt has no {beginning}")


def break_text(text, mutation):
    """The pattern is the old text with any space between its lines."""
    lines = [re.escape(line.strip()) for line in mutation["old"].strip().splitlines()]
    pattern = r"\s*".join(lines)
    count = mutation.getint("count", fallback=1)
    broken, found = re.subn(pattern, lambda _: mutation["new"], text)
    if found != count:
        raise Failure(f"the old text is there {found} times, not {count}: the list is out of date")
    return broken


def read_broken(mutation):
    """The variant, the file that is broken, and its text then."""
    variant = variant_of(mutation.get("variant", f"{mutation['kernel']}_d64"))
    file = mutation.get("file", variant[1])
    return variant, file, break_text((CUDA / file).read_text(encoding="utf-8"), mutation)


def look(mutation):
    read_broken(mutation)
    return "could be tried"


def build(options, folder, mutation):
    (name, source, macros), file, text = read_broken(mutation)
    # Under the same name in a folder that is searched first: it takes the whole one's place, and
    # reports name it alike.
    broken = folder / file
    broken.parent.mkdir()
    broken.write_text(text, encoding="utf-8")
    library = folder / "broken.so"
    compiler, *flags = options.compiler.split(";")
    call(compiler, f"-I{folder}", *flags, f"-DKERNEL_NAME={name}", *(f"-D{m}" for m in macros),
         "-c", str(broken if file == source else CUDA / source), "-o", str(folder / "broken.o"))
    emulator = pathlib.Path(options.emulator)
    call("cc", "-shared", "-Wl,-Bsymbolic", "-o", str(library), str(folder / "broken.o"),
         str(emulator), f"-Wl,-rpath,{emulator.parent}", "-lm")
    return library


def run(options, library, *command):
    environment = {**os.environ, "FLASHCORE": options.flashcore, "FLASHCORE_EMU": options.emulator}
    if library:
        environment["FLASHCORE_EMU_KERNELS"] = str(library)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS,
                          env=environment)


def check(options, kernel, case, library=None):
    """What the case failed of; nothing when it passed."""
    done = run(options, library, options.flashcore, "check", "--backend", "emu", "--kernel", kernel,
               "--case", case, "--json")
    if not done.stdout:
        raise Failure(f"no result: {done.stderr}")
    result = json.loads(done.stdout)["results"][0]
    if result["outcome"] not in ("passed", "failed"):
        raise Failure(f"{case} was not run: {result['reason']}")
    return result["reason"] if result["outcome"] == "failed" else ""


def count(options, kernel, test, library):
    """What a test of the counts failed of; nothing when it passed."""
    family = kernel.partition("_")[0]
    done = run(options, library, sys.executable, "-B", str(TESTS / f"emu_{family}_counts_test.py"), "-f",
               f"{family.capitalize()}CountsTest.{test}")
    said = re.search(r"^(FAIL: .*?)\n-----(?:.*?)^(AssertionError: .*?)$", done.stderr,
                     re.MULTILINE | re.DOTALL)
    if done.returncode and not said:
        raise Failure(f"{test} does not run: {done.stderr}")
    return " ".join(said.groups()) if said else ""


def try_mutation(options, mutation):
    with tempfile.TemporaryDirectory() as folder:
        library = build(options, pathlib.Path(folder), mutation)
        if "test" in mutation:
            if check(options, mutation["kernel"], CASE, library):
                raise Failure("gives a wrong answer, where only the cost should be wrong")
            reason = count(options, mutation["kernel"], mutation["test"], library)
        else:
            reason = check(options, mutation["kernel"], mutation.get("case", CASE), library)
    if not reason:
        raise Failure("was not caught")
    if not re.search(mutation["says"], reason):
        raise Failure(f"was caught, but says '{reason}'")
    return reason


def try_unbroken(options, kernel):
    reason = check(options, kernel, CASE)
    if reason:
        raise Failure(f"fails without any breakage: {reason}")
    return "passes"


def main():
    options = arguments()
    mutations = read_mutations(options.names)
    tried = dict(list(mutations.items())[:: 1 if options.all or options.names else 5])
    kernels = sorted({m["kernel"] for m in mutations.values()})
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        failed = report({f"unbroken {k}": pool.submit(try_unbroken, options, k) for k in kernels})
        failed += report({n: pool.submit(try_mutation, options, m) for n, m in tried.items()})
        failed += report({n: pool.submit(look, m) for n, m in mutations.items() if n not in tried})
    print(f"{len(tried)} of {len(mutations)} breakages tried, {failed} failures")
    sys.exit(failed != 0)


main()
