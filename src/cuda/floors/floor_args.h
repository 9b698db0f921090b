/* floor_args.h: the one argument of the kernels that measure what a GPU can do at most, and how
 * much work they do; the same on host and device. docs/lab.md. */
#ifndef FC_FLOOR_ARGS_H
#define FC_FLOOR_ARGS_H

typedef struct floor_args {
    const void *memory; /* reading: what is read, every chunk once */
    long long chunks;   /* of 16 bytes in it */
    int rounds;         /* products: how often a block does what follows */
    unsigned *results;  /* one a thread, so that no work is left out */
} floor_args;

/* Multiplications and additions of a block in a round. */
#define FLOOR_MMA_WARPS 8
#define FLOOR_MMA_SUMS 8 /* of a warp: more products under way than one takes the time of */
#define FLOOR_MMA_OPERATIONS (2.0 * FLOOR_MMA_WARPS * FLOOR_MMA_SUMS * 16 * 8 * 16)

#define FLOOR_WGMMA_WARPGROUPS 2 /* one multiplies while the other waits */
#define FLOOR_WGMMA_COLUMNS 256
#define FLOOR_WGMMA_DIMS 64
#define FLOOR_WGMMA_REPEATS 4 /* of a product before it is waited for */
#define FLOOR_WGMMA_OPERATIONS                                                       \
    (2.0 * FLOOR_WGMMA_WARPGROUPS * FLOOR_WGMMA_REPEATS * 64 * FLOOR_WGMMA_COLUMNS * \
     FLOOR_WGMMA_DIMS)

#endif
