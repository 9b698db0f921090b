/* sha256.h: SHA-256 as FIPS 180-4 defines it. */
#ifndef FC_JIT_SHA256_H
#define FC_JIT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { JIT_SHA256_BYTES = 32, JIT_SHA256_BLOCK = 64 };

typedef struct jit_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* so far; those past the last whole block wait in block */
    unsigned char block[JIT_SHA256_BLOCK];
} jit_sha256;

void jit_sha256_start(jit_sha256 *hash);
void jit_sha256_add(jit_sha256 *hash, const void *data, size_t bytes);
void jit_sha256_finish(jit_sha256 *hash, unsigned char digest[JIT_SHA256_BYTES]);

#endif
