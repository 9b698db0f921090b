/* sm90_args.h: the argument of the sm_90 kernels, the same struct on host and device. */
#ifndef FC_SM90_ARGS_H
#define FC_SM90_ARGS_H

/* Stands behind attention_args.h and ptx_bulk.cuh, or on the host cuda.h. */
#ifndef FC_PTX_BULK_CUH
typedef CUtensorMap tensor_map;
#endif

/* The order of prefill.cu's work: one line of the constant cache, read before anything is
 * fetched. */
typedef struct work_order {
    int tiles;                /* of the longest sequence's packed rows */
    int takes_pairs;          /* 1: a block takes two tiles in turn */
    fast_divisor parcels;     /* pairs of tiles of a sequence, or else tiles */
    fast_divisor head_groups; /* query heads, or groups of those that share a tile */
    int all_parcels;          /* of all sequences */
    int stores_boxes;         /* 1: out's map is there */
    int unused[6];            /* not an attribute: NVRTC ignores it */
} work_order;

typedef struct sm90_args {
    /* dim, row, head, batch; q and out of prefill.cu: dim, head, row, batch. */
    tensor_map q, k, v, out;
    work_order order;
    unsigned char unused[60 - ATTENTION_ARGS_FIRST_BYTES]; /* so that its lines are the cache's */
    float scale;                                           /* of scores */
    attention_args attention;
} sm90_args;

#endif
