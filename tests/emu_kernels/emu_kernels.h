/* emu_kernels.h: the argument of the small kernels that test_emu.c runs, on host and device. */
#ifndef EMU_KERNELS_H
#define EMU_KERNELS_H

#ifndef FC_PTX_BULK_CUH
/* A CUtensorMap; ptx_bulk.cuh calls it so. */
typedef struct tensor_map {
    _Alignas(64) unsigned long long opaque[16];
} tensor_map;
#endif

typedef struct kernel_args {
    tensor_map left, right, result;
    const void *input;
    float *output;
} kernel_args;

/* A tile: ROWS rows of COLUMNS f16, which are 128 bytes, a swizzle's width. */
enum { ROWS = 64, COLUMNS = 64, TILE_BYTES = ROWS * COLUMNS * 2 };

/* A tile of 8-bit elements has rows of as many bytes. */
enum { COLUMNS8 = 2 * COLUMNS };

/* The pipeline: rows of 128 floats, one after the other through STAGES. */
enum { PIPELINE_ROWS = 9, ROW_FLOATS = 128, STAGES = 2 };

#endif
