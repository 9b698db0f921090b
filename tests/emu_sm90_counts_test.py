#!/usr/bin/env python3
"""What the sm_90 kernels may cost, to the last instruction: `flashcore emu` against numbers that
follow from the shape of the problem and the tiles of docs/kernels/sm90.md, and from nothing in the
kernels themselves."""

import dataclasses
import unittest

from emu_counts_tools import FEW_KEYS, Counts, Shape, expect, of_heads, up

PANEL_DIMS = 64      # of a box
MULTIPROCESSORS = 3  # of the emulated GPU
ELEMENT = 2          # bytes
LSE_ROWS = 8         # whose sums a warp writes at once: a sector


@dataclasses.dataclass
class Expected(Counts):
    wgmma_products: int = 0
    mma: int = 0
    bulk_copies: int = 0
    bulk_bytes: int = 0

    def add_tiles(self, shape, rows, tile_keys, first_row):
        """Of the keys that some of the rows see; their number, and whether one sees few: then what
        rounding took from the weights is multiplied too."""
        last_row = min(first_row + rows, shape.rows) - 1
        tiles = up(shape.end_key(last_row), tile_keys)
        few = shape.end_key(first_row) < FEW_KEYS
        self.wgmma_products += tiles * rows * tile_keys * shape.dim * (3 if few else 2)
        self.exp2 += tiles * rows * tile_keys
        return tiles, few


def prefill(shape):
    """Two warpgroups of 64 rows, four where rows are many; everything comes and goes in boxes, but for the
    log-sum-exp. The largest score is looked for in the first tile of keys alone, with a correction of
    each of a row's four lanes; of later tiles, where rounding counts, weights that are not rounded are
    computed for themselves. With 256 dims each warpgroup goes by the keys that its own rows see."""
    rows, tile_keys = 256 if shape.rows >= 512 else 128, 64 if shape.dim == 256 else 128
    own_rows = 64 if shape.dim == 256 else rows
    panels = shape.dim // PANEL_DIMS
    expected = Expected()
    for first_row in range(0, shape.rows, rows):
        end_row = min(first_row + rows, shape.rows)
        for own_row in range(first_row, end_row, own_rows):
            tiles, few = expected.add_tiles(shape, own_rows, tile_keys, own_row)
            expected.exp2 += own_rows * 4 + (own_rows * tile_keys * (tiles - 1) if few else 0)
        expected.bulk_copies += (rows // 64 + 2 * tiles + rows // 16) * panels
        keys = min(tiles * tile_keys, shape.keys)
        expected.bulk_bytes += 2 * (end_row - first_row + keys) * shape.dim * ELEMENT
        expected.global_write_sectors += up(end_row - first_row, LSE_ROWS)
    return of_heads(expected, shape.heads)


@dataclasses.dataclass
class LatencyTiles:
    """Which tiles latency.cu has for a problem that no two blocks share."""

    block_rows: int = 64
    keys: int = 64
    box_keys: int = 64
    only: bool = False   # a block has one tile of keys
    fixed: bool = False  # weights are relative to a constant


def latency_tiles(shape):
    """Of 64 dims and more than 64 keys: one tile of 128 keys; one of 256 for 64 rows or, where blocks of
    64 would be more than there are multiprocessors, for 128. Relative to a constant where rows see all of
    it or, if no more than two blocks are on a multiprocessor, where they see different keys. Else tile
    after tile: of 64 keys where more than two blocks are, of 256 where those leave no half of the last
    one empty and no multiprocessor has two, else of 128. Boxes of 128 keys where all rows see them or
    128 rows share them, but for tiles relative to a constant that fewer than three blocks have."""
    blocks = shape.heads * up(shape.rows, 64)
    alone, crowded = blocks <= MULTIPROCESSORS, blocks > 2 * MULTIPROCESSORS
    if shape.dim > 64 or shape.keys <= 64:
        return LatencyTiles(keys=64 if shape.keys <= 64 else 128)
    if shape.keys <= 128 and not (shape.causal and crowded):
        fixed = shape.causal or shape.keys == 128
        in_pairs = blocks > 3 * MULTIPROCESSORS and shape.heads % 2 == 0
        return LatencyTiles(keys=128, box_keys=128 if crowded and not in_pairs else 64, only=True,
                            fixed=fixed)
    fits_tall = shape.heads * up(shape.rows, 128) <= MULTIPROCESSORS
    if shape.keys <= 256 and (alone or (not crowded and fits_tall)):
        fixed = shape.causal or shape.keys == 256
        return LatencyTiles(block_rows=64 if alone else 128, keys=256,
                            box_keys=64 if alone and fixed else 128, only=True, fixed=fixed)
    if crowded:
        return LatencyTiles()
    large = not shape.causal and alone and up(shape.keys, 128) % 2 == 0
    return LatencyTiles(keys=256 if large else 128, box_keys=64 if shape.causal else 128)


def latency(shape):
    """A warpgroup for 64 rows. A correction of each of a row's four lanes in every tile, but where there is
    one. Where weights are relative to a constant, rounded ones are summed by products with eight columns
    of ones, but where rounding counts; rows that see few keys then have 128 of them weighed. With 64 dims
    boxes of keys that no row of the block sees read nothing."""
    rows, panels = 64, shape.dim // PANEL_DIMS
    has = latency_tiles(shape)
    expected = Expected()
    for block_row in range(0, shape.rows, has.block_rows):
        for first_row in range(block_row, min(block_row + has.block_rows, shape.rows), rows):
            few = shape.end_key(first_row) < FEW_KEYS
            own_keys = min(has.keys, 128) if few else has.keys
            tiles, few = expected.add_tiles(shape, rows, own_keys, first_row)
            expected.exp2 += 0 if has.only else tiles * rows * 4
            expected.mma += rows // 16 * own_keys // 16 if has.fixed and not few else 0
            own_rows = min(rows, shape.rows - first_row)
            expected.global_write_sectors += own_rows * shape.row_sectors() + up(own_rows, LSE_ROWS)
        tiles = 1 if has.only else tiles
        expected.bulk_copies += (has.block_rows // rows + 2 * tiles * has.keys // has.box_keys) * panels
        end_row = min(block_row + has.block_rows, shape.rows)
        boxes = up(shape.end_key(end_row - 1), has.box_keys) if shape.dim == 64 else tiles * (has.keys // has.box_keys)
        keys = min(boxes * has.box_keys, shape.keys)
        expected.bulk_bytes += (end_row - block_row + 2 * keys) * shape.dim * ELEMENT
    return of_heads(expected, shape.heads)


SHAPES = [
    Shape(heads=2, rows=128, keys=128, dim=64),
    Shape(heads=1, rows=200, keys=328, dim=64),
    Shape(heads=1, rows=192, keys=450, dim=64),
    Shape(heads=2, rows=128, keys=128, dim=64, causal=True),
    Shape(heads=1, rows=200, keys=328, dim=64, causal=True),
    Shape(heads=1, rows=144, keys=64, dim=128),
    Shape(heads=1, rows=144, keys=256, dim=128),
    Shape(heads=1, rows=256, keys=256, dim=128, causal=True),
]
CROWDS_AND_SINGLES = [
    Shape(heads=4, rows=128, keys=128, dim=64),
    Shape(heads=4, rows=128, keys=200, dim=64),
    Shape(heads=4, rows=128, keys=128, dim=64, causal=True),
    Shape(heads=3, rows=64, keys=128, dim=64),
    Shape(heads=3, rows=64, keys=128, dim=64, causal=True),
    Shape(heads=1, rows=128, keys=128, dim=64, causal=True),
    Shape(heads=6, rows=128, keys=128, dim=64),
    Shape(heads=3, rows=64, keys=256, dim=64),
    Shape(heads=3, rows=64, keys=200, dim=64),
    Shape(heads=1, rows=120, keys=150, dim=64, causal=True),
    Shape(heads=3, rows=120, keys=256, dim=64),
    Shape(heads=3, rows=120, keys=200, dim=64),
    Shape(heads=3, rows=120, keys=150, dim=64, causal=True),
]
PREFILL_SHAPES = [
    Shape(heads=3, rows=512, keys=256, dim=64),
    Shape(heads=1, rows=72, keys=96, dim=256),
    Shape(heads=1, rows=72, keys=128, dim=256),
    Shape(heads=1, rows=72, keys=96, dim=256, causal=True),
    Shape(heads=1, rows=256, keys=256, dim=256, causal=True),
]


class Sm90CountsTest(unittest.TestCase):
    def test_prefill_does_what_its_tiles_need(self):
        expect(self, "sm90_prefill", prefill, SHAPES + PREFILL_SHAPES)

    def test_latency_does_what_its_tiles_need(self):
        expect(self, "sm90_latency", latency, SHAPES + CROWDS_AND_SINGLES)


if __name__ == "__main__":
    unittest.main()
