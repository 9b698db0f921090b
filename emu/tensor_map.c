/* tensor_map.c: see tensor_map.h. */
#include "tensor_map.h"

#include <string.h>

const emu_tensor_map *emu_tensor_map_of(const void *bytes)
{
    const emu_tensor_map *map = bytes;
    return map->magic == EMU_TENSOR_MAP_MAGIC ? map : NULL;
}

size_t emu_box_bytes(const emu_tensor_map *map)
{
    size_t bytes = map->element_bytes;
    for (int i = 0; i < map->dims; i++)
        bytes *= map->box[i];
    return bytes;
}

/* NULL where the element is outside. */
static unsigned char *element_at(const emu_tensor_map *map, const int *coordinates,
                                 const uint32_t *index)
{
    unsigned char *element = map->memory;
    for (int i = 0; i < map->dims; i++) {
        const int64_t at = (int64_t)coordinates[i] + index[i];
        if (at < 0 || at >= map->sizes[i])
            return NULL;
        element += (uint64_t)at * map->strides[i];
    }
    return element;
}

static bool next_index(const emu_tensor_map *map, uint32_t *index)
{
    for (int i = 0; i < map->dims; i++) {
        if (++index[i] < map->box[i])
            return true;
        index[i] = 0;
    }
    return false;
}

void emu_box_visit(const emu_tensor_map *map, const int *coordinates,
                   void (*visit)(void *element, void *user), void *user)
{
    uint32_t index[EMU_TENSOR_DIMS] = {0};
    do {
        unsigned char *element = element_at(map, coordinates, index);
        if (element)
            visit(element, user);
    } while (next_index(map, index));
}

void emu_box_move(const emu_tensor_map *map, const int *coordinates, unsigned char *shared,
                  uint32_t address, bool loads)
{
    uint32_t index[EMU_TENSOR_DIMS] = {0}, offset = 0;
    do {
        unsigned char *element = element_at(map, coordinates, index);
        unsigned char *place =
            shared + (int32_t)(emu_swizzle(address + offset, map->swizzle_bytes) - address);
        if (element && loads)
            memcpy(place, element, map->element_bytes);
        else if (element)
            memcpy(element, place, map->element_bytes);
        else if (loads)
            memset(place, map->fills_nan ? 0xff : 0, map->element_bytes);
        offset += map->element_bytes;
    } while (next_index(map, index));
}
