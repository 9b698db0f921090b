/* ladder.h: one kernel per technique, from three scalar passes to a pipelined tensor-core kernel:
 * how attention gets fast, measurable. docs/ladder.md tells what each rung teaches. */
#ifndef FC_CUDA_LADDER_H
#define FC_CUDA_LADDER_H

#include "core/internal.h"

/* What `flashcore ladder --without` can leave out: cp-async is USE_CP_ASYNC=0. */
#define FC_LADDER_TECHNIQUES                                                                   \
    "online-softmax, tensor-scores, tensor-out, warp-softmax, wide-access, register-weights, " \
    "cp-async, swizzle, specialised, persistent, split-keys"

/* In the order of the ladder. X(name, how it is launched, the rung it builds on, what it adds) */
#define FC_LADDER_RUNGS(X)                                                                     \
    X(unfused, unfused, unfused, "scores, softmax and values as three kernels through memory") \
    X(fused, plain, unfused, "one kernel: scalar, with an online softmax")                     \
    X(tensor_scores, plain, fused, "tensor cores for the scores alone")                        \
    X(tensor_both, plain, tensor_scores, "tensor cores for both products")                     \
    X(warp_softmax, plain, tensor_both, "the lanes of a warp share a row's softmax")           \
    X(wide_loads, plain, warp_softmax, "16 bytes a load and store")                            \
    X(large_tiles, plain, wide_loads, "64 x 64 tiles in dynamic shared memory")                \
    X(registers, plain, large_tiles, "softmax and weights stay in registers")                  \
    X(double_buffer, plain, registers, "the next tile is copied while this one is used")       \
    X(three_stages, plain, double_buffer, "two tiles are under way")                           \
    X(swizzle, plain, three_stages, "XOR swizzle in place of padding")                         \
    X(specialised, plain, swizzle, "one warp copies, the others compute")                      \
    X(persistent, plain, specialised, "blocks stay and take tile after tile")                  \
    X(split_keys, split_keys, swizzle, "the keys of a tile split over blocks, then merged")    \
    X(quantised, quantised, swizzle, "FP8 inputs with scales per head")

#define FC_LADDER_DECLARE(name, how, base, text) extern const fc_kernel fc_ladder_##name;
FC_LADDER_RUNGS(FC_LADDER_DECLARE)
#undef FC_LADDER_DECLARE

#define FC_LADDER_ONE(name, how, base, text) +1
enum { FC_LADDER_RUNG_COUNT = FC_LADDER_RUNGS(FC_LADDER_ONE) };
#undef FC_LADDER_ONE

/* The rungs in the ladder's order, and the one that each builds on; the first on itself. */
extern const fc_kernel *const fc_ladder[FC_LADDER_RUNG_COUNT];
extern const fc_kernel *const fc_ladder_bases[FC_LADDER_RUNG_COUNT];

/* "ladder_swizzle_d64": the variant of variants.txt that serves the problem. */
enum { FC_LADDER_VARIANT_BYTES = 64 };
void fc_ladder_variant_name(const fc_kernel *rung, const fc_attention *problem,
                            char name[FC_LADDER_VARIANT_BYTES]);

/* What a plan's kernels take of the GPU: the largest of its launches. */
typedef struct fc_ladder_facts {
    int registers;
    int shared_bytes; /* static and dynamic */
    int blocks_a_multiprocessor;
} fc_ladder_facts;
void fc_ladder_read_facts(const fc_plan *plan, fc_ladder_facts *facts);

#endif
