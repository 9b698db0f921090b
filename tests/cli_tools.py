"""What the tests of the program share: calling it, and .npy files without NumPy."""

import ast
import math
import os
import pty
import struct
import subprocess
from pathlib import Path

FLASHCORE = os.environ.get("FLASHCORE", "flashcore")


# Of a sanitized program: looking for leaks takes seconds at every exit, so one call of each verb does.
WITHOUT_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
WITH_LEAKS = {"ASAN_OPTIONS": "detect_leaks=1"}


def environment_with(changes):
    own = {k: v for k, v in os.environ.items() if not k.startswith("FLASHCORE_")}
    return {**own, **WITHOUT_LEAKS, **changes}


def flashcore(*words, environment=(), **options):
    """Runs the program; .returncode, .stdout, .stderr."""
    return subprocess.run(
        [FLASHCORE, *map(str, words)], capture_output=True, text=True,
        env=environment_with(dict(environment)), **options
    )


def children_of(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


class RunningCheck:
    """`flashcore check`, its first case begun: its progress on a terminal says so."""

    def __init__(self, *words, environment=()):
        self.terminal, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [FLASHCORE, "check", *map(str, words)], stdout=subprocess.PIPE, stderr=its_end, text=True,
            env=environment_with(dict(environment)),
        )
        os.close(its_end)
        self.progress = b""
        while b"[1/" not in self.progress:
            self.progress += os.read(self.terminal, 100)

    def worker(self):
        """With --isolated, the process that has the cases."""
        (worker,) = children_of(self.process.pid)
        return int(worker)

    def finish(self):
        """The status and what was printed, once it has ended."""
        try:
            while part := os.read(self.terminal, 4096):
                self.progress += part
        except OSError:  # of a terminal that nobody writes to any more
            pass
        os.close(self.terminal)
        stdout, _ = self.process.communicate()
        return self.process.returncode, stdout


FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B", "b1": "B", "u2": "H"}
RAW = {"V1": "B", "V2": "H", "f1": "B"}


def struct_format(descr):
    order = ">" if descr[0] == ">" else "<"
    name = descr[1:]
    return order, FORMATS.get(name) or RAW[name]


def write_npy(path, descr, shape, values, fortran_order=False):
    """values: a flat list, in the order of the file."""
    assert len(values) == math.prod(shape), (shape, len(values))
    header = repr({"descr": descr, "fortran_order": fortran_order, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    order, code = struct_format(descr)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"{order}{len(values)}{code}", *values))
    return str(path)


def read_npy(path):
    """descr, shape, flat list."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    start = 10 + struct.unpack("<H", content[8:10])[0]
    assert start % 64 == 0, start
    header = ast.literal_eval(content[10:start].decode())
    assert header["fortran_order"] is False
    order, code = struct_format(header["descr"])
    count = math.prod(header["shape"])
    values = struct.unpack(f"{order}{count}{code}", content[start:])
    return header["descr"], header["shape"], list(values)


def bf16_bits(value):
    """Truncated: exact for the small numbers of the tests."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
