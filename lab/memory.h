/* memory.h: the memory a kernel works in, behind a few functions, so that the same checks run on
 * the memory of any device. */
#ifndef LAB_MEMORY_H
#define LAB_MEMORY_H

#include "flashcore.h"

#include <stdbool.h>

typedef struct lab_memory {
    void *user;
    /* Aligned to FC_WORKSPACE_ALIGNMENT; NULL when there is none left. */
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory);
    fc_status (*upload)(void *user, void *memory, const void *host, size_t bytes);
    fc_status (*download)(void *user, void *host, const void *memory, size_t bytes);
    /* Waits for everything that was started on the device, also what no call or copy waits for. */
    fc_status (*settle)(void *user);
    /* Makes a range inaccessible or accessible again, as far as the memory can. */
    void (*fence)(void *user, void *memory, size_t bytes, bool closed);
} lab_memory;

extern const lab_memory lab_host_memory;

/* The memory that the context's kernels work in. */
lab_memory lab_memory_of(const fc_context *context);
bool lab_is_host(const lab_memory *memory);

/* Sets every byte of a range; tells whether it holds what is expected. Piece by piece: fresh host
 * memory of the range's size costs more to get than to use. */
fc_status lab_memory_fill(const lab_memory *memory, void *range, uint8_t byte, size_t bytes);
fc_status lab_memory_compare(const lab_memory *memory, const void *range, const void *expected,
                             size_t bytes, bool *same);

/* Zeroed host memory for the harness itself; ends the program when there is none, because a check
 * without memory has no result to give. Release with free. */
void *lab_zeroed(int64_t count, size_t element_bytes);

#endif
