/* blocks.h: memory for a fuzzed problem, each block exactly as large as the problem may touch.
 *
 * Sizes and strides are worked out here once more, apart from the library: where the two disagree,
 * AddressSanitizer sees the access that should not be. */
#ifndef FUZZ_BLOCKS_H
#define FUZZ_BLOCKS_H

#include "run.h"

/* The tensors, in the order of their strides in fc_attention, then all else. */
enum {
    Q,
    K,
    V,
    OUT,
    LSE,
    DOUT,
    DQ,
    DK,
    DV,
    TENSORS,
    Q_SCALE = TENSORS,
    K_SCALE,
    V_SCALE,
    ALIBI,
    BIAS,
    MASK,
    SINKS,
    CU_Q,
    CU_KV,
    KV_LENGTHS,
    PAGE_TABLE,
    DBIAS,
    DSINKS,
    FORWARD_WORKSPACE,
    BACKWARD_WORKSPACE,
    BLOCKS
};

typedef struct fuzz_block {
    uint8_t *memory;
    void *origin; /* where index 0 is: strides may be negative; NULL: not part of the problem */
    size_t bytes;
} fuzz_block;

/* False: too large to be quick. Free in either case. */
bool fuzz_blocks_reserve(fuzz_block blocks[BLOCKS], const fc_attention *p, const fc_plan *plan);
void fuzz_blocks_free(fuzz_block blocks[BLOCKS]);

#endif
