#!/usr/bin/env python3
"""What the sm_80 kernels may cost, to the last instruction: `flashcore emu` against numbers that
follow from the shape of the problem and the tiles of docs/kernels/sm80.md, and from nothing in the
kernels themselves."""

import dataclasses
import unittest

from emu_counts_tools import FEW_KEYS, SECTOR, Counts, Shape, emu, expect, of_heads, tiles_of_a_block, up


def products(rows, columns, depth):
    """In instructions of 16 × 8 × 16."""
    return rows // 16 * (columns // 8) * (depth // 16)


@dataclasses.dataclass
class Expected(Counts):
    mma: int = 0
    barriers: int = 0

    def add_tile(self, shape, rows, tile_keys, few_keys):
        """Scores, softmax and weighted values of a tile of rows and keys, padding included."""
        values = products(rows, shape.dim, tile_keys)
        self.mma += products(rows, tile_keys, shape.dim) + values * (2 if few_keys else 1)
        self.exp2 += rows * tile_keys

    def add_corrections(self, rows, times):
        """One of each of the four lanes that a row has in a warp."""
        self.exp2 += rows * 4 * times

    def add_rows_and_keys(self, shape, rows, keys):
        """Q, K and V are read once, the output and its log-sum-exp written once."""
        self.global_read_sectors += (rows + 2 * keys) * shape.row_sectors()
        self.global_write_sectors += rows * shape.row_sectors()


def prefill_parts(shape, deciding_row, first_row, rows, end, keys, tile_keys):
    """For each part of the tiles up to key `end` that a warp works on: how many keys, and whether the rest
    of their weights is counted. What is done with a tile goes by the keys of the deciding row. A warp
    passes over keys that none of its own rows sees, at the end over half a part, too."""
    deciding_end, all_end = shape.end_key(deciding_row), shape.end_key(first_row)
    own_end = shape.end_key(min(first_row + rows, shape.rows) - 1)
    for first_key in range(0, up(end, tile_keys) * tile_keys, keys):
        left = own_end - first_key
        if deciding_end < FEW_KEYS:
            if left > 0:
                yield keys, all_end < FEW_KEYS and first_key + keys > all_end
        elif first_key < max(tile_keys, deciding_end // tile_keys * tile_keys):
            yield keys, False
        elif left > 0:
            yield keys // 2 if rows < keys and left <= keys // 2 else keys, False


def takes_wide_blocks(shape):
    """Enough keys, and no last block that is half empty of few."""
    return (shape.dim == 256 and shape.keys >= (1024 if shape.causal else 256) and
            10 * up(shape.rows, 128) * 128 <= 11 * up(shape.rows, 64) * 64)


def wide(shape):
    """A block has 128 rows, each of two teams of four warps 64 of them, and 64 keys at a time. Two
    warps of a team have scores of a row. It passes over keys behind those that its rows see."""
    expected = Expected()
    for first_row in range(0, shape.rows, 128):
        block_rows = min(128, shape.rows - first_row)
        tiles = up(shape.end_key(first_row + block_rows - 1), 64)
        for team_row in range(first_row, first_row + 128, 64):
            all_end = shape.end_key(team_row)
            team_end = shape.end_key(min(team_row + 64, shape.rows) - 1)
            few = [all_end < FEW_KEYS and first_key + 64 > all_end for first_key in range(0, team_end, 64)]
            moving = len(few) if all_end < FEW_KEYS else 1
            for rest in few:
                expected.add_tile(shape, 64, 64, rest)
            expected.add_corrections(64, 2 * moving)
            # The block meets for the queries, twice a tile, once more because one team is a step
            # ahead, and to ask whether a row has to go once more; a team where a maximum may move,
            # before and after it leaves the rest of weights, and three times at the end.
            expected.barriers += 4 * (2 * tiles + 3 + 2 * moving + 2 * sum(few) + 3)
            expected.global_write_sectors += up(max(min(64, shape.rows - team_row), 0) * 4, SECTOR)
        expected.add_rows_and_keys(shape, block_rows, min(tiles * 64, shape.keys))
    return of_heads(expected, shape.heads)


def prefill(shape):
    """A block of four warps has 128 rows (64 for 256 dims) and loads 64 keys (32) at a time; a warp
    works on 64 of them (32 for 128 dims and more). What is done with a tile goes by what the block's
    rows see, for 64 dims by what a warp's own do."""
    if takes_wide_blocks(shape):
        return wide(shape)
    rows, tile_keys = (64, 32) if shape.dim == 256 else (128, 64)
    keys = 64 if shape.dim == 64 else 32
    expected = Expected()
    for first_row in range(0, shape.rows, rows):
        block_rows = min(rows, shape.rows - first_row)
        block_end = shape.end_key(first_row + block_rows - 1)
        for warp_row in range(first_row, first_row + rows, rows // 4):
            deciding_row = warp_row if shape.dim == 64 else first_row
            for part_keys, few in prefill_parts(shape, deciding_row, warp_row, rows // 4, block_end,
                                                keys, tile_keys):
                expected.add_tile(shape, rows // 4, part_keys, few)
            # A first tile that all rows see corrects nothing; where some do not, it is as if sums
            # were there before. Later scores do not outgrow the first ones by so much.
            expected.add_corrections(rows // 4, shape.end_key(deciding_row) < FEW_KEYS)
        tiles = up(block_end, tile_keys)
        # One for the queries, one a tile, and the last asks whether a row has to go once more.
        expected.barriers += 4 * (tiles + 2)
        expected.add_rows_and_keys(shape, block_rows, min(tiles * tile_keys, shape.keys))
        expected.global_write_sectors += up(block_rows * 4, SECTOR)
    return of_heads(expected, shape.heads)


def latency_at_once(shape):
    """Up to 512 keys of 64 dims: four teams of warps take all of them at once, a quarter each. For
    128 keys a team is one warp, and a block has 16 rows; else it is two warps, which meet for every
    part of K and V and before their sums replace it, a block has 32, and a team of whose keys rows
    see some copies all of them. With more than 384 keys it is five warps, and a block has 80, where
    blocks of 32 would need more than two rounds, and these one; before sums replace everything all
    warps meet."""
    keys = next(keys for keys in (128, 256, 512) if shape.keys <= keys)
    rows, team_warps = (16, 1) if keys == 128 else (32, 2)
    rounds = shape.heads * up(shape.rows, 32) / MULTIPROCESSORS
    if shape.keys > 384 and rounds > 2 and shape.heads * up(shape.rows, 80) <= MULTIPROCESSORS:
        rows, team_warps = 80, 5
    sees_all = shape.keys == keys and not shape.causal
    parts = {128: 0, 256: 2 if sees_all else 4, 512: 8}[keys]
    expected = Expected()
    for first_row in range(0, shape.rows, rows):
        block_rows = min(rows, shape.rows - first_row)
        end = shape.end_key(first_row + block_rows - 1)
        few = shape.end_key(first_row) < FEW_KEYS
        teams = up(end, keys // 4)
        for _ in range(teams):
            expected.add_tile(shape, rows, keys // 4, few)
            expected.add_corrections(rows, few)
        # Before Q is read, and when all sums are there; a row's eight threads weigh four teams.
        expected.barriers += 4 * team_warps * (2 if team_warps == 1 else parts + 3)
        expected.exp2 += rows * 8 * 4
        copied = end if keys == 128 else min(teams * (keys // 4), shape.keys)
        expected.add_rows_and_keys(shape, block_rows, copied)
        expected.global_write_sectors += up(block_rows, 4)  # a warp joins four rows
    return of_heads(expected, shape.heads)


def latency(shape):
    """A block of four warps has 16 rows; a warp takes 64 keys (32, 16) at a time, on its own. Of 16 at
    a time rows of few keys count what rounding takes from weights in all, not where a limit cuts alone."""
    if shape.dim == 64 and shape.keys <= 512:
        return latency_at_once(shape)
    rows, tile_keys = 16, {64: 64, 128: 32, 256: 16}[shape.dim]
    expected = Expected()
    for first_row in range(0, shape.rows, rows):
        block_rows = min(rows, shape.rows - first_row)
        tiles = list(tiles_of_a_block(shape, first_row, rows, tile_keys))
        all_few = tile_keys == 16 and shape.end_key(first_row) < FEW_KEYS
        for _, few in tiles:
            expected.add_tile(shape, rows, tile_keys, few or all_few)
        # Where all rows see all keys, or a warp's first come.
        expected.add_corrections(rows, sum(i < 4 or not boundary
                                           for i, (boundary, _) in enumerate(tiles)))
        # Before Q is read, and when the warps' sums lie in shared memory; a row's eight threads
        # then weigh four warps each.
        expected.barriers += 4 * 2
        expected.exp2 += rows * 8 * 4
        expected.add_rows_and_keys(shape, block_rows, shape.end_key(first_row + block_rows - 1))
        expected.global_write_sectors += up(block_rows, 4)  # a warp joins four rows
    return of_heads(expected, shape.heads)


MULTIPROCESSORS = 3  # of the emulated GPU

SHAPES = [
    Shape(heads=2, rows=128, keys=128, dim=64),
    Shape(heads=1, rows=200, keys=328, dim=64),
    Shape(heads=2, rows=128, keys=128, dim=64, causal=True),
    Shape(heads=1, rows=200, keys=328, dim=64, causal=True),
    Shape(heads=2, rows=64, keys=256, dim=64),
    Shape(heads=1, rows=230, keys=512, dim=64),
    Shape(heads=1, rows=230, keys=400, dim=64, causal=True),
    Shape(heads=1, rows=90, keys=512, dim=64),
    Shape(heads=1, rows=90, keys=328, dim=64),
    Shape(heads=1, rows=80, keys=400, dim=64, causal=True),
    Shape(heads=1, rows=512, keys=512, dim=64, causal=True),
    Shape(heads=1, rows=32, keys=528, dim=64),
    Shape(heads=1, rows=144, keys=80, dim=128),
    Shape(heads=1, rows=144, keys=128, dim=128),
    Shape(heads=1, rows=256, keys=256, dim=128, causal=True),
    Shape(heads=1, rows=72, keys=96, dim=256),
    Shape(heads=1, rows=72, keys=128, dim=256),
    Shape(heads=1, rows=72, keys=96, dim=256, causal=True),
    Shape(heads=1, rows=64, keys=112, dim=256, causal=True),
    Shape(heads=1, rows=120, keys=256, dim=256),
    Shape(heads=1, rows=250, keys=330, dim=256),
    Shape(heads=1, rows=250, keys=1030, dim=256, causal=True),
    Shape(heads=1, rows=1024, keys=1024, dim=256, causal=True),
]


class Sm80CountsTest(unittest.TestCase):
    def test_prefill_does_what_its_tiles_need(self):
        expect(self, "sm80_prefill", prefill, SHAPES)

    def test_latency_does_what_its_tiles_need(self):
        expect(self, "sm80_latency", latency, SHAPES)

    def test_split_keys_are_multiplied_and_read_once(self):
        shape = Shape(heads=1, rows=16, keys=2048, dim=64)
        counts = emu("sm80_latency", shape)["counts"]
        splits = MULTIPROCESSORS  # as many blocks
        self.assertEqual(counts["launches"], 2)
        self.assertEqual(counts["mma"], latency(shape).mma)
        self.assertEqual(counts["bank_conflicts"], 0)
        # One load takes a row's sums of all splits, each in a sector of its own.
        self.assertEqual(counts["wasted_sectors"], shape.rows * (splits - 1))
        # Each split's result in FP32, the sums of a warp's four rows; then the answer, a sum a row.
        self.assertEqual(counts["global_write_sectors"],
                         splits * (shape.rows * shape.dim * 4 // SECTOR + shape.rows // 4) +
                         shape.rows * shape.row_sectors() + shape.rows)

    def test_heads_of_a_group_read_their_keys_once(self):
        shape = Shape(heads=8, rows=1, keys=256, dim=64, kv_heads=1)
        counts = emu("sm80_latency", shape)["counts"]
        self.assertEqual(counts["blocks"], 1)
        self.assertEqual(counts["global_read_sectors"],
                         (shape.heads + 2 * shape.keys) * shape.row_sectors())
        self.assertEqual(counts["mma"], products(16, 256, 64) + products(16, 64, 256))


if __name__ == "__main__":
    unittest.main()
