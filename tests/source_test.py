#!/usr/bin/env python3
"""--source: a kernel file of one's own gets the treatment of a built-in one; here on the emulator. The kernel
is the one that docs/lab.md tells readers to write."""

import json
import re
import tempfile
import unittest
from pathlib import Path

from cli_tools import flashcore

DOCS = Path(__file__).parent.parent / "docs" / "lab.md"
MINE = re.search("```cuda\n(.*?)```", DOCS.read_text(), re.S)[1]
HAS_EMULATOR = flashcore("kernels", "--backend", "emu").returncode == 0
CASE = ["--case", "q5-kv33-f16"]  # rows and keys that fill no block


@unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
class SourceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.file = Path(cls.directory.name) / "mine.cu"
        cls.cache = Path(cls.directory.name) / "cache"

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def run_with(self, text, verb, *words):
        self.file.write_text(text)
        environment = {"FLASHCORE_CACHE": str(self.cache)}
        return flashcore(verb, "--source", self.file, *words, environment=environment, cwd=self.directory.name)

    def check(self, text):
        result = self.run_with(text, "check", "--backend", "emu", *CASE, "--json")
        self.assertTrue(result.stdout, result.stderr)
        return json.loads(result.stdout)["results"][0]

    def broken(self, old, new):
        self.assertEqual(MINE.count(old), 1, old)
        return self.check(MINE.replace(old, new))

    def test_the_kernel_of_the_walk_through_is_right(self):
        result = self.check(MINE)
        self.assertEqual((result["outcome"], result["reason"]), ("passed", ""))
        self.assertEqual(result["kernel"], "ladder_fused")

    def test_a_kernel_that_is_wrong_fails(self):
        for old, new, sentence in (
            ("key < args.kv_length", "key < args.kv_length - 1", "tolerance"),
            ("out[i] * correction", "out[i]", "expected"),
            ("row >= args.q_length", "row > args.q_length", "FC_ERROR_DRIVER"),
            ("max * LN_2 + logf(sum)", "max + logf(sum)", "lse[b"),
        ):
            result = self.broken(old, new)
            self.assertEqual(result["outcome"], "failed", new)
            self.assertIn(sentence, result["reason"])

    def test_what_it_does_is_counted(self):
        counts = {}
        for warps in (2, 4):
            text = MINE.replace("#define WARPS 4", f"#define WARPS {warps}")
            result = self.run_with(text, "emu", "--shape", "1,1,64,64", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            counts[warps] = json.loads(result.stdout)["counts"]
        self.assertEqual((counts[2]["blocks"], counts[4]["blocks"]), (32, 16))
        self.assertEqual(counts[4]["exp2"], 2 * 64 * 64 * 32)

    def test_it_can_be_tuned(self):
        result = self.run_with(MINE, "tune", "--backend", "emu", "--shape", "1,1,64,64", "--macro", "WARPS=2,4")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertIn("3 candidates, 0 refused by the compiler, 0 pruned by what it said of them, 0 failed, 3 counted",
                      result.stdout)

    def test_a_search_forgets_what_it_knew_of_other_code(self):
        words = ["tune", "--backend", "emu", "--shape", "1,1,64,64", "--macro", "WARPS=2,4", "again.json"]
        known = "going on, 3 of 3 candidates are known"
        first = self.run_with(MINE, *words)
        same = self.run_with(MINE, *words)
        self.assertIn(known, same.stdout)
        self.assertEqual(same.stdout.split("\n", 1)[1], first.stdout)
        search = Path(self.directory.name) / "again.json"
        faked = json.loads(search.read_text())
        for candidate in faked["candidates"]:
            candidate["p50_us"] = 77
        search.write_text(json.dumps(faked))
        times = lambda: {candidate["p50_us"] for candidate in json.loads(search.read_text())["candidates"]}
        self.run_with(MINE, *words)
        self.assertEqual(times(), {77})
        self.run_with(MINE.replace("float score = 0;", "float score = -0.0f;"), *words)
        self.assertNotIn(77, times())

    def test_bad_input_is_named(self):
        for text, words, sentence in (
            (MINE, ["check"], "--source is a CUDA kernel; add --backend cuda or --backend emu"),
            (MINE, ["check", "--backend", "emu", "--kernel", "nobody"], "there is no kernel 'nobody'"),
            (MINE.replace("float score = 0;", "float score = nothing;"), ["check", "--backend", "emu", *CASE],
             "(undeclared identifier 'nothing'|.nothing. was not declared)"),  # by clang, by gcc
        ):
            result = self.run_with(text, *words)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertRegex(result.stderr, sentence)
        result = flashcore("check", "--backend", "emu", "--source", "/no/file.cu")
        self.assertIn("cannot read /no/file.cu", result.stderr)

    def test_nothing_is_left_behind(self):
        before = set(Path("/tmp").glob("flashcore-*"))
        self.check(MINE)
        self.assertEqual(set(Path("/tmp").glob("flashcore-*")) - before, set())


if __name__ == "__main__":
    unittest.main()
