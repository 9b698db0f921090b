/* matmul_amx.h: 32 x 32 in four tiles of sums; a tile holds 16 rows of 64 bytes. One instruction
 * multiplies 16 x 32 by 32 x 16 bf16 elements, treating subnormal ones as 0. */
#ifndef FC_CPU_MATMUL_AMX_H
#define FC_CPU_MATMUL_AMX_H

enum { MATMUL_ROWS = 32, MATMUL_COLUMNS = 32, MATMUL_DEPTH = 32 };

#define MATMUL_HAS_STATE

/* The layout that the instruction LDTILECFG reads. */
typedef struct tile_shapes {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* A constant and not a local variable: gcc 12 takes the instruction to read 8 bytes, and drops what
 * is written behind them. */
static const tile_shapes MATMUL_TILES = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

static inline void matmul_begin(void)
{
    _tile_loadconfig(&MATMUL_TILES);
}

static inline void matmul_end(void)
{
    _tile_release();
}

/* Sums in tiles 0 to 3, A in 4 and 5, B in 6 and 7. */
FC_SPECIALISED void matmul_block(const operand *a, int64_t a_stride, const operand *b,
                                 int64_t depth, float *c, int64_t c_stride, bool accumulate)
{
    const size_t c_bytes = (size_t)c_stride * sizeof *c, a_bytes = (size_t)a_stride * sizeof *a;
    const size_t b_bytes = (size_t)MATMUL_COLUMNS * OPERAND_GROUP * sizeof *b;
    float *c_low = c + 16 * c_stride;
    if (accumulate) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        _tile_loadd(2, c_low, c_bytes);
        _tile_loadd(3, c_low + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < depth; k += MATMUL_DEPTH) {
        _tile_loadd(6, b + k * MATMUL_COLUMNS, b_bytes);
        _tile_loadd(4, a + k, a_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + k * MATMUL_COLUMNS + (int64_t)16 * OPERAND_GROUP, b_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + 16 * a_stride + k, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, c_low, c_bytes);
    _tile_stored(3, c_low + 16, c_bytes);
}

#endif
