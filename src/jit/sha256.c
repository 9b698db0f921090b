/* sha256.c: the names a to h, W and K are those of FIPS 180-4, section 6.2. */
#include "jit/sha256.h"

#include <string.h>

enum { ROUNDS = 64, LENGTH_AT = JIT_SHA256_BLOCK - 8 };

static const uint32_t K[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static uint32_t load_big_endian(const unsigned char *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void store_big_endian(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void expand_schedule(const unsigned char *block, uint32_t W[ROUNDS])
{
    for (size_t t = 0; t < 16; t++)
        W[t] = load_big_endian(block + 4 * t);
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t x = W[t - 15], y = W[t - 2];
        uint32_t s0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3;
        uint32_t s1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
        W[t] = s1 + W[t - 7] + s0 + W[t - 16];
    }
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t W[ROUNDS];
    expand_schedule(block, W);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < ROUNDS; t++) {
        uint32_t choice = (e & f) ^ (~e & g);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t T1 = h + sum1 + choice + K[t] + W[t];
        uint32_t T2 = sum0 + majority;
        h = g, g = f, f = e, e = d + T1;
        d = c, c = b, b = a, a = T1 + T2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void jit_sha256_start(jit_sha256 *hash)
{
    *hash = (jit_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void jit_sha256_add(jit_sha256 *hash, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        size_t filled = hash->bytes % JIT_SHA256_BLOCK;
        size_t taken = JIT_SHA256_BLOCK - filled;
        if (taken > bytes)
            taken = bytes;
        memcpy(hash->block + filled, from, taken);
        hash->bytes += taken;
        from += taken;
        bytes -= taken;
        if (hash->bytes % JIT_SHA256_BLOCK == 0)
            compress(hash->state, hash->block);
    }
}

void jit_sha256_finish(jit_sha256 *hash, unsigned char digest[JIT_SHA256_BYTES])
{
    static const unsigned char padding[JIT_SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->bytes * 8;
    size_t filled = hash->bytes % JIT_SHA256_BLOCK;
    jit_sha256_add(hash, padding, (filled < LENGTH_AT ? LENGTH_AT : LENGTH_AT + 64) - filled);
    unsigned char length[8];
    store_big_endian(length, (uint32_t)(bits >> 32));
    store_big_endian(length + 4, (uint32_t)bits);
    jit_sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < 8; i++)
        store_big_endian(digest + 4 * i, hash->state[i]);
}
