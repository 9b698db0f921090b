#!/usr/bin/env python3
"""No instruction set's code leaks into the baseline.

usage: cpu_objects_test.py OBJDUMP NM ISA=OBJECT[,OBJECT…]…

The objects of the set `baseline` must hold no instruction beyond the architecture's baseline. The
others, which do, must define nothing but names with their set in them: a shared inline function
with external linkage would let the linker take the wrong copy for everybody.
"""
import re
import subprocess
import sys

BEYOND = {
    # Registers of AVX, AVX-512 and AMX, and the VEX encodings of SSE, which AVX flags switch on.
    "x86-64": re.compile(r"%[yz]mm\d|%tmm\d|\tv[a-z0-9]+ +[^\n]*%xmm\d"),
    # FP16 arithmetic, dot products, bf16, i8mm, and SVE's registers.
    "aarch64": re.compile(
        r"\tf(?!cvt)[a-z0-9]+\tv\d+\.[48]h"
        r"|\t[su]dot\t|\tusdot\t|\tbf(?:cvt|dot|ml)[a-z0-9]*\t|\tbfmmla\t|\t(?:s|u|us)mmla\t|\tfml[as]l2?\t"
        r"|\tz\d+\.[bhsd]"
    ),
}
SAMPLES = {
    "x86-64": (["\tvaddps %ymm1,%ymm2,%ymm3", "\tvmovups %zmm1,(%rax)", "\ttdpbf16ps %tmm1,%tmm2,%tmm3",
                "\tvaddss %xmm0,%xmm1,%xmm2"],
               ["\taddps  %xmm1,%xmm2", "\tcvtss2sd %xmm0,%xmm0"]),
    "aarch64": (["\tfmla\tv0.8h, v1.8h, v2.8h", "\tfadd\tv0.4h, v1.4h, v2.4h", "\tsdot\tv0.4s, v1.16b, v2.16b",
                 "\tbfmmla\tv0.4s, v1.8h, v2.8h", "\tusmmla\tv0.4s, v1.16b, v2.16b", "\tadd\tz0.s, z1.s, z2.s",
                 "\tfmlal\tv0.4s, v1.4h, v2.4h", "\tfmlal2\tv0.4s, v1.4h, v2.h[1]"],
                ["\tfmla\tv0.4s, v1.4s, v2.4s", "\tfcvtl\tv0.4s, v1.4h", "\tadd\tv0.8h, v1.8h, v2.8h",
                 "\tfmul\ts0, s1, s2", "\tbfi\tx4, x5, #48, #16"]),
}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def architecture(objdump, path):
    text = run(objdump, "-f", path)
    return "x86-64" if "x86-64" in text else "aarch64" if "aarch64" in text else None


def check_patterns():
    for name, (beyond, baseline) in SAMPLES.items():
        for line in beyond:
            assert BEYOND[name].search(line), f"not recognised as beyond {name}: {line!r}"
        for line in baseline:
            assert not BEYOND[name].search(line), f"taken for beyond {name}: {line!r}"


# CUDA kernels and their sources, carried as data.
DATA_ONLY = ("jit_sources.c.o", "variants.c.o", "images.S.o")


def extensions(objdump, path):
    """LLVM's objdump names an instruction only where it is told that there are such."""
    if architecture(objdump, path) != "aarch64" or "LLVM" not in run(objdump, "--version"):
        return []
    return ["--mattr=+bf16,+i8mm,+fullfp16,+fp16fml,+dotprod,+sve"]


def leaks(objdump, path, pattern):
    text = run(objdump, "-d", "--no-show-raw-insn", *extensions(objdump, path), path)
    assert "Disassembly" in text or path.endswith(DATA_ONLY), f"{path} holds no code"
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


def check_baseline(objdump, path, pattern):
    found = leaks(objdump, path, pattern)
    for line in found[:3]:
        print(f"{path}: beyond the baseline: {line}")
    return not found


def check_special(objdump, nm, isa, path, pattern):
    names = [line.split()[-1] for line in run(nm, "-g", "--defined-only", path).splitlines()]
    strange = [name for name in names if not name.startswith(f"fc_cpu_{isa}_")]
    if strange:
        print(f"{path}: defines names that others could take: {', '.join(strange)}")
    # The control: what is compiled for more than the baseline shows it.
    control = isa in ("plain", "neon") or bool(leaks(objdump, path, pattern))
    if not control:
        print(f"{path}: compiled for {isa}, but nothing in it is beyond the baseline")
    return not strange and control


def main(objdump, nm, *sets):
    check_patterns()
    objects = [(isa, path) for isa, paths in (s.split("=", 1) for s in sets)
               for path in paths.split(",")]
    name = architecture(objdump, objects[0][1])
    if name is None:
        print("an architecture with plain kernels alone: nothing can leak")
        return True
    good = True
    for isa, path in objects:
        if isa in ("baseline", "plain", "neon"):
            good &= check_baseline(objdump, path, BEYOND[name])
        if isa != "baseline":
            good &= check_special(objdump, nm, isa, path, BEYOND[name])
    print(f"{len(objects)} objects of {name}")
    return good


if __name__ == "__main__":
    sys.exit(not main(*sys.argv[1:]))
