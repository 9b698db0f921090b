#!/usr/bin/env python3
"""`flashcore emu --compare` without a GPU: what it says of itself; and with the emulator as the GPU,
which then agrees with itself to the bit."""

import unittest
from pathlib import Path

from cli_tools import FLASHCORE, flashcore

EMULATOR = Path(FLASHCORE).resolve().parent.parent / "emu" / "libflashcore_emu.so"


class CompareTest(unittest.TestCase):
    def compare(self, *words, driver=EMULATOR):
        return flashcore("emu", "--compare", "--sample", "3", *words, environment={"FLASHCORE_CUDA_DRIVER": str(driver)})

    def refuse(self, sentence, *words, driver=EMULATOR):
        result = self.compare(*words, driver=driver)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, rf"\Aflashcore: [^\n]*{sentence}[^\n]*\n\Z")

    def test_the_emulator_agrees_with_itself(self):
        result = self.compare("--kernel", "sm80_latency")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        # kernel, cases, failed, same bits, difference, steps
        self.assertRegex(result.stdout, r"\nsm80_latency +3 +0 +3 +0 +0\.00 ")

    def test_without_a_gpu_nothing_is_emulated(self):
        self.refuse("there is no CUDA device", driver="/no/driver")

    def test_other_kernels_are_refused(self):
        self.refuse("there is no kernel 'nope'", "--kernel", "nope")
        self.refuse("cpu_plain_prefill is no CUDA kernel", "--kernel", "cpu_plain_prefill")


if __name__ == "__main__":
    unittest.main()
