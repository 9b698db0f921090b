/* kernel_shape.h: how a kernel wants to be launched, said in its own file and read by the host out
 * of the compiled binary, so that tile sizes and shared-memory sizes are written down once.
 *
 * A kernel NAME comes with a variable NAME_shape:
 *     KERNEL_SHAPE(NAME, .query_tile = …) */
#ifndef FC_CUDA_KERNEL_SHAPE_H
#define FC_CUDA_KERNEL_SHAPE_H

/* How a kernel's blocks are laid out over the work. */
typedef enum kernel_grid {
    GRID_TILES,    /* x = query tile, y = query head, z = batch */
    GRID_RESIDENT, /* x = as many blocks as fit on the GPU at once, at most one a tile */
    GRID_EACH,     /* x = a block a tile, over all heads and sequences */
    GRID_SPLITS,   /* as GRID_TILES, z = batch · splits + split */
    GRID_GROUPS    /* x = query tile · sequences of a group + sequence, y = group of sequences */
} kernel_grid;

typedef struct kernel_shape {
    int query_tile;   /* query rows a block owns */
    int kv_tile;      /* keys a block takes at a time */
    int threads;      /* of a block */
    int shared_bytes; /* dynamic shared memory of a block */
    int grid;         /* a kernel_grid; unsaid GRID_TILES */
    int heads;        /* of sm90/latency.cu: query heads a block owns such tiles of; unsaid one */
} kernel_shape;

#endif
