#!/usr/bin/env python3
"""`flashcore tune` without a GPU: the search, the compiler's word, interrupt and resumption, the page."""

import json
import math
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cli_tools import FLASHCORE, flashcore

KERNEL = ["--backend", "emu", "--kernel", "ladder_swizzle", "--shape", "1,1,64,64"]
HOPPER = {kernel: ["--backend", "emu", "--kernel", kernel, "--shape", "1,1,256,64"]
          for kernel in ("sm90_prefill", "sm90_latency")}
STORED = ["--backend", "cuda", "--kernel", "ladder_swizzle", "--shape", "1,1,64,64", "--macro", "KV_TILE=32"]
CPU = ["--shape", "1,2,16,8", "--seconds", "0.01"]
INFO = flashcore("info").stdout
HAS_CUDA = "no CUDA" not in INFO
HAS_EMULATOR = flashcore("kernels", "--backend", "emu").returncode == 0


@unittest.skipUnless(HAS_CUDA, "this build has no CUDA part")
class TuneTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.cache.cleanup()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.file = Path(self.directory.name) / "search.json"

    def tearDown(self):
        self.directory.cleanup()

    def tune(self, *words):
        return flashcore("tune", self.file, *words, cwd=self.directory.name,
                         environment={"FLASHCORE_CACHE": self.cache.name})

    def succeed(self, *words):
        result = self.tune(*words)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def refuse(self, status, *words):
        result = self.tune(*words)
        self.assertEqual(result.returncode, status, result.stdout)
        self.assertRegex(result.stderr, r"\Aflashcore: .*\n\Z")
        return result.stderr

    def search(self):
        return json.loads(self.file.read_text())

    def candidates(self):
        return {candidate["text"]: candidate for candidate in self.search()["candidates"]}

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_candidates_are_compiled_pruned_and_counted(self):
        text = self.succeed(*KERNEL, "--macro", "KV_TILE=24,32,64 STAGES=2,16", "--gpu", "H100")
        found = self.candidates()
        self.assertEqual(len(found), 7)
        self.assertEqual(found["KV_TILE=24 STAGES=2"]["outcome"], "refused")
        self.assertEqual(found["KV_TILE=64 STAGES=16"]["outcome"], "pruned")
        self.assertIn("bytes of shared memory", found["KV_TILE=64 STAGES=16"]["reason"])
        for name in ("as built", "KV_TILE=32 STAGES=2", "KV_TILE=64 STAGES=2"):
            self.assertEqual(found[name]["outcome"], "timed", found[name])
            self.assertGreater(found[name]["p50_us"], 0)
            self.assertGreater(found[name]["registers"], 60)
        self.assertLess(found["KV_TILE=32 STAGES=2"]["shared_bytes"], found["KV_TILE=64 STAGES=2"]["shared_bytes"])
        self.assertIn("7 candidates, 2 refused by the compiler, 1 pruned", text)
        self.assertIn("shared memory of an H100 are busy", text)
        self.assertIn("24: none", text)
        self.assertEqual(self.succeed("--show"), text)
        page = flashcore("report", self.file, "--out", Path(self.directory.name) / "page.html")
        self.assertEqual(page.returncode, 0, page.stderr)
        self.assertIn("Tuning landscape", (Path(self.directory.name) / "page.html").read_text())

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_counts_are_those_of_the_variant(self):
        """As built it has tiles of 64 keys and three stages: the same macros give the same counts."""
        self.succeed(*KERNEL, "--macro", "KV_TILE=32,64")
        found = self.candidates()
        self.assertEqual(found["KV_TILE=64"]["p50_us"], found["as built"]["p50_us"])
        self.assertNotEqual(found["KV_TILE=32"]["p50_us"], found["as built"]["p50_us"])

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_the_choices_of_every_kernel_that_runs_are_listed(self):
        listed = {
            "sm80_prefill": {"WARPS": "4 8", "ROW_GROUPS": "1 2", "KV_TILE": "32 64 128", "STAGES": "2 3",
                             "RESIDENT_BLOCKS": "1 2"},
            "sm90_prefill": {"KV_TILE": "64 80 96 128 176 192", "CONSUMERS": "2 3", "STAGES": "2 3", "PING_PONG": "0 1", "STAGED_PANELS": "1 2"},
            "sm90_latency": {"KV_TILE": "64 128 256", "GROUP_KEYS": "16 32 64", "PIECE": "64 128", "STAGES": "1 2 3"},
        }
        for kernel, axes in listed.items():
            text = self.succeed("--list", "--backend", "emu", "--kernel", kernel, "--shape", "1,1,256,64")
            first, *rest = text.splitlines()
            self.assertRegex(first, rf"\A{kernel}_d64_\w+: {math.prod(len(v.split()) for v in axes.values())} candidates")
            self.assertEqual(dict(line.split(maxsplit=1) for line in rest), axes)
        self.assertFalse(self.file.exists())

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_boxes_of_tensor_maps_follow_the_choice(self):
        """The host learns from the binary how many keys a box has: what it gets wrong does not run."""
        self.succeed(*HOPPER["sm90_latency"], "--macro", "PIECE=64,128 STAGES=2,8")
        found = self.candidates()
        self.assertEqual(found["PIECE=128 STAGES=2"]["p50_us"], found["as built"]["p50_us"])
        self.assertEqual(found["PIECE=64 STAGES=2"]["outcome"], "timed", found["PIECE=64 STAGES=2"])
        for piece in (64, 128):
            self.assertEqual(found[f"PIECE={piece} STAGES=8"]["outcome"], "pruned")
            self.assertIn("bytes of shared memory", found[f"PIECE={piece} STAGES=8"]["reason"])

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_tiles_of_hopper_follow_the_choice(self):
        self.succeed(*HOPPER["sm90_prefill"], "--macro", "KV_TILE=80,72 CONSUMERS=3")
        found = self.candidates()
        self.assertEqual(found["KV_TILE=80 CONSUMERS=3"]["outcome"], "timed", found["KV_TILE=80 CONSUMERS=3"])
        self.assertNotEqual(found["KV_TILE=80 CONSUMERS=3"]["p50_us"], found["as built"]["p50_us"])
        self.assertEqual(found["KV_TILE=72 CONSUMERS=3"]["outcome"], "refused")

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_a_group_of_keys_larger_than_a_piece_is_refused(self):
        self.succeed(*HOPPER["sm90_latency"], "--macro", "PIECE=64 GROUP_KEYS=128")
        self.assertIn("whole groups of keys", self.candidates()["PIECE=64 GROUP_KEYS=128"]["reason"])

    def tune_as_on_a_gpu(self, seconds):
        """With the emulator as the GPU, which times nothing: times of earlier runs, by candidate, have to do."""
        search = self.search()
        for candidate in search["candidates"]:
            p50 = seconds[candidate["text"]]
            candidate.update(outcome="timed", rounds=3, p10_us=p50, p50_us=p50, p90_us=p50)
        self.file.write_text(json.dumps(search))
        return flashcore("tune", self.file, *STORED, cwd=self.directory.name, environment=self.as_gpu)

    @unittest.skipUnless(HAS_EMULATOR, "this build has no emulator")
    def test_a_winner_is_kept_for_its_gpu_and_problem(self):
        emulator = Path(FLASHCORE).resolve().parent.parent / "emu" / "libflashcore_emu.so"
        self.as_gpu = {"FLASHCORE_CACHE": self.cache.name, "FLASHCORE_CUDA_DRIVER": str(emulator)}
        first = flashcore("tune", self.file, *STORED, cwd=self.directory.name, environment=self.as_gpu)
        self.assertEqual(first.returncode, 1, first.stdout)
        kept = Path(self.directory.name) / "flashcore-tuned.txt"
        built_wins = {"as built": 5, "KV_TILE=32": 10}
        self.assertEqual(self.tune_as_on_a_gpu(built_wins).returncode, 0)
        self.assertFalse(kept.exists())
        other = "other GPU | ladder_swizzle_d64 | bh1 q64 kv64 | KV_TILE=16 | by hand\n"
        kept.write_text(other)
        wins = self.tune_as_on_a_gpu({"as built": 10, "KV_TILE=32": 5})
        self.assertEqual((wins.returncode, wins.stderr), (0, ""))
        self.assertIn("kept in flashcore-tuned.txt", wins.stdout)
        bucket = self.search()["bucket"]
        row = f"emulated GPU (sm_90) | ladder_swizzle_d64 | {bucket} | KV_TILE=32 | 5 us, as built 10 us, best of 2\n"
        self.assertEqual(kept.read_text(), other + row)
        self.assertEqual(self.tune_as_on_a_gpu(built_wins).returncode, 0)
        self.assertEqual(kept.read_text(), other)

    def test_a_search_goes_on_where_it_was(self):
        self.succeed(*CPU)
        search = self.search()
        known, waiting = search["candidates"][1], search["candidates"][2]
        known.update(rounds=3, p10_us=1e-3, p50_us=1e-3, p90_us=1e-3)
        waiting.update(outcome="waiting")
        self.file.write_text(json.dumps(search))
        text = self.succeed(*CPU)
        count = len(search["candidates"])
        self.assertIn(f"going on, {count - 1} of {count} candidates are known", text)
        self.assertEqual(self.candidates()[known["text"]]["p50_us"], 1e-3)
        self.assertEqual(self.candidates()[waiting["text"]]["outcome"], "timed")
        self.assertIn(f"best: {known['text']}, 0.001 us", text)

    def test_fewer_candidates_come_further(self):
        self.succeed(*CPU)
        rounds = [candidate["rounds"] for candidate in self.search()["candidates"]]
        self.assertEqual(rounds[0], 3)
        self.assertEqual(max(rounds), 3)

    def test_an_interrupt_loses_nothing(self):
        environment = {**os.environ, "FLASHCORE_CACHE": self.cache.name}
        process = subprocess.Popen([FLASHCORE, "tune", self.file, "--shape", "1,8,256,64", "--seconds", "20"],
                                   env=environment, stdout=subprocess.PIPE, text=True)
        while not self.file.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate()
        self.assertEqual(process.returncode, 130, stdout)
        self.assertIn("the same command goes on from", stdout)
        search = self.search()
        self.assertTrue(search["interrupted"])
        outcomes = [candidate["outcome"] for candidate in search["candidates"]]
        self.assertNotIn("failed", outcomes)
        self.assertIn("timed", outcomes)
        self.assertIn("waiting", outcomes)

    def test_bad_input_is_named(self):
        self.file.write_text('{"verb": "tune", "candidates": []}')
        self.assertIn("holds another search", self.refuse(1, *CPU))
        self.assertIn("holds no search", self.refuse(1, "--show"))
        self.file.unlink()
        self.assertIn("cannot read", self.refuse(1, "--show"))
        self.assertIn("head_dim = 577", self.refuse(1, "--head-dim", "577"))
        if HAS_EMULATOR:
            self.assertIn("has no macro NOBODY", self.refuse(1, *KERNEL, "--macro", "NOBODY=1"))
            self.assertIn("is not NAME=VALUE,VALUE", self.refuse(1, *KERNEL, "--macro", "KV_TILE"))
            self.assertIn("no peaks of 'Voodoo'", self.refuse(1, *KERNEL, "--gpu", "Voodoo"))
            fused = ["--backend", "emu", "--kernel", "ladder_fused", "--shape", "1,1,64,64"]
            self.assertIn("no choices are listed for ladder/fused.cu", self.refuse(1, *fused))

    def test_without_a_gpu_the_sentence_says_why(self):
        result = flashcore("tune", self.file, "--backend", "cuda", environment={"FLASHCORE_CUDA_DRIVER": "/no/driver"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("the CUDA driver cannot be opened", result.stderr)


if __name__ == "__main__":
    unittest.main()
