/* shadow.h: the history of a block's shared memory, word by word: which bytes were ever written,
 * and the reads and writes that a later access may still collide with. An access is a race when an
 * earlier one of the same bytes, one of the two a write, is not known to be over (vector.h). */
#ifndef EMU_SHADOW_H
#define EMU_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_fiber;

enum { EMU_WORD_BYTES = 4 };

/* How a record came to be. */
enum {
    EMU_IN_FLIGHT = 1, /* an asynchronous copy that has not been waited for: collides with all */
    EMU_ATOMIC = 2,    /* two atomics do not collide */
    EMU_PROXY = 4      /* by the asynchronous proxy: bulk copies, wgmma */
};

/* Accesses of the same bytes of a word, by lanes of one warp at one clock. */
typedef struct emu_record {
    uint32_t next; /* index of a record; 0 ends the list */
    uint32_t clock;
    uint32_t lanes;
    uint16_t warp;
    uint8_t bytes; /* of the word, bit per byte */
    uint8_t flags;
    uintptr_t pc;
} emu_record;

typedef struct emu_word {
    uint32_t writes, reads; /* lists */
} emu_word;

/* Beside the four bits of the bytes that were written. */
enum { EMU_WRITTEN = 15, EMU_IS_MBARRIER = 16 };

typedef struct emu_shadow {
    emu_word *words;
    uint8_t *states;
    size_t word_count, word_room;
    emu_record *records; /* [0] is not used */
    uint32_t record_count, record_room;
    uint32_t free_list;
} emu_shadow;

typedef struct emu_access {
    struct emu_fiber *by;
    emu_shadow *shadow;
    size_t offset; /* in the shared memory of the shadow's block */
    unsigned bytes;
    unsigned flags;
    uintptr_t pc;
} emu_access;

/* Everything unwritten, nothing ever accessed. */
void emu_shadow_start(emu_shadow *shadow, size_t bytes);

/* Note an access, or end the launch with a report. */
void emu_shadow_read(const emu_access *access);
void emu_shadow_write(const emu_access *access);

/* What touched these bytes in flight, by an instruction at access->pc, is over: from now on it is
 * an access by `number` (a thread or an engine: vector.h) at its clock. */
void emu_shadow_land(const emu_access *access, uint32_t number, uint32_t clock);

#endif
