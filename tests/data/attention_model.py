"""The formulas of flashcore.h over plain Python numbers, written from the header alone.

Nothing here is shared with the library. The model works on real numbers in double precision and
on complex ones: a gradient is the imaginary part of a complex step, so no derivative is ever
written by hand.
"""

import cmath
import itertools
import math
import struct
from collections import namedtuple

COMPLEX_STEP = 1e-100
QUERY_SIDE = ("q", "out", "dq", "dout")
MASK64 = (1 << 64) - 1


def to_f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


# ---- Inputs: the generator that tests/elements.c repeats -----------------------------------------


def splitmix(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def element(kind, seed, index):
    """Element `index`: a multiple of 1/16 (e5m2: of 1/8) that its type holds exactly."""
    draw = splitmix(seed, index) >> 33
    if kind == "u8":
        return 1 if draw % 3 else 0
    sixteenths = draw % 65 - 32
    if kind == "f8_e4m3":
        return int(sixteenths / 2) / 16
    if kind == "f8_e5m2":
        return int(sixteenths / 4) / 8
    return sixteenths / 16


# ---- Dropout -------------------------------------------------------------------------------------


def philox4x32_10(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [
            (high >> 32) ^ c[1] ^ k[0],
            high & 0xFFFFFFFF,
            (low >> 32) ^ c[3] ^ k[1],
            low & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def check_philox():
    """The known answers published with Random123."""
    ones = 0xFFFFFFFF
    known = (
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    )
    for counter, key, answer in known:
        assert tuple(philox4x32_10(counter, key)) == answer, (counter, key)


# ---- Layout: where a logical element lies --------------------------------------------------------

Shape = namedtuple("Shape", "outer heads rows dims")


def shape_of(p, name):
    """Logical shape of q, k, v, out or a gradient; outer counts sequences or pages."""
    is_query = name in QUERY_SIDE
    heads = p["q_heads"] if is_query else p["kv_heads"]
    wide = name in ("v", "dv", "out", "dout")
    dims = (p["value_dim"] or p["head_dim"]) if wide else p["head_dim"]
    if is_query:
        if p["packed_q"]:
            return Shape(1, heads, p["packed_q_rows"], dims)
        return Shape(p["batch"], heads, p["q_length"], dims)
    if p["packed_kv"]:
        return Shape(1, heads, p["packed_kv_rows"], dims)
    if p["paged"]:
        return Shape(p["page_count"], heads, p["page_size"], dims)
    return Shape(p["batch"], heads, p["kv_length"], dims)


def strides_of(p, name):
    given = [p[f"{name}_strides.{axis}"] for axis in ("batch", "head", "row", "dim")]
    if any(given):
        return given[:3] + [given[3] or 1]
    _, heads, rows, dims = shape_of(p, name)
    rows_first = p["packed_q"] if name in QUERY_SIDE else p["packed_kv"] or p["paged"]
    if rows_first:
        return [rows * heads * dims, dims, heads * dims, 1]
    return [heads * rows * dims, rows * dims, dims, 1]


def offsets_of(p, name):
    """Offset in elements of every logical element of an array, by index."""
    if name in ("bias", "mask", "dbias"):
        kind = "mask" if name == "mask" else "bias"
        strides = [p[f"{kind}_strides.{axis}"] for axis in ("batch", "head", "row", "key")]
        strides[3] = strides[3] or 1
        counts = (p["batch"], p["q_heads"], p["q_length"], p["kv_length"])
    elif name == "lse":
        outer, heads, rows, _ = counts = shape_of(p, "q")
        strides = [p[f"lse_strides.{axis}"] for axis in ("batch", "head", "row")]
        strides = (strides if any(strides) else [heads * rows, rows, 1]) + [0]
        counts = (outer, heads, rows, 1)
    else:
        counts, strides = shape_of(p, name), strides_of(p, name)
    indices = itertools.product(*(range(n) for n in counts))
    return {i: sum(a * b for a, b in zip(i, strides)) for i in indices}


# ---- The formula ---------------------------------------------------------------------------------


class Model:
    """One problem p (fields of fc_attention) with its inputs: q, k, v by logical index; bias, mask
    by offset; alibi, sinks, scales and integers as lists. `stepped` is the input (name, index) that
    takes a complex step; of FP8 it is the number that code and scale stand for."""

    def __init__(self, p, inputs):
        self.p, self.x = p, inputs
        self.stepped = None
        self.value_dim = p["value_dim"] or p["head_dim"]
        self.scale = p["scale"] or to_f32(1 / math.sqrt(p["head_dim"]))  # the field is FP32

    def lengths(self, b):
        p, x = self.p, self.x
        q_rows = x["cu_q"][b + 1] - x["cu_q"][b] if p["packed_q"] else p["q_length"]
        kv_rows = x["cu_kv"][b + 1] - x["cu_kv"][b] if p["packed_kv"] else p["kv_length"]
        if p["has_kv_lengths"]:
            kv_rows = x["kv_lengths"][b]
        return q_rows, kv_rows

    def q_place(self, b, i):
        return (0, self.x["cu_q"][b] + i) if self.p["packed_q"] else (b, i)

    def kv_place(self, b, j):
        p, x = self.p, self.x
        if p["packed_kv"]:
            return 0, x["cu_kv"][b] + j
        if p["paged"]:
            stride = p["page_table_stride"] or -(-p["kv_length"] // p["page_size"])
            return x["page_table"][b * stride + j // p["page_size"]], j % p["page_size"]
        return b, j

    def fp8_scale(self, name, b, h, row):
        p, scales = self.p, self.x.get(f"{name}_scale")
        if scales is None:
            return 1
        batch, head, block, block_rows = (
            p[f"{name}_scaling.{field}"] for field in ("batch", "head", "block", "block_rows")
        )
        return scales[b * batch + h * head + (row // block_rows * block if block_rows else 0)]

    def read(self, name, index, scale=1):
        step = COMPLEX_STEP * 1j if self.stepped == (name, index) else 0
        return self.x[name][index] * scale + step

    def vector(self, name, place, b, h, row, dims):
        scale = self.fp8_scale(name, b, h, row)
        outer, stored_row = place
        return [self.read(name, (outer, h, stored_row, d), scale) for d in range(dims)]

    def broadcast_offset(self, name, b, h, i, j):
        s = {axis: self.p[f"{name}_strides.{axis}"] for axis in ("batch", "head", "row", "key")}
        return b * s["batch"] + h * s["head"] + i * s["row"] + j * (s["key"] or 1)

    def position(self, i, q_rows, kv_rows):
        return i if self.p["diagonal"] == 1 else i + kv_rows - q_rows

    def visible(self, b, h, i, j, position):
        p = self.p
        if p["causal"] and j > position:
            return False
        if p["has_window"]:
            if p["window_left"] >= 0 and j < position - p["window_left"]:
                return False
            if p["window_right"] >= 0 and j > position + p["window_right"]:
                return False
        if p["has_mask"] and not self.x["mask"][self.broadcast_offset("mask", b, h, i, j)]:
            return False
        if p["has_bias"]:
            return self.x["bias"][self.broadcast_offset("bias", b, h, i, j)] != -math.inf
        return True

    def score(self, b, h, i, j, position, q, k):
        p = self.p
        score = self.scale * sum(a * c for a, c in zip(q, k))
        if p["softcap"]:
            score = p["softcap"] * cmath.tanh(score / p["softcap"])
        if p["has_alibi"]:
            score -= self.x["alibi"][b * p["alibi_batch_stride"] + h] * abs(position - j)
        if p["has_bias"]:
            score += self.read("bias", self.broadcast_offset("bias", b, h, i, j))
        return score

    def dropout(self, b, h, i, j):
        p, x = self.p, self.x
        if not p["dropout_p"]:
            return 1
        seed, offset = x["dropout_seed"], x["dropout_offset"]
        counter = (j // 4, i, b * p["q_heads"] + h, offset & 0xFFFFFFFF)
        key = (seed & 0xFFFFFFFF, (seed >> 32) ^ (offset >> 32))
        kept = philox4x32_10(counter, key)[j % 4] >= p["dropout_p"] * 2.0**32
        return 1 / (1 - p["dropout_p"]) if kept else 0

    def row(self, b, h, i, q_rows, kv_rows):
        """Output row and LSE of query row i."""
        p = self.p
        kv_head = h // (p["q_heads"] // p["kv_heads"])
        position = self.position(i, q_rows, kv_rows)
        q = self.vector("q", self.q_place(b, i), b, h, i, p["head_dim"])
        keys = [j for j in range(kv_rows) if self.visible(b, h, i, j, position)]
        scores = []
        for j in keys:
            k = self.vector("k", self.kv_place(b, j), b, kv_head, j, p["head_dim"])
            scores.append(self.score(b, h, i, j, position, q, k))
        logits = scores + ([self.read("sinks", h)] if p["has_sinks"] else [])
        if not logits:
            return [0] * self.value_dim, -math.inf
        top = max(complex(s).real for s in logits)
        lse = top + cmath.log(sum(cmath.exp(s - top) for s in logits))
        out = [0] * self.value_dim
        for j, score in zip(keys, scores):
            weight = cmath.exp(score - lse) * self.dropout(b, h, i, j)
            v = self.vector("v", self.kv_place(b, j), b, kv_head, j, self.value_dim)
            out = [o + weight * value for o, value in zip(out, v)]
        return out, lse

    def forward(self):
        """out and lse by logical index."""
        out, lse = {}, {}
        for b in range(self.p["batch"]):
            q_rows, kv_rows = self.lengths(b)
            for h, i in itertools.product(range(self.p["q_heads"]), range(q_rows)):
                outer, stored_row = self.q_place(b, i)
                values, lse[outer, h, stored_row, 0] = self.row(b, h, i, q_rows, kv_rows)
                for d, value in enumerate(values):
                    out[outer, h, stored_row, d] = value
        return out, lse

    def gradient(self, name, dout):
        """d(sum of dout * out) / d(input), for every element of the input `name`."""
        held = self.x[name]
        slopes = {}
        for index in held if isinstance(held, dict) else range(len(held)):
            self.stepped = (name, index)
            out, _ = self.forward()
            rise = sum(dout[n] * complex(value).imag for n, value in out.items())
            slopes[index] = rise / COMPLEX_STEP
        self.stepped = None
        return slopes
