/* stream.h: a fuzz input read as a sequence of small decisions. An input that ends early goes on
 * with zeros, so that every prefix of an input is an input. */
#ifndef FUZZ_STREAM_H
#define FUZZ_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_stream {
    const uint8_t *bytes;
    size_t left;
} fuzz_stream;

static inline uint8_t fuzz_u8(fuzz_stream *stream)
{
    if (!stream->left)
        return 0;
    stream->left--;
    return *stream->bytes++;
}

static inline uint64_t fuzz_u64(fuzz_stream *stream)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | fuzz_u8(stream);
    return value;
}

/* True for one byte value in `rarity`, and never once the input has ended. */
static inline bool fuzz_chance(fuzz_stream *stream, unsigned rarity)
{
    return fuzz_u8(stream) % rarity == rarity - 1;
}

static inline int64_t fuzz_pick(fuzz_stream *stream, const int64_t *choices, size_t count)
{
    return choices[fuzz_u8(stream) % count];
}

#define FUZZ_PICK(stream, ...)                          \
    fuzz_pick((stream), (const int64_t[]){__VA_ARGS__}, \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

#endif
