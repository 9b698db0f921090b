/* random.h: the counter-based generator behind dropout, as flashcore.h defines it. */
#ifndef FC_CORE_RANDOM_H
#define FC_CORE_RANDOM_H

#include "flashcore.h"

#include <stdbool.h>

typedef struct fc_philox_block {
    uint32_t word[4];
} fc_philox_block;

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
static inline fc_philox_block fc_philox(fc_philox_block counter, uint32_t key0, uint32_t key1)
{
    uint32_t *c = counter.word;
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c[0];
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next0 = (uint32_t)(product1 >> 32) ^ c[1] ^ key0;
        const uint32_t next2 = (uint32_t)(product0 >> 32) ^ c[3] ^ key1;
        c[1] = (uint32_t)product1;
        c[3] = (uint32_t)product0;
        c[0] = next0;
        c[2] = next2;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* Whether the weight of (row, key) is kept; row and key count within the sequence. */
static inline bool fc_dropout_keeps(const fc_attention *problem, uint64_t seed, uint64_t offset,
                                    int64_t batch, int64_t q_head, int64_t row, int64_t key)
{
    const fc_philox_block counter = {{(uint32_t)(key / 4), (uint32_t)row,
                                      (uint32_t)(batch * problem->q_heads + q_head),
                                      (uint32_t)offset}};
    const fc_philox_block random =
        fc_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)(offset >> 32));
    return (double)random.word[key % 4] >= (double)problem->dropout_p * 4294967296.0;
}

#endif
