/* memory.c: see memory.h. */
#include "memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, MOST_FENCES = 16 };

typedef struct range {
    uintptr_t low, high;
} range;

typedef struct allocation {
    struct allocation *next;
    range bytes;
    range closed[MOST_FENCES];
    int closed_count;
    uint32_t *writers; /* of each byte: emu_open_memory */
} allocation;

static allocation *allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *emu_memory_allocate(size_t bytes)
{
    allocation *a = calloc(1, sizeof *a);
    void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    uint32_t *writers = calloc(bytes + 1, sizeof *writers);
    if (!a || !memory || !writers) {
        free(a);
        free(memory);
        free(writers);
        return NULL;
    }
    memset(memory, 0xff, bytes);
    a->bytes = (range){(uintptr_t)memory, (uintptr_t)memory + bytes};
    a->writers = writers;
    pthread_mutex_lock(&lock);
    a->next = allocations;
    allocations = a;
    pthread_mutex_unlock(&lock);
    return memory;
}

bool emu_memory_free(void *memory)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (allocation **link = &allocations; *link && !found; link = &(*link)->next) {
        allocation *a = *link;
        if (a->bytes.low != (uintptr_t)memory)
            continue;
        *link = a->next;
        free(a->writers);
        free(a);
        free(memory);
        found = true;
        break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static allocation *allocation_of(uintptr_t address)
{
    for (allocation *a = allocations; a; a = a->next)
        if (address >= a->bytes.low && address < a->bytes.high)
            return a;
    return NULL;
}

void emu_memory_fence(const void *memory, size_t bytes, bool closed)
{
    const range fenced = {(uintptr_t)memory, (uintptr_t)memory + bytes};
    pthread_mutex_lock(&lock);
    allocation *a = allocation_of(fenced.low);
    if (a && closed && a->closed_count < MOST_FENCES) {
        a->closed[a->closed_count++] = fenced;
    } else if (a && !closed) {
        int kept = 0;
        for (int i = 0; i < a->closed_count; i++)
            if (a->closed[i].low != fenced.low || a->closed[i].high != fenced.high)
                a->closed[kept++] = a->closed[i];
        a->closed_count = kept;
    }
    pthread_mutex_unlock(&lock);
}

bool emu_memory_find(const void *memory, size_t bytes, emu_open_memory *found)
{
    const uintptr_t address = (uintptr_t)memory;
    const allocation *a = allocation_of(address);
    if (!a || address + bytes > a->bytes.high)
        return false;
    range open = a->bytes;
    for (int i = 0; i < a->closed_count; i++) {
        const range *fence = &a->closed[i];
        if (address + bytes > fence->low && address < fence->high)
            return false;
        if (fence->high <= address && fence->high > open.low)
            open.low = fence->high;
        if (fence->low >= address + bytes && fence->low < open.high)
            open.high = fence->low;
    }
    *found = (emu_open_memory){open.low, open.high, a->writers + (open.low - a->bytes.low)};
    return true;
}

bool emu_memory_is_constant(const void *memory)
{
    Dl_info binary;
    return dladdr(memory, &binary) != 0;
}

static size_t distance_to(const range *bytes, uintptr_t address)
{
    return address < bytes->low    ? bytes->low - address
           : address < bytes->high ? 0
                                   : address - bytes->high;
}

void emu_memory_describe(const void *memory, char *text, size_t bytes)
{
    enum { NEAR = 1 << 20 };
    const uintptr_t address = (uintptr_t)memory;
    const allocation *nearest = NULL;
    for (const allocation *a = allocations; a; a = a->next)
        if (!nearest || distance_to(&a->bytes, address) < distance_to(&nearest->bytes, address))
            nearest = a;
    if (!nearest || distance_to(&nearest->bytes, address) > NEAR) {
        snprintf(text, bytes, "memory at %p, which is none of the device's", memory);
        return;
    }
    const size_t size = nearest->bytes.high - nearest->bytes.low;
    if (address < nearest->bytes.low)
        snprintf(text, bytes, "global memory, %zu bytes before an allocation of %zu",
                 (size_t)(nearest->bytes.low - address), size);
    else if (address >= nearest->bytes.high)
        snprintf(text, bytes, "global memory, %zu bytes past the end of an allocation of %zu",
                 (size_t)(address - nearest->bytes.high), size);
    else
        snprintf(text, bytes, "global memory, at byte %zu of an allocation of %zu%s",
                 (size_t)(address - nearest->bytes.low), size,
                 nearest->closed_count ? ", where a guard is" : "");
}
