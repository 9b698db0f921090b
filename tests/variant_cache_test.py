#!/usr/bin/env python3
"""cmake/build_variant.cmake: builds share a compiled kernel exactly when all that it is made of is
the same. The compiler is a script that counts its calls."""

import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "cmake/build_variant.cmake"

COMPILER = """#!/bin/sh
echo "release $(cat {root}/version)"
case "$*" in
--version) exit 0 ;;
esac
echo "$*" >> {root}/calls
for output; do :; done # nvcc's is the last word, fatbinary's the first
case $1 in
--create=*) output=${{1#--create=}} ;;
esac
echo "binary of $*" > "$output"
"""


class VariantCacheTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("version", "1")
        self.write("sources/some/kernel.cu", '#include "used.cuh"\n')
        self.write("sources/used.cuh", '#include "deeper.h"\n')
        self.write("sources/deeper.h", '#include "used.cuh"\n')
        self.write("sources/unused.cuh", "")
        compiler = self.write("nvcc", COMPILER.format(root=self.root))
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def calls(self):
        calls = self.root / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def build(self, output="one", cache="cache", **changes):
        """How often a tool was called: for PTX, for machine code, and for the fat binary."""
        values = {"NAME": "k", "MACROS": "HEAD_DIM=64 STAGES=2", "TARGETS": "sm_80 compute_80", **changes}
        values |= {name: self.root / "nvcc" for name in ("NVCC", "FATBINARY")}
        values |= {"CUDA_SOURCES": self.root / "sources", "FILE": "some/kernel.cu"}
        values |= {"OUTPUT": self.root / output, "CACHE": self.root / cache if cache else ""}
        values["OUTPUT"].mkdir(exist_ok=True)
        before = self.calls()
        words = [f"-D{name}={value}" for name, value in values.items()]
        subprocess.run(["cmake", *words, "-P", SCRIPT], check=True, stdout=subprocess.DEVNULL)
        self.assertTrue((values["OUTPUT"] / f"{values['NAME']}.fatbin").exists())
        self.assertTrue((values["OUTPUT"] / f"{values['NAME']}.sm_80.log").exists())
        return self.calls() - before

    def test_a_second_build_takes_what_the_first_has_made(self):
        self.assertEqual(self.build("one"), 3)
        self.assertEqual(self.build("two"), 0)
        for file in (self.root / "one").iterdir():
            self.assertEqual(file.read_bytes(), (self.root / "two" / file.name).read_bytes())
        self.assertEqual(self.build(cache=""), 3)
        self.assertEqual(len(list((self.root / "cache").iterdir())), 1)

    def test_whatever_it_is_made_of_makes_it_anew(self):
        self.build()
        self.write("sources/unused.cuh", "// changed")
        self.assertEqual(self.build(), 0)
        for name in ("some/kernel.cu", "used.cuh", "deeper.h"):
            path = self.root / "sources" / name
            path.write_text(path.read_text() + "// changed")
            self.assertEqual(self.build(), 3, name)
        self.assertEqual(self.build(MACROS="HEAD_DIM=64 STAGES=3"), 3)
        self.assertEqual(self.build(NAME="other"), 3)
        self.assertEqual(self.build(TARGETS="sm_80 sm_90"), 4)
        self.write("version", "2")
        self.assertEqual(self.build(), 3)
        self.assertEqual(self.build(), 0)

    def test_machine_code_is_made_of_the_ptx_that_is_built_in(self):
        self.assertEqual(self.build(TARGETS="sm_80"), 3)
        self.assertEqual(self.build(TARGETS="sm_80 compute_80"), 3)
        self.assertEqual(self.build(TARGETS="sm_80 sm_90 compute_80"), 4)
        self.assertTrue((self.root / "one/k.sm_90.log").exists())

    def test_ptx_that_is_built_in_is_the_oldest_target_s_in_whatever_order(self):
        self.assertEqual(self.build(TARGETS="sm_90 sm_80 compute_80"), 4)
        self.assertTrue((self.root / "one/k.compute_80.ptx").exists())
        self.assertFalse((self.root / "one/k.compute_90.ptx").exists())

    def test_each_target_has_its_ptx_where_a_source_asks_which_it_is(self):
        self.write("sources/deeper.h", "#if __CUDA_ARCH__ >= 900\n#endif\n")
        self.assertEqual(self.build(TARGETS="sm_80 compute_80"), 3)
        self.assertEqual(self.build(TARGETS="sm_80 sm_90 compute_80"), 5)

    def test_a_warning_is_an_error_where_asked_of_one_and_the_same_binary(self):
        self.build(STRICT="ON")
        strict = ["-Werror=all-warnings" in call.split() for call in (self.root / "calls").read_text().splitlines()]
        self.assertEqual(strict, [True, False, False])
        self.assertEqual(self.build(STRICT="OFF"), 0)
        self.assertEqual(self.build(NAME="other", STRICT="OFF"), 3)
        self.assertEqual((self.root / "calls").read_text().count("-Werror"), 1)

    def test_what_changed_while_it_was_compiled_is_not_shared(self):
        compiler = self.root / "nvcc"
        source = self.root / "sources/deeper.h"
        compiler.write_text(compiler.read_text() + f"echo '// changed' >> {source}\n")
        self.assertEqual(self.build(), 3)
        self.assertFalse((self.root / "cache").exists())

    def test_a_result_is_newer_than_its_sources(self):
        self.build("one")
        source = self.write("sources/unused.cuh", "// changed")
        self.build("two")
        fatbin = self.root / "two/k.fatbin"
        self.assertGreaterEqual(fatbin.stat().st_mtime_ns, source.stat().st_mtime_ns)


if __name__ == "__main__":
    unittest.main()
