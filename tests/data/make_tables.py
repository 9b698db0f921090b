#!/usr/bin/env python3
"""Writes tables.txt: make_tables.py > tables.txt (or --check tables.txt: is it what would be
written?). Needs nothing but Python 3; the format is described in tests/tables.h."""

import io
import math
import sys

from attention_model import Model, check_philox, element, offsets_of, to_f32
from table_cases import CASES

FP8 = ("f8_e4m3", "f8_e5m2")
STRIDES = ("q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv")
DEFAULTS = dict.fromkeys(
    """batch q_heads kv_heads q_length kv_length head_dim value_dim packed_q_rows packed_kv_rows
    page_size page_count page_table_stride window_left window_right alibi_batch_stride scale softcap
    dropout_p causal diagonal has_window has_alibi has_bias has_mask has_sinks has_kv_lengths
    packed_q packed_kv paged""".split(),
    0,
)
DEFAULTS.update({f"{t}_strides.{a}": 0 for t in STRIDES for a in ("batch", "head", "row", "dim")})
DEFAULTS.update(
    {f"{t}_strides.{a}": 0 for t in ("bias", "mask") for a in ("batch", "head", "row", "key")}
)
DEFAULTS.update(
    {f"{t}_scaling.{a}": 0 for t in "qkv" for a in ("batch", "head", "block", "block_rows")}
)
DEFAULTS.update(q_type="auto", kv_type="auto", out_type="auto", bias_type="auto")
LISTS = ("alibi", "sinks", "q_scale", "k_scale", "v_scale", "cu_q", "cu_kv", "kv_lengths",
         "page_table")
SCALARS = ("dropout_seed", "dropout_offset")


def flatten(fields):
    """Fields of fc_attention, and the rest of the case."""
    problem, rest = {}, {}
    for name, value in fields.items():
        if isinstance(value, dict):
            problem.update({f"{name}.{axis}": number for axis, number in value.items()})
        elif name in DEFAULTS:
            problem[name] = value
        elif value is not None:
            rest[name] = value
    assert set(problem) <= set(DEFAULTS), set(problem) - set(DEFAULTS)
    assert set(rest) <= {*LISTS, *SCALARS, "hidden_bias"}, rest
    assert all(to_f32(problem.get(name, 0)) == problem.get(name, 0)
               for name in ("scale", "softcap", "dropout_p")), "not an FP32 number"
    return problem, rest


def kinds_of(p):
    """Element type of every generated array."""
    kv_type = p["q_type"] if p["kv_type"] == "auto" else p["kv_type"]
    out_type = p["q_type"] if p["out_type"] == "auto" else p["out_type"]
    out_type = "bf16" if out_type in FP8 else out_type
    return {"q": p["q_type"], "k": kv_type, "v": kv_type, "mask": "u8", "dout": out_type,
            "bias": "f32" if p["bias_type"] == "auto" else p["bias_type"]}


class Writer:
    def __init__(self, stream):
        self.stream = stream

    def words(self, words):
        line = ""
        for word in words:
            if len(line) + 1 + len(word) > 100:
                print(line, file=self.stream)
                line = ""
            line += f" {word}" if line else word
        print(line, file=self.stream)

    def array(self, command, name, origin, values):
        self.words([command, name, str(origin), str(len(values))])
        self.words([number(value) for value in values])


def number(value):
    if value is None:
        return "."
    real = complex(value).real
    return "0" if real == 0 else f"{real:.12g}"


def image(p, name, values):
    """What lies in memory: the values by offset, None between them, and where offset 0 is."""
    offsets = offsets_of(p, name)
    first, last = min(offsets.values()), max(offsets.values())
    memory = [None] * (last - first + 1)
    for index, offset in offsets.items():
        memory[offset - first] = values(index, offset)
    return -first, memory


def make_inputs(p, rest, writer):
    """Writes the inputs and returns them as the model wants them."""
    inputs = {name: rest.get(name, 0) for name in SCALARS}
    for name in LISTS:
        if name in rest:
            inputs[name] = list(rest[name])
            writer.array("values", name, 0, rest[name])
    for name in SCALARS:
        if name in rest:
            writer.words([name, str(rest[name])])
    wanted = ["q", "k", "v", "dout"] + [name for name in ("bias", "mask") if p[f"has_{name}"]]
    for seed, name in enumerate(wanted, start=sum(map(ord, rest["name"])) * 16):
        kind = kinds_of(p)[name]
        origin, memory = image(p, name, lambda index, offset: 0)
        memory = [element(kind, seed, n) for n in range(len(memory))]
        if name == "bias" and "hidden_bias" in rest:
            memory = [-math.inf if n in rest["hidden_bias"] else x for n, x in enumerate(memory)]
            writer.array("values", name, origin, memory)
        else:
            writer.words(["generate", name, str(origin), str(len(memory)), str(seed)])
        inputs[name] = memory
        if name not in ("bias", "mask"):
            inputs[name] = {i: memory[at + origin] for i, at in offsets_of(p, name).items()}
    return inputs


def write_case(name, fields, writer):
    problem, rest = flatten(fields)
    writer.words(["case", name])
    for field, value in problem.items():
        writer.words([field, value if isinstance(value, str) else f"{value:.9g}"])
    p = {**DEFAULTS, **problem}
    inputs = make_inputs(p, {**rest, "name": name}, writer)
    model = Model(p, inputs)
    out, lse = model.forward()
    writer.array("expect", "out", *image(p, "out", lambda index, offset: out[index]))
    writer.array("expect", "lse", *image(p, "lse", lambda index, offset: lse[index]))
    for of in ("q", "k", "v"):
        slopes = model.gradient(of, inputs["dout"])
        writer.array("expect", f"d{of}", *image(p, f"d{of}", lambda i, offset: slopes[i]))
    if p["has_bias"]:
        slopes = model.gradient("bias", inputs["dout"])
        writer.array("expect", "dbias", *image(p, "dbias", lambda i, offset: slopes[offset]))
    if p["has_sinks"]:
        slopes = model.gradient("sinks", inputs["dout"])
        writer.array("expect", "dsinks", 0, list(slopes.values()))
    writer.words(["end"])


def same_tables(stored, made):
    """Equal but for the last digits, which may differ from one C library's exp to another's."""
    stored, made = stored.split(), made.split()
    return len(stored) == len(made) and all(map(same_word, stored, made))


def same_word(a, b):
    try:
        return a == b or abs(float(a) - float(b)) <= 1e-11 * max(1, abs(float(b)))
    except ValueError:
        return False


def main():
    check_philox()
    names = [name for name, _ in CASES]
    assert len(set(names)) == len(names), "a name stands twice"
    text = io.StringIO()
    for name, fields in CASES:
        write_case(name, fields, Writer(text))
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text.getvalue())
        return
    with open(sys.argv[2], encoding="ascii") as stored:
        if not same_tables(stored.read(), text.getvalue()):
            sys.exit(f"{sys.argv[2]} is not what the recipe gives: make it anew")


main()
