#!/usr/bin/env python3
"""What the sm_90 kernels may cost, to the last instruction: `flashcore emu` against numbers that
follow from the shape of the problem and the tiles of docs/kernels/sm90.md, and from nothing in the
kernels themselves."""

import dataclasses
import unittest

from emu_counts_tools import FEW_KEYS, Counts, Shape, expect, of_heads, up

PANEL_DIMS = 64      # of a box
MULTIPROCESSORS = 3  # of the emulated GPU
LSE_ROWS = 8         # whose sums a warp writes at once: a sector


@dataclasses.dataclass
class Expected(Counts):
    wgmma_products: int = 0
    mma: int = 0
    bulk_copies: int = 0

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
        expected.global_write_sectors += up(end_row - first_row, LSE_ROWS)
    return of_heads(expected, shape.heads)


def latency(shape):
    """A warpgroup of 64 rows. Tiles of 128 keys; of 256 where those leave no half of the last one empty,
    and no multiprocessor has two blocks; of 64 where it has more than two, unless one tile is all that
    there is. They come in boxes of 64, or of 128 where all rows see them, but for one tile in blocks that
    are no more than two on a multiprocessor. A correction of each of a row's four lanes in every tile, but
    where there is one. Where a tile of 128 keys is the only one, and no other block or three others are on
    the multiprocessor, nobody looks for the largest score, and rounded weights are summed by products
    with eight columns of ones, but where rounding counts."""
    rows, panels = 64, shape.dim // PANEL_DIMS
    all_keys = shape.dim == 64 and not shape.causal and shape.keys > 64
    blocks = shape.heads * up(shape.rows, rows)
    crowded = shape.dim == 64 and blocks > 2 * MULTIPROCESSORS
    one_tile = all_keys and shape.keys <= 128
    alone = blocks <= MULTIPROCESSORS
    fixed = shape.dim == 64 and 64 < shape.keys <= 128 and (alone or crowded) and (
        shape.keys == 128 if all_keys else shape.causal and alone)
    has_large_tiles = all_keys and up(shape.keys, 128) % 2 == 0 and blocks <= MULTIPROCESSORS
    tile_keys = 64 if shape.keys <= 64 or crowded and not one_tile else 256 if has_large_tiles else 128
    corrections = 0 if one_tile or fixed else 4
    has_small_boxes = not all_keys or tile_keys == 64 or (one_tile and not crowded)
    box_keys = 64 if has_small_boxes else 128
    expected = Expected()
    for first_row in range(0, shape.rows, rows):
        tiles, few = expected.add_tiles(shape, rows, tile_keys, first_row)
        expected.exp2 += tiles * rows * corrections
        expected.mma += rows // 16 * tile_keys // 16 if fixed and not few else 0
        block_rows = min(rows, shape.rows - first_row)
        expected.bulk_copies += (1 + 2 * tiles * tile_keys // box_keys) * panels
        expected.global_write_sectors += block_rows * shape.row_sectors() + up(block_rows, LSE_ROWS)
    return of_heads(expected, shape.heads)


SHAPES = [
    Shape(heads=2, rows=128, keys=128, dim=64),
    Shape(heads=1, rows=200, keys=328, dim=64),
    Shape(heads=1, rows=128, keys=450, dim=64),
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
