/* tensor_map.h: what stands in the 128 bytes of a CUtensorMap that the emulated driver made. */
#ifndef EMU_TENSOR_MAP_H
#define EMU_TENSOR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_TENSOR_DIMS = 5 };

typedef struct emu_tensor_map {
    uint32_t magic;
    uint8_t dims;
    uint8_t element_bytes;
    uint8_t swizzle_bytes; /* 0, 32, 64 or 128 */
    uint8_t fills_nan;     /* out of bounds; else 0 */
    unsigned char *memory;
    uint32_t sizes[EMU_TENSOR_DIMS];
    uint16_t box[EMU_TENSOR_DIMS];
    uint64_t strides[EMU_TENSOR_DIMS]; /* bytes; the first is that of an element */
} emu_tensor_map;

enum { EMU_TENSOR_MAP_MAGIC = 0x54454e53 };

/* NULL: the bytes are no map. */
const emu_tensor_map *emu_tensor_map_of(const void *bytes);

size_t emu_box_bytes(const emu_tensor_map *map);

/* Every element of the box at these coordinates that lies inside the tensor. */
void emu_box_visit(const emu_tensor_map *map, const int *coordinates,
                   void (*visit)(void *element, void *user), void *user);

/* Moves the box at these coordinates between the tensor and shared memory, whose first byte has
 * the address `address` (the swizzle depends on it). A load fills what lies outside the tensor, a
 * store leaves it out. */
void emu_box_move(const emu_tensor_map *map, const int *coordinates, unsigned char *shared,
                  uint32_t address, bool loads);

/* Where a 16-byte chunk lies: the bits above 128 bytes turn those of the chunk. */
static inline uint32_t emu_swizzle(uint32_t address, int swizzle_bytes)
{
    const uint32_t chunks = (uint32_t)swizzle_bytes / 16;
    return chunks < 2 ? address : address ^ ((address >> 7 & (chunks - 1)) << 4);
}

#endif
