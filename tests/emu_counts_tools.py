"""What the tests of the kernels' counts share: problems, `flashcore emu`, and which tiles of keys the
rows of a block see."""

import dataclasses
import json
import os
import subprocess

FLASHCORE = os.environ["FLASHCORE"]
SECTOR = 32
FEW_KEYS = 64  # rows of boundary tiles that see fewer have P·V computed twice, the second time of
               # what rounding took from the weights


@dataclasses.dataclass
class Shape:
    heads: int
    rows: int
    keys: int
    dim: int
    causal: bool = False
    kv_heads: int = 0  # 0: as many as heads

    def words(self):
        words = ["--heads", self.heads, "--q-length", self.rows, "--kv-length", self.keys,
                 "--head-dim", self.dim, "--kv-heads", self.kv_heads or self.heads]
        return [str(word) for word in words] + ["--causal"] * self.causal

    def end_key(self, row):
        """The keys from here on are hidden from the row: the last row sees all."""
        return row + 1 + self.keys - self.rows if self.causal else self.keys

    def row_sectors(self):
        return self.dim * 2 // SECTOR


@dataclasses.dataclass
class Counts:
    """What every model of a kernel expects; each adds its own instructions."""

    exp2: int = 0
    global_read_sectors: int = 0
    global_write_sectors: int = 0
    bank_conflicts: int = 0
    wasted_sectors: int = 0


def emu(kernel, shape):
    done = subprocess.run([FLASHCORE, "emu", "--kernel", kernel, *shape.words(), "--json"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def up(number, step):
    return -(-number // step)


def tiles_of_a_block(shape, first_row, rows, tile_keys):
    """For each tile of keys that some row of the block sees: whether it is a boundary tile, in
    which some row does not see some key, and whether such a row sees few."""
    last_row = min(first_row + rows, shape.rows) - 1
    all_end = shape.end_key(first_row)
    for first_key in range(0, shape.end_key(last_row), tile_keys):
        boundary = first_key + tile_keys > all_end
        yield boundary, boundary and all_end < FEW_KEYS


def of_heads(expected, heads):
    return type(expected)(*(count * heads for count in dataclasses.astuple(expected)))


def expect(test, kernel, model, shapes):
    """Every count of the model, exactly; a kernel's own instructions first, which say the most."""
    for shape in shapes:
        counts, expected = emu(kernel, shape)["counts"], model(shape)
        for field in sorted(dataclasses.fields(expected), key=lambda field: field.name in Counts.__annotations__):
            with test.subTest(shape=shape, count=field.name):
                test.assertEqual(counts[field.name], getattr(expected, field.name))
