#!/usr/bin/env python3
"""A row whose scores outgrow 16-bit weights is computed another way; its neighbours in the tile keep
their bits. And a row of one key is that key's value, whatever its score."""

import random
import tempfile
import unittest
from pathlib import Path

from cli_tools import flashcore, read_npy, write_npy

ROWS, DIM = 200, 64
STRANGE_ROW = 70
STRONG_KEY = 150  # far behind a row's first keys
Q_LARGE, K_LARGE = 48, 4  # a logit of 24, where 11 are 2^16
Q_GROWING = 20  # one of 10: a weight of 2^14 or less, which another way would make smaller


class RowsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        numbers = random.Random(11)
        self.q, self.k, self.v = (
            [[numbers.randint(-12, 12) / 8 for _ in range(DIM)] for _ in range(ROWS)]
            for _ in range(3))
        for row, key in zip(self.q, self.k):
            row[0], key[0] = Q_GROWING, 0
        self.k[STRONG_KEY][0] = K_LARGE

    def attend(self, kernel, *words):
        """out and lse, row by row."""
        for name, rows in (("q", self.q), ("k", self.k), ("v", self.v)):
            write_npy(self.dir / f"{name}.npy", "<f2", (1, 1, len(rows), DIM), sum(rows, []))
        done = flashcore("run", self.dir, "--backend", "emu", "--kernel", kernel, *words, "--lse",
                         self.dir / "lse.npy")
        self.assertEqual(done.returncode, 0, done.stderr)
        out, lse = (read_npy(self.dir / f"{name}.npy")[2] for name in ("out", "lse"))
        return [(out[i * DIM : (i + 1) * DIM], lse[i]) for i in range(len(self.q))]

    def test_neighbours_keep_their_bits(self):
        for kernel in ("sm80_prefill", "sm90_prefill"):
            for words in ((), ("--causal",)):
                with self.subTest(kernel=kernel, words=words):
                    self.q[STRANGE_ROW] = [0] * DIM
                    before = self.attend(kernel, *words)
                    self.q[STRANGE_ROW] = [Q_LARGE] + [0] * (DIM - 1)
                    after = self.attend(kernel, *words)
                    self.assertEqual(before[:STRANGE_ROW], after[:STRANGE_ROW])
                    self.assertEqual(before[STRANGE_ROW + 1 :], after[STRANGE_ROW + 1 :])
                    self.check_strange_row(after[STRANGE_ROW], sees_strong_key=not words)

    def test_a_row_of_one_key_is_its_value(self):
        """One tile of keys, of which the first row sees one."""
        self.q, self.k, self.v = (rows[:100] for rows in (self.q, self.k, self.v))
        self.k[0] = [-1] + [0] * (DIM - 1)
        for logit in (0, -3, -4.25, -5.5, -6, -8, -40):
            with self.subTest(logit=logit):
                self.q[0] = [-8 * logit] + [0] * (DIM - 1)
                out, lse = self.attend("sm90_latency", "--causal")[0]
                self.assertEqual(list(out), self.v[0])
                self.assertAlmostEqual(lse, logit, delta=1e-5)

    def check_strange_row(self, row, sees_strong_key):
        """It looks at nothing but the strong key, or, where that is hidden, at all alike."""
        out, lse = row
        keys = [STRONG_KEY] if sees_strong_key else range(STRANGE_ROW + 1)
        for dim in range(DIM):
            expected = sum(self.v[key][dim] for key in keys) / len(keys)
            self.assertAlmostEqual(out[dim], expected, delta=1e-3)
        if sees_strong_key:
            self.assertAlmostEqual(lse, Q_LARGE * K_LARGE / 8, delta=1e-3)


if __name__ == "__main__":
    unittest.main()
