#!/usr/bin/env python3
"""`flashcore run`: files in, files out, and a sentence for everything that does not fit."""

import math
import os
import random
import stat
import tempfile
import unittest
from pathlib import Path

from cli_tools import WITH_LEAKS, bf16_bits, bf16_value, flashcore, read_npy, write_npy

NEVER = -math.inf


def attend(q, k, v, score=lambda h, i, j, s: s, sink=lambda h: NEVER):
    """q[h][i], k[g][j], v[g][j]: vectors. The formula of the header; lse as well."""
    group = len(q) // len(k)
    out, lse = [], []
    for h, rows in enumerate(q):
        keys, values = k[h // group], v[h // group]
        for i, row in enumerate(rows):
            scale = 1 / math.sqrt(len(row))
            scores = [
                score(h, i, j, scale * sum(a * b for a, b in zip(row, key)))
                for j, key in enumerate(keys)
            ]
            total = sum(map(math.exp, scores)) + math.exp(sink(h))
            lse.append(math.log(total) if total else NEVER)
            weights = [math.exp(s) / total if total else 0 for s in scores]
            out += [sum(w * x[d] for w, x in zip(weights, values)) for d in range(len(values[0]))]
    return out, lse


def heads(values, shape):
    """A flat [head][row][dim] list as nested ones."""
    h, s, d = shape
    return [[values[(a * s + b) * d : (a * s + b) * d + d] for b in range(s)] for a in range(h)]


class RunTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        self.random = random.Random(7)

    def numbers(self, *shape):
        """Multiples of 1/8: exact in every type but FP8."""
        return [self.random.randint(-12, 12) / 8 for _ in range(math.prod(shape))]

    def save(self, name, descr, shape, values, **options):
        write_npy(self.dir / f"{name}.npy", descr, shape, values, **options)
        return values

    def save_qkv(self, descr="<f4", q=(2, 3, 4), kv=(2, 5, 4)):
        return [
            self.save(name, descr, shape, self.numbers(*shape))
            for name, shape in (("q", q), ("k", kv), ("v", kv))
        ]

    def run_ok(self, *words):
        result = flashcore("run", self.dir, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_npy(self.dir / "out.npy")

    def refused(self, *parts, words=(), status=1):
        result = flashcore("run", self.dir, *words)
        self.assertEqual(result.returncode, status, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.dir / "out.npy").exists())

    def assert_close(self, found, expected, tolerance=2e-6):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            self.assertTrue(a == b or abs(a - b) <= tolerance, (a, b))

    # What is computed.

    def test_equal_keys_give_the_mean_of_the_values(self):
        self.save("q", "<f8", (1, 1, 2, 3), self.numbers(6))
        self.save("k", "<f8", (1, 1, 4, 3), [0.5] * 12)
        self.save("v", "<f8", (1, 1, 4, 2), [1, 10, 2, 20, 3, 30, 6, 60])
        descr, shape, out = self.run_ok("--lse", self.dir / "lse.npy")
        self.assertEqual((descr, shape), ("<f8", (1, 1, 2, 2)))
        self.assert_close(out, [3, 30, 3, 30], 1e-14)
        self.assertEqual(read_npy(self.dir / "lse.npy")[:2], ("<f4", (1, 1, 2)))

    def test_plain_attention_and_lse(self):
        q, k, v = self.save_qkv()
        out, lse = attend(heads(q, (2, 3, 4)), heads(k, (2, 5, 4)), heads(v, (2, 5, 4)))
        descr, shape, found = self.run_ok("--lse", self.dir / "lse.npy")
        self.assertEqual((descr, shape), ("<f4", (2, 3, 4)))
        self.assert_close(found, out)
        descr, shape, found = read_npy(self.dir / "lse.npy")
        self.assertEqual((descr, shape), ("<f4", (2, 3)))
        self.assert_close(found, lse)

    def test_kv_heads_come_from_the_shape(self):
        q, k, v = self.save_qkv(q=(4, 3, 4), kv=(2, 5, 4))
        expected, _ = attend(heads(q, (4, 3, 4)), heads(k, (2, 5, 4)), heads(v, (2, 5, 4)))
        self.assert_close(self.run_ok()[2], expected)

    def test_flags_reach_the_problem(self):
        q, k, v = (heads(x, s) for x, s in zip(self.save_qkv(), ((2, 3, 4), (2, 5, 4), (2, 5, 4))))
        cases = (
            (["--causal"], lambda h, i, j, s: s if j <= i + 2 else NEVER),
            (["--causal", "--top-left"], lambda h, i, j, s: s if j <= i else NEVER),
            (["--window", "1,0"], lambda h, i, j, s: s if i + 1 <= j <= i + 2 else NEVER),
            (["--window", "-1,1"], lambda h, i, j, s: s if j <= i + 3 else NEVER),
            (["--softcap", "0.5"], lambda h, i, j, s: 0.5 * math.tanh(s / 0.5)),
            (["--scale", "2"], lambda h, i, j, s: 4 * s),
            (["--scale=0.25"], lambda h, i, j, s: s / 2),
        )
        for words, score in cases:
            with self.subTest(words=words):
                self.assert_close(self.run_ok(*words)[2], attend(q, k, v, score)[0])

    def test_extra_inputs_are_found_in_the_directory(self):
        q, k, v = (heads(x, s) for x, s in zip(self.save_qkv(), ((2, 3, 4), (2, 5, 4), (2, 5, 4))))
        bias = self.save("bias", "<f4", (2, 1, 5), self.numbers(2, 1, 5))
        mask = self.save("mask", "|b1", (3, 5), [self.random.random() < 0.7 for _ in range(15)])
        slopes = self.save("alibi", "<f4", (2,), [0.5, 0.25])
        sinks = self.save("sinks", "<f4", (2,), [1, -1])

        def score(h, i, j, s):
            seen = s - slopes[h] * abs(i + 2 - j) + bias[h * 5 + j]
            return seen if mask[i * 5 + j] else NEVER

        expected, lse = attend(q, k, v, score, lambda h: sinks[h])
        self.assert_close(self.run_ok("--lse", self.dir / "lse.npy")[2], expected)
        self.assert_close(read_npy(self.dir / "lse.npy")[2], lse)

    def test_rows_before_heads(self):
        q, k, v = self.save_qkv()
        _, _, expected = self.run_ok()
        for name, values, rows in (("q", q, 3), ("k", k, 5), ("v", v, 5)):
            swapped = [
                values[(h * rows + i) * 4 + d] for i in range(rows) for h in range(2) for d in range(4)
            ]
            self.save(name, "<f4", (1, rows, 2, 4), swapped)
        _, shape, out = self.run_ok("--layout", "bshd")
        self.assertEqual(shape, (1, 3, 2, 4))
        back = [out[(i * 2 + h) * 4 + d] for h in range(2) for i in range(3) for d in range(4)]
        self.assertEqual(back, expected)

    def test_packed_sequences(self):
        q, k, v = self.save_qkv(q=(5, 2, 4), kv=(7, 2, 4))
        self.save("cu_q", "<i8", (3,), [0, 2, 5])
        self.save("cu_kv", "<i4", (3,), [0, 4, 7])
        _, shape, out = self.run_ok("--lse", self.dir / "lse.npy")
        self.assertEqual(shape, (5, 2, 4))
        self.assertEqual(read_npy(self.dir / "lse.npy")[1], (2, 5))
        for (q_from, q_to), (k_from, k_to) in (((0, 2), (0, 4)), ((2, 5), (4, 7))):
            rows = [
                [[x[(i * 2 + h) * 4 + d] for d in range(4)] for i in range(a, b)]
                for x, a, b in ((q, q_from, q_to), (k, k_from, k_to), (v, k_from, k_to))
                for h in range(2)
            ]
            expected, _ = attend(rows[:2], rows[2:4], rows[4:])
            found = [
                out[(i * 2 + h) * 4 + d] for h in range(2) for i in range(q_from, q_to) for d in range(4)
            ]
            self.assert_close(found, expected)

    def test_pages(self):
        q = self.save("q", "<f4", (2, 1, 1, 4), self.numbers(2, 4))
        k = self.save("k", "<f4", (4, 2, 1, 4), self.numbers(4, 2, 4))
        v = self.save("v", "<f4", (4, 2, 1, 4), self.numbers(4, 2, 4))
        table = self.save("page_table", "<i4", (2, 2), [3, 0, 1, 2])
        lengths = self.save("kv_lengths", "<i4", (2,), [3, 4])
        _, _, out = self.run_ok()
        for b in range(2):
            places = [table[b * 2 + j // 2] * 2 + j % 2 for j in range(lengths[b])]
            keys = [k[p * 4 : p * 4 + 4] for p in places]
            values = [v[p * 4 : p * 4 + 4] for p in places]
            expected, _ = attend([[q[b * 4 : b * 4 + 4]]], [keys], [values])
            self.assert_close(out[b * 4 : b * 4 + 4], expected)

    def test_dropout_follows_its_seed(self):
        self.save_qkv()
        one = self.run_ok("--dropout", "0.5", "--seed", "1")[2]
        self.assertEqual(one, self.run_ok("--dropout", "0.5", "--seed", "1")[2])
        self.assertNotEqual(one, self.run_ok("--dropout", "0.5", "--seed", "2")[2])
        self.assertNotEqual(one, self.run_ok("--dropout", "0.5", "--seed", "1", "--offset", 4)[2])

    # Types.

    def test_bf16_comes_as_raw_elements(self):
        values = self.save_qkv()
        expected = self.run_ok()[2]
        for descr in ("<u2", "|V2"):
            for name, x, shape in zip("qkv", values, ((2, 3, 4), (2, 5, 4), (2, 5, 4))):
                self.save(name, descr, shape, [bf16_bits(number) for number in x])
            descr, _, out = self.run_ok("--type", "bf16")
            self.assertEqual(descr, "|V2")
            self.assert_close([bf16_value(x) for x in out], expected, 0.01)
            descr, _, out = self.run_ok("--type", "bf16", "--out-type", "f32")
            self.assertEqual(descr, "<f4")
            self.assert_close(out, expected)

    def test_fp8_with_scales(self):
        e4m3 = {1.0: 0x38, 2.0: 0x40, -1.0: 0xB8, 0.0: 0x00}
        numbers = [self.random.choice(list(e4m3)) for _ in range(8 + 12 + 12)]
        q, k, v = numbers[:8], numbers[8:20], numbers[20:]
        for descr in ("|u1", "|V1", "<f1"):
            for name, x, rows in (("q", q, 2), ("k", k, 3), ("v", v, 3)):
                self.save(name, descr, (2, rows, 2), [e4m3[number] for number in x])
            self.save("q_scale", "<f4", (), [0.5])
            self.save("v_scale", "<f4", (2,), [3, 5])
            out = self.run_ok("--type", "e4m3", "--out-type", "f32")[2]
            expected, _ = attend(
                heads([x / 2 for x in q], (2, 2, 2)),
                heads(k, (2, 3, 2)),
                heads([x * (3 if i < 6 else 5) for i, x in enumerate(v)], (2, 3, 2)),
            )
            self.assert_close(out, expected, 1e-5)

    def test_scales_of_blocks_of_rows(self):
        self.save("q", "|u1", (1, 1, 1, 2), [0x38, 0])
        self.save("k", "|u1", (1, 1, 3, 2), [0] * 6)
        self.save("v", "|u1", (1, 1, 3, 2), [0x38] * 6)
        self.save("v_scale", "<f4", (1, 1, 2), [1, 7])
        out = self.run_ok("--type", "e4m3", "--out-type", "f32", "--scale-rows", 2)[2]
        self.assert_close(out, [3, 3])
        self.save("v_scale", "<f4", (1, 1, 1), [1])
        (self.dir / "out.npy").unlink()
        self.refused(
            "v_scale.npy has shape (1, 1, 1)", "2 blocks", words=["--type=e4m3", "--scale-rows=2"]
        )

    def test_convert_is_explicit(self):
        self.save_qkv("<f8")
        exact = self.run_ok()[2]
        descr, _, out = self.run_ok("--convert", "f16")
        self.assertEqual(descr, "<f2")
        self.assert_close(out, exact, 1e-3)
        (self.dir / "out.npy").unlink()
        self.refused("q.npy holds f64, but --type says f16", "--convert", words=["--type", "f16"])

    def test_types_without_a_name_are_asked_for(self):
        for name in "qkv":
            self.save(name, "<u2", (1, 2), [0, 0])
        self.refused("q.npy holds raw elements (u2)", "--type bf16")
        self.refused("elements of 2 bytes", "--type e4m3 means 1", words=["--type", "e4m3"])
        for name in "qkv":
            self.save(name, "<i4", (1, 2), [0, 0])
        self.refused("q.npy holds elements of type i4", "floating-point")

    def test_big_endian_and_fortran_order(self):
        values = self.save_qkv()
        expected = self.run_ok()[2]
        shapes = ((2, 3, 4), (2, 5, 4), (2, 5, 4))
        for name, x, (h, s, d) in zip("qkv", values, shapes):
            columns = [
                x[(a * s + b) * d + c] for c in range(d) for b in range(s) for a in range(h)
            ]
            self.save(name, ">f4", (h, s, d), columns, fortran_order=True)
        self.assertEqual(self.run_ok()[2], expected)

    # What does not fit.

    def test_shapes_that_do_not_fit_are_named(self):
        self.save_qkv()
        self.save("k", "<f4", (2, 5, 3), self.numbers(30))
        self.refused("k.npy has shape (2, 5, 3)", "dim 3; expected 4 as in", "q.npy")
        self.save("k", "<f4", (2, 6, 4), self.numbers(48))
        self.refused("v.npy has shape (2, 5, 4)", "rows 5; expected 6", "k.npy")
        self.save("k", "<f4", (3, 2, 5, 4), self.numbers(120))
        self.save("v", "<f4", (3, 2, 5, 4), self.numbers(120))
        self.refused("k.npy has shape (3, 2, 5, 4)", "batch 3; expected 1")
        self.save("k", "<f4", (4,), self.numbers(4))
        self.refused("k.npy has shape (4,)", "(batch, heads, rows, dim)")

    def test_extra_shapes_that_do_not_fit_are_named(self):
        for name, descr, shape, expected in (
            ("bias", "<f4", (2, 5, 1), "(1, 2, 3, 5)"),
            ("mask", "|b1", (2, 2, 3, 5), "(1, 2, 3, 5)"),
            ("alibi", "<f4", (3,), "(2,) or (1, 2)"),
            ("sinks", "<f4", (1,), "(2,), one per query head"),
            ("kv_lengths", "<i4", (2,), "(1,), one per sequence"),
        ):
            with self.subTest(name=name):
                self.save_qkv()
                self.save(name, descr, shape, [1] * math.prod(shape))
                self.refused(f"{name}.npy has shape", expected)
                (self.dir / f"{name}.npy").unlink()

    def test_extra_types_that_do_not_fit_are_named(self):
        for name, descr, shape, expected in (
            ("alibi", "<f8", (2,), "expected float32"),
            ("mask", "<f4", (3, 5), "expected bool"),
            ("kv_lengths", "<f4", (1,), "expected int32 or int64"),
            ("bias", "<i4", (3, 5), "floating-point"),
        ):
            with self.subTest(name=name):
                self.save_qkv()
                self.save(name, descr, shape, [1] * math.prod(shape))
                self.refused(f"{name}.npy holds elements of type", expected)
                (self.dir / f"{name}.npy").unlink()

    def test_values_that_do_not_fit_are_named(self):
        self.save_qkv()
        self.save("mask", "|u1", (5,), [0, 1, 2, 1, 0])
        self.refused("mask.npy holds a byte 2")
        (self.dir / "mask.npy").unlink()
        self.save("kv_lengths", "<i8", (1,), [1 << 40])
        self.refused("kv_lengths.npy holds 1099511627776")
        self.save("kv_lengths", "<i8", (1,), [6])
        self.refused("kv_lengths[0] = 6 is out of range")

    def test_the_library_has_the_last_word(self):
        self.save_qkv(q=(3, 2, 4))
        self.refused("kv_heads = 2 does not divide q_heads = 3")
        self.save_qkv()
        self.refused("scale = nan", words=["--scale", "nan"])
        self.refused("there is no kernel 'fast'", words=["--kernel", "fast"])

    def test_missing_and_damaged_files(self):
        self.refused("q.npy", "--q FILE")
        result = flashcore("run", "--q", self.dir / "none.npy")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot read", result.stderr)
        self.save_qkv()
        content = (self.dir / "v.npy").read_bytes()
        (self.dir / "v.npy").write_bytes(content[:-1])
        self.refused("v.npy is truncated")
        (self.dir / "v.npy").write_bytes(b"PK\x03\x04" + content)
        self.refused("v.npy is no .npy file")
        self.save("v", "<f4", (2, 5, 0), [])
        self.refused("v.npy has shape (2, 5, 0)", "at least 1")

    # Output files.

    def test_outputs_appear_whole_or_not_at_all(self):
        self.save_qkv()
        names = sorted(os.listdir(self.dir))
        self.refused("cannot write", words=["--lse", self.dir / "nowhere" / "lse.npy"])
        self.refused("not a regular file", words=["--out", "/dev/null"])
        self.assertEqual(sorted(os.listdir(self.dir)), names)
        self.run_ok()
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(names + ["out.npy"]))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE((self.dir / "out.npy").stat().st_mode), 0o666 & ~mask)

    def test_a_link_stays_a_link(self):
        self.save_qkv()
        (self.dir / "out.npy").symlink_to("real.npy")
        (self.dir / "real.npy").touch()
        self.run_ok()
        self.assertTrue((self.dir / "out.npy").is_symlink())
        self.assertEqual(read_npy(self.dir / "real.npy")[1], (2, 3, 4))


    def test_memory_is_given_back(self):
        self.save_qkv()
        self.save("cu_q", "<i8", (2,), [0, 2])
        for words in ((), ("--convert", "f64"), ("--scale", "nan")):
            result = flashcore("run", self.dir, "--lse", "/dev/null", *words, environment=WITH_LEAKS)
            self.assertEqual(result.returncode, 1)
            self.assertNotIn("Sanitizer", result.stderr)


class NumpyTest(unittest.TestCase):
    def test_numpy_reads_and_writes_the_same_files(self):
        import numpy  # scripts/install-deps test installs it

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory)
            generator = numpy.random.default_rng(1)
            q, k, v = (generator.standard_normal((2, 3, 7, 8)).astype("f4") for _ in "qkv")
            numpy.save(path / "q.npy", q)
            numpy.save(path / "k.npy", numpy.asfortranarray(k))
            numpy.save(path / "v.npy", v.astype(">f4"))
            result = flashcore("run", path, "--causal")
            self.assertEqual(result.returncode, 0, result.stderr)
            scores = q @ k.swapaxes(-1, -2) / numpy.sqrt(8)
            scores[..., ~numpy.tri(7, dtype=bool)] = -numpy.inf
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            expected = weights / weights.sum(-1, keepdims=True) @ v
            out = numpy.load(path / "out.npy")
            self.assertEqual(out.dtype, numpy.float32)
            numpy.testing.assert_allclose(out, expected, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
