#!/usr/bin/env python3
"""Proves that the tests of the reference and of the CPU's backward kernel can fail: breaks them in
every way that tests/mutations lists, one at a time, and expects the named test to say so.

A section of an .ini file there is one breakage:

    file   below src/
    old    text of that file, found exactly once (or `count` times, when given)
    new    what replaces it
    test   program and test that must fail
    says   part of the message it must fail with

The broken source is compiled anew (a CPU kernel for plain vectors, without OpenMP) and linked before
the library's archive, so that the linker takes nothing of the whole one. Unbroken, every program
must pass.
"""

import argparse
import concurrent.futures
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from breakage import Failure, call, report

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent
HELPERS = ("elements", "fixture", "tables", "table_reader")
SECONDS_PER_PROGRAM = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--archive", required=True, help="libflashcore.a")
    parser.add_argument("--lab", required=True, help="libflashcore_lab.a")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--libraries", default="-lcmocka -lm -lpthread",
                        help="what the archive and the tests need")
    parser.add_argument("names", nargs="*", help="breakages to try; all when none is named")
    return parser.parse_args()


def read_mutations(names):
    mutations = {}
    for path in sorted(TESTS.glob("mutations/*.ini")):
        parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
        parser.read(path, encoding="utf-8")
        for section in parser.sections():
            assert section not in mutations, f"{section} stands twice"
            mutations[section] = dict(parser[section])
    unknown = set(names) - set(mutations)
    assert not unknown, f"no such breakage: {unknown}"
    return {name: m for name, m in mutations.items() if not names or name in names}


class Builder:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def compile(self, source, into, include):
        # Not optimised: these programs are compiled more often than they run.
        call(self.options.cc, "-std=c17", "-O0", "-D_XOPEN_SOURCE=700", "-DFC_CPU_ISA=plain",
             f"-I{ROOT / 'include'}", f"-I{ROOT / 'lab'}", f"-I{include}", "-c", str(source), "-o",
             str(into))
        return str(into)

    def compile_tests(self, programs):
        """Every source once; returns nothing, the objects are found by name."""
        for name in (*HELPERS, *programs):
            self.compile(TESTS / f"{name}.c", self.folder / f"{name}.o", TESTS)

    def build(self, program, tree, broken):
        """The program with the broken file of a tree of sources; a header breaks all that may
        include it."""
        if broken.parent.name == "cpu":
            sources = [tree / "cpu" / "backward.c"]
        else:
            sources = [broken] if broken.suffix == ".c" else tree.glob("reference/*.c")
        parts = [self.compile(s, s.with_suffix(".o"), tree) for s in sources]
        tests = [str(self.folder / f"{name}.o") for name in (program, *HELPERS)]
        binary = tree / program
        call(self.options.cc, "-o", str(binary), *tests, *parts, self.options.lab,
             self.options.archive, *self.options.libraries.split())
        return binary

    def tree(self, name):
        tree = self.folder / name
        shutil.copytree(ROOT / "src", tree)
        return tree


def run(binary):
    """Its exit status, and its failed tests with what they said."""
    command = [str(binary)]
    if binary.name == "test_tables":
        command.append(str(TESTS / "data" / "tables.txt"))
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "STDOUT"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, check=False, timeout=SECONDS_PER_PROGRAM)
    failures = {}
    for part in done.stdout.split("[ RUN      ] ")[1:]:
        name, said = part.split("\n", maxsplit=1)
        if f"[  FAILED  ] {name}\n" in said:
            failures[name] = " ".join(re.findall("^ERROR: (.*)", said, re.MULTILINE))
    return done.returncode, failures


def break_file(tree, mutation):
    path = tree / mutation["file"]
    text, count = path.read_text(encoding="utf-8"), int(mutation.get("count", 1))
    found = text.count(mutation["old"])
    if found != count:
        raise Failure(f"src/{mutation['file']} has '{mutation['old']}' {found} times, not {count}:"
                      " the list in tests/mutations is out of date")
    path.write_text(text.replace(mutation["old"], mutation["new"]), encoding="utf-8")
    return path


def try_mutation(builder, name, mutation):
    program, test = mutation["test"].split()
    tree = builder.tree(name)
    _, failures = run(builder.build(program, tree, break_file(tree, mutation)))
    if test not in failures:
        raise Failure(f"{test} of {program} did not fail; failed: {sorted(failures) or 'none'}")
    if mutation["says"] not in failures[test]:
        raise Failure(f"{test} failed, but says '{failures[test]}'")
    return failures[test]


def try_unbroken(builder, program):
    tree = builder.tree(f"unbroken_{program}")
    whole = "cpu/backward.c" if program == "test_cpu_backward" else "reference/row.h"
    status, failures = run(builder.build(program, tree, tree / whole))
    if status or failures:
        raise Failure(f"fails without any breakage, status {status}: {failures}")
    return "passes"


def main():
    options = arguments()
    mutations = read_mutations(options.names)
    programs = sorted({m["test"].split()[0] for m in mutations.values()})
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(
        max_workers=os.cpu_count()
    ) as pool:
        builder = Builder(options, folder)
        builder.compile_tests(programs)
        failed = report({f"unbroken {p}": pool.submit(try_unbroken, builder, p) for p in programs})
        if failed == 0:
            failed = report({n: pool.submit(try_mutation, builder, n, m)
                             for n, m in mutations.items()})
            print(f"{len(mutations) - failed} of {len(mutations)} breakages are caught")
    sys.exit(failed != 0)


main()
