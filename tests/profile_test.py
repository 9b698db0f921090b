#!/usr/bin/env python3
"""`flashcore profile` against a stand-in for ncu that prints tables of the shape which ncu 2025.3 gave on an H200."""

import json
import stat
import sys
import tempfile
import unittest
from pathlib import Path

from cli_tools import FLASHCORE, flashcore

HAS_EMULATOR = flashcore("kernels", "--backend", "emu").returncode == 0
BUSY = ".avg.pct_of_peak_sustained_active"
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TENSOR = f"sm__pipe_tensor_cycles_active{BUSY}"
DRAM = f"dram__throughput{ELAPSED}"
WAVES = "launch__waves_per_multiprocessor"

# What the small kernel of that run gave; every number comes with its unit.
RECORDED = {
    TENSOR: ("%", "0"),
    f"sm__inst_executed_pipe_xu{BUSY}": ("%", "0.936494"),
    f"sm__pipe_fma_cycles_active{BUSY}": ("%", "0.702371"),
    f"sm__inst_issued{BUSY}": ("%", "2.926544"),
    f"l1tex__data_pipe_lsu_wavefronts_mem_shared{ELAPSED}": ("%", "0.947171"),
    f"lts__t_sectors{ELAPSED}": ("%", "0.820221"),
    DRAM: ("%", "0.040559"),
    STALLED.format("long_scoreboard"): ("inst", "41.754063"),
    STALLED.format("barrier"): ("inst", "1.790000"),
    "gpu__time_duration.sum": ("us", "2.144000"),
    "lts__t_bytes.sum": ("Kbyte", "264.832000"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("", "5,184"),
    "l1tex__data_bank_conflicts_pipe_lsu.sum": ("", "3,584"),
    "launch__registers_per_thread": ("register/thread", "16"),
    WAVES: ("", "0.06"),
}

FAKE = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    print(json.dumps(words), file=log)
if {refusal!r}:
    print({refusal!r})
    sys.exit(1)
if "--import" in words:
    print("==WARNING== a remark before the table")
    print(pathlib.Path({table!r}).read_text(), end="")
else:
    pathlib.Path(words[words.index("--export") + 1]).write_text("binary")
"""


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


def table(*launches):
    names = ["ID", "Kernel Name", "Block Size", "Grid Size", "device__attribute_display_name", *RECORDED]
    text = quoted(names) + quoted([""] * 5 + [unit for unit, _ in RECORDED.values()])
    for number, (kernel, changed) in enumerate(launches):
        values = [changed.get(name, value) for name, (_, value) in RECORDED.items()]
        text += quoted([number, kernel, "(128, 1, 1)", "(64, 8, 1)", "NVIDIA H200", *values])
    return text


class ProfileTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name)
        self.log = self.path / "log"

    def tearDown(self):
        self.directory.cleanup()

    def profile(self, text, *words, refusal=""):
        ncu = self.path / "ncu"
        (self.path / "table.csv").write_text(text)
        ncu.write_text(FAKE.format(python=sys.executable, log=str(self.log), refusal=refusal,
                                   table=str(self.path / "table.csv")))
        ncu.chmod(ncu.stat().st_mode | stat.S_IEXEC)
        return flashcore("profile", *words, self.path / "raw", environment={"FLASHCORE_NCU": str(ncu)})

    def says(self, sentence, **changed):
        names = {"tensor": TENSOR, "dram": DRAM, "waves": WAVES, "barrier": STALLED.format("barrier")}
        result = self.profile(table(("warm-up", {}), ("kernel", {names[k]: v for k, v in changed.items()})))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(sentence, result.stdout.replace("\n", " "))
        self.assertNotIn("warm-up", result.stdout)
        return result.stdout

    def test_the_busiest_unit_bounds(self):
        self.says("What bounds it: tensor cores, 85 % busy. The products themselves", tensor="85.2")
        self.says("What bounds it: DRAM, 91 % busy.", dram="91", tensor="70")

    def test_otherwise_latency_does(self):
        self.says("What bounds it: latency: the busiest unit (tensor cores) is at 41 %, and warps mostly wait for "
                  "global memory. Warps wait for global memory: start copies earlier", tensor="41", waves="2")
        self.says("warps mostly wait for a barrier", barrier="50", waves="2")

    def test_a_gpu_that_is_not_full_is_said_first(self):
        text = self.says("too few blocks: they fill 6 % of the GPU once")
        self.assertRegex(text, r"(?m)^of these by bank conflicts +3584$")
        self.assertRegex(text, r"(?m)^time +2.144 +us$")
        self.assertRegex(text, r"(?m)^waiting for global memory +41.75 +warps an issue$")

    def test_all_launches_of_the_last_call_are_shown(self):
        launches = [(name, {}) for name in ("split", "merge", "split_again", "merge_again")]
        text = self.profile(table(*launches)).stdout
        self.assertIn("split_again, grid (64, 8, 1), block (128, 1, 1) on NVIDIA H200", text)
        self.assertIn("merge_again", text)
        self.assertNotIn("merge,", text)

    def test_a_metric_that_a_gpu_lacks_is_no_number(self):
        self.assertRegex(self.says("too few blocks", tensor="n/a"), r"(?m)^tensor cores +no number")

    def test_numbers_and_raw_files_are_kept(self):
        result = self.profile(table(("a", {}), ("kernel", {TENSOR: "85"})), "--json")
        (launch,) = json.loads(result.stdout)["launches"]
        self.assertEqual((launch["kernel"], launch["busiest_unit"]), ("kernel", "tensor cores"))
        self.assertEqual(launch["metrics"]["l1tex__data_bank_conflicts_pipe_lsu.sum"], 3584)
        self.assertEqual((self.path / "raw" / "profile.ncu-rep").read_text(), "binary")
        self.assertIn("Kernel Name", (self.path / "raw" / "profile.csv").read_text())

    def test_ncu_watches_the_same_problem(self):
        self.profile(table(("a", {}), ("b", {})), "--shape", "2,4,128,64", "--causal")
        words = json.loads(self.log.read_text().splitlines()[0])
        own = words[words.index("--export") + 2 :]
        self.assertTrue(own[0].endswith("/flashcore"))
        self.assertEqual(own[1:5], ["profile", "--shape", "2,4,128,64", "--causal"])
        self.assertEqual(own[-1], "--calls")
        self.assertIn(TENSOR, words[words.index("--metrics") + 1].split(","))

    def stands_in(self, result, sentence):
        self.assertEqual(result.returncode, 1)
        self.assertIn(sentence, result.stderr)
        self.assertIn("The emulator's counts stand in for it", result.stdout)
        if HAS_EMULATOR:
            self.assertIn("mma of 16x8x16 products", result.stdout)

    def test_without_counters_it_says_what_to_do(self):
        small = ["--shape", "1,1,64,64"]
        self.stands_in(self.profile("", *small, refusal="==ERROR== ERR_NVGPUCTRPERM - The user"),
                       "NVreg_RestrictProfilingToAdminUsers=0")
        self.stands_in(self.profile("", *small, refusal="flashcore: there is no CUDA device: none"),
                       "flashcore: there is no CUDA device: none")
        self.stands_in(self.profile("", *small), "ncu ended with no numbers")
        missing = flashcore("profile", *small, self.path / "raw", environment={"FLASHCORE_NCU": "/no/ncu"})
        self.stands_in(missing, "ncu is not here: it is Nsight Compute")

    def test_the_calls_that_it_watches(self):
        emulator = Path(FLASHCORE).resolve().parent.parent / "emu" / "libflashcore_emu.so"
        if not emulator.exists():
            self.skipTest("this build has no emulator")
        words = ["profile", "--calls", "--shape", "1,1,64,64"]
        result = flashcore(*words, environment={"FLASHCORE_CUDA_DRIVER": str(emulator)})
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        result = flashcore(*words, environment={"FLASHCORE_CUDA_DRIVER": "/no/driver"})
        self.assertIn("there is no CUDA device", result.stderr)


if __name__ == "__main__":
    unittest.main()
