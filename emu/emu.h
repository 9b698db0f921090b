/* emu.h: what a program may ask of the emulator beside the driver's own functions. The emulator is
 * a library that is opened in place of libcuda.so.1; find these with dlsym. */
#ifndef EMU_H
#define EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of all launches since the last reset. */
typedef struct emu_totals {
    uint64_t launches;
    uint64_t blocks;
    uint64_t mma;            /* warp instructions, each of 16×8×16 products */
    uint64_t mma8;           /* the same of 8-bit operands, each of 16×8×32 products */
    uint64_t wgmma_products; /* products of wgmma */
    uint64_t wgmma8_products;
    uint64_t ldmatrix;       /* warp instructions */
    uint64_t exp2;           /* calls of a thread */
    uint64_t shuffles;       /* warp instructions, votes and reductions among them */
    uint64_t barriers;       /* a warp's visits to __syncthreads and numbered barriers */
    uint64_t warp_syncs;     /* warp instructions */
    uint64_t mbarrier_waits; /* of a thread */
    uint64_t copies;         /* cp.async of a thread */
    uint64_t bulk_copies;
    uint64_t bulk_bytes;      /* of global memory that they read or write */
    uint64_t shared_requests; /* of a warp */
    uint64_t shared_passes;
    uint64_t bank_conflicts; /* passes beyond the fewest that the bytes need */
    uint64_t global_reads;   /* requests of a warp */
    uint64_t global_read_sectors;
    uint64_t global_writes;
    uint64_t global_write_sectors;
    uint64_t wasted_sectors; /* beyond the fewest that the bytes need, reads and writes */
} emu_totals;

/* One line of a kernel's source that accessed memory. */
typedef struct emu_line {
    char place[96]; /* "swizzle.cu:133" */
    char space;     /* 's' shared, 'g' global */
    bool writes;
    uint64_t requests;
    uint64_t units; /* passes or sectors */
    uint64_t fewest_units;
} emu_line;

/* const emu_control *emu_control_functions(void) gives these. */
typedef struct emu_control {
    /* Counting costs time; it is off until asked for. */
    void (*count)(bool on);
    void (*reset)(void);
    void (*totals)(emu_totals *totals);
    /* Lines by what they waste, worst first. Returns how many there are; fills in at most `room`.
     */
    size_t (*lines)(emu_line *lines, size_t room);
    /* 0: everything happens as late as the rules allow; else at random moments. */
    void (*seed)(uint64_t seed);
    /* Makes a range of device memory inaccessible to kernels, or accessible again. */
    void (*fence)(const void *memory, size_t bytes, bool closed);
    /* The whole report of the last launch that failed. */
    const char *(*report)(void);
} emu_control;

#endif
