#!/usr/bin/env python3
"""What kernels cost, as exact numbers: `flashcore emu` on one small shape."""

import json
import os
import subprocess
import unittest

FLASHCORE = os.environ["FLASHCORE"]
ROWS, HEADS, DIM = 128, 2, 64
PRODUCTS = 2 * HEADS * ROWS * ROWS * DIM // (16 * 8 * 16)  # in mma: Q·Kᵀ and P·V, tiles full
ELEMENT_SECTORS = HEADS * ROWS * DIM * 2 // 32  # of one of Q, K, V and out


def emu(kernel, *words, environment=None):
    command = [FLASHCORE, "emu", "--kernel", kernel, "--shape", f"1,{HEADS},{ROWS},{DIM}", "--json"]
    done = subprocess.run(command + list(words), capture_output=True, text=True, check=False,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class CountsTest(unittest.TestCase):
    # Those that are meant to be tight: no product too many, no conflict, no sector half used.
    tight = ("sm80_prefill", "ladder_swizzle", "ladder_double_buffer", "ladder_three_stages",
             "ladder_registers", "ladder_specialised", "ladder_persistent")

    def test_tight_kernels_waste_nothing(self):
        for kernel in self.tight:
            with self.subTest(kernel):
                counts = emu(kernel)["counts"]
                self.assertEqual(counts["mma"], PRODUCTS)
                self.assertEqual(counts["bank_conflicts"], 0)
                self.assertEqual(counts["wasted_sectors"], 0)
                lse_sectors = HEADS * ROWS * 4 // 32
                self.assertEqual(counts["global_write_sectors"], ELEMENT_SECTORS + lse_sectors)

    def test_a_block_reads_its_rows_and_all_keys(self):
        counts = emu("ladder_swizzle")["counts"]
        blocks_of_a_head = ROWS // 64
        self.assertEqual(counts["blocks"], HEADS * blocks_of_a_head)
        self.assertEqual(counts["global_read_sectors"],
                         ELEMENT_SECTORS + 2 * blocks_of_a_head * ELEMENT_SECTORS)
        # One a weight, and one a row and tile for the correction, in each of the row's four lanes.
        tiles = ROWS // 64
        self.assertEqual(counts["exp2"], HEADS * ROWS * (ROWS + 4 * tiles))
        # A warp comes to one barrier a tile.
        self.assertEqual(counts["barriers"], HEADS * ROWS // 16 * tiles)

    def test_conflicts_and_wasted_sectors_are_seen_by_line(self):
        report = emu("ladder_tensor_both")
        self.assertGreater(report["counts"]["bank_conflicts"], 0)
        self.assertGreater(report["counts"]["wasted_sectors"], 0)
        worst = report["lines"][0]
        self.assertRegex(worst["line"], r"^tensor_both\.cu:\d+$")
        self.assertEqual(worst["memory"], "shared")
        self.assertGreater(worst["units"], worst["fewest"])

    def test_counts_do_not_depend_on_cores(self):
        one = emu("ladder_split_keys", environment={"FLASHCORE_EMU_THREADS": "1"})
        three = emu("ladder_split_keys", environment={"FLASHCORE_EMU_THREADS": "3"})
        self.assertEqual(one["counts"], three["counts"])
        self.assertEqual(one["lines"], three["lines"])

    def test_bounds_are_those_of_the_counts(self):
        report = emu("ladder_swizzle")
        for bound in report["lower_bounds"]:
            parts = [bound[name] for name in
                     ("tensor_cores_us", "exponentials_us", "shared_memory_us")]
            self.assertEqual(bound["at_least_us"], max(parts))
            self.assertTrue(bound["source"])
        # The peak that the datasheet rounds to 312 TFLOP/s.
        a100 = next(b for b in report["lower_bounds"] if b["gpu"] == "A100 SXM")
        self.assertAlmostEqual(PRODUCTS * 4096 / a100["tensor_cores_us"] * 1e-6, 312, delta=0.5)


if __name__ == "__main__":
    unittest.main()
