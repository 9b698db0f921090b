/* memory.c: see memory.h. */
#include "memory.h"

#include "cuda/services.h"
#include "emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

static void *host_allocate(void *user, size_t bytes)
{
    (void)user;
    const size_t alignment = FC_WORKSPACE_ALIGNMENT;
    return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

static void host_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static fc_status host_upload(void *user, void *memory, const void *host, size_t bytes)
{
    (void)user;
    memcpy(memory, host, bytes);
    return FC_OK;
}

static fc_status host_download(void *user, void *host, const void *memory, size_t bytes)
{
    (void)user;
    memcpy(host, memory, bytes);
    return FC_OK;
}

static fc_status host_settle(void *user)
{
    (void)user;
    return FC_OK;
}

static void host_fence(void *user, void *memory, size_t bytes, bool closed)
{
    (void)user;
#ifdef HAS_ASAN
    if (closed)
        ASAN_POISON_MEMORY_REGION(memory, bytes);
    else
        ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#else
    (void)memory, (void)bytes, (void)closed;
#endif
}

const lab_memory lab_host_memory = {
    .allocate = host_allocate,
    .release = host_release,
    .upload = host_upload,
    .download = host_download,
    .settle = host_settle,
    .fence = host_fence,
};

static void *cuda_allocate(void *user, size_t bytes)
{
    void *memory;
    return fc_cuda_allocate(user, bytes, &memory) == FC_OK ? memory : NULL;
}

static void cuda_release(void *user, void *memory)
{
    fc_cuda_free(user, memory);
}

static fc_status cuda_upload(void *user, void *memory, const void *host, size_t bytes)
{
    return fc_cuda_upload(user, memory, host, bytes);
}

static fc_status cuda_download(void *user, void *host, const void *memory, size_t bytes)
{
    return fc_cuda_download(user, host, memory, bytes);
}

static fc_status cuda_settle(void *user)
{
    return fc_cuda_settle(user);
}

/* A GPU can't; the emulator can. */
static void cuda_fence(void *user, void *memory, size_t bytes, bool closed)
{
    (void)user;
    const emu_control *emulator = fc_cuda_emulator();
    if (emulator)
        emulator->fence(memory, bytes, closed);
}

lab_memory lab_memory_of(const fc_context *context)
{
    if (!context->cuda)
        return lab_host_memory;
    return (lab_memory){
        .user = context->cuda,
        .allocate = cuda_allocate,
        .release = cuda_release,
        .upload = cuda_upload,
        .download = cuda_download,
        .settle = cuda_settle,
        .fence = cuda_fence,
    };
}

bool lab_is_host(const lab_memory *memory)
{
    return memory->allocate == host_allocate;
}

enum { PIECE_BYTES = 4 << 20 }; /* long enough to copy at full speed */

static size_t piece_at(size_t done, size_t bytes)
{
    return bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
}

fc_status lab_memory_fill(const lab_memory *memory, void *range, uint8_t byte, size_t bytes)
{
    const size_t piece_bytes = piece_at(0, bytes);
    uint8_t *piece = lab_zeroed((int64_t)piece_bytes, 1);
    fc_status status = FC_OK;
    memset(piece, byte, piece_bytes);
    for (size_t done = 0; done < bytes && status == FC_OK; done += PIECE_BYTES)
        status =
            memory->upload(memory->user, (uint8_t *)range + done, piece, piece_at(done, bytes));
    free(piece);
    return status;
}

fc_status lab_memory_compare(const lab_memory *memory, const void *range, const void *expected,
                             size_t bytes, bool *same)
{
    uint8_t *piece = lab_zeroed((int64_t)piece_at(0, bytes), 1);
    fc_status status = FC_OK;
    *same = true;
    for (size_t done = 0; done < bytes && status == FC_OK && *same; done += PIECE_BYTES) {
        const size_t length = piece_at(done, bytes);
        status = memory->download(memory->user, piece, (const uint8_t *)range + done, length);
        *same = status == FC_OK && memcmp(piece, (const uint8_t *)expected + done, length) == 0;
    }
    free(piece);
    return status;
}

void *lab_zeroed(int64_t count, size_t element_bytes)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, element_bytes);
    if (!memory) {
        fprintf(stderr, "out of memory for %lld elements of %zu bytes\n", (long long)count,
                element_bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}
