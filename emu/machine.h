/* machine.h: the blocks of one cluster while they run. Every thread is a fiber with a stack of its
 * own; all fibers of a cluster share one OS thread, so that nothing here needs a lock.
 *
 *   machine ─ blocks ─ warps ─ fibers      what runs
 *           ─ shadow                       who wrote and read each word of shared memory, and when
 *           ─ vectors                      what each thread knows to be over (vector.h) */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include "counts.h"
#include "shadow.h"
#include "vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU_LANES = 32,
    EMU_MOST_THREADS = 1024,      /* of a block */
    EMU_MOST_BLOCKS = 16,         /* of a cluster */
    EMU_STACK_BYTES = 128 * 1024, /* of a fiber, its guard page included */
    EMU_BARRIERS = 16,
    EMU_SHARED_BASE = 1024, /* address of the first byte of shared memory */
};
#define EMU_ALL_LANES 0xffffffffu

typedef struct emu_machine emu_machine;
typedef struct emu_block emu_block;
typedef struct emu_warp emu_warp;
typedef struct emu_fiber emu_fiber;

/* What a thread waits for. */
typedef enum emu_wait_kind {
    EMU_RUNNING,
    EMU_AT_COLLECTIVE, /* for the other lanes of its warp */
    EMU_AT_BARRIER,    /* for other warps */
    EMU_AT_MBARRIER,
    EMU_AT_CLUSTER, /* for the other blocks */
    EMU_LEFT
} emu_wait_kind;

typedef enum emu_collective {
    EMU_SYNC_WARP,
    EMU_SHUFFLE,
    EMU_BALLOT,
    EMU_REDUCE,
    EMU_LDMATRIX,
    EMU_STMATRIX,
    EMU_MMA,
    EMU_WGMMA,
    EMU_WGMMA_FENCE,
    EMU_WGMMA_COMMIT,
    EMU_WGMMA_WAIT,
    EMU_CLUSTER_ARRIVE,
    EMU_CLUSTER_WAIT,
    EMU_BARRIER
} emu_collective;

typedef struct emu_place {
    const char *file;
    int line;
    uintptr_t pc;
} emu_place;

/* A lane's visit to a collective. The last lane that comes works on the arguments of all. */
typedef struct emu_visit {
    emu_collective collective;
    unsigned mask;
    int detail; /* of two lanes at one place it must be the same: barrier, kind of shuffle… */
    emu_place place;
    void *arguments; /* on the lane's own stack */
} emu_visit;

typedef struct emu_copy {
    unsigned char *shared;
    const unsigned char *global;
    uint16_t bytes, wanted;
    uint32_t group;
    uintptr_t pc;
} emu_copy;

/* A thread's cp.async copies in the order they were started. */
typedef struct emu_copies {
    emu_copy *list;
    uint32_t first, count, room;
    uint32_t group; /* the one that is open */
} emu_copies;

/* What a thread did to the arrays on its stack that may be registers of a wgmma: wgmma.c. */
typedef struct emu_registers {
    bool fenced; /* ever */
    /* Words accessed since the last fence, a bit each. */
    uint32_t touched[EMU_STACK_BYTES / EMU_WORD_BYTES / 32];
} emu_registers;

struct emu_fiber {
    void *stack_pointer; /* while it does not run */
    unsigned char *stack;
    emu_machine *machine;
    emu_block *block;
    emu_warp *warp;
    unsigned number; /* in the cluster */
    unsigned thread; /* in the block */
    int lane;
    emu_wait_kind wait;
    emu_visit visit; /* while wait is EMU_AT_COLLECTIVE or EMU_AT_BARRIER */
    void *mbarrier;  /* while wait is EMU_AT_MBARRIER */
    int mbarrier_parity;
    uint32_t cluster_waits; /* cluster barriers that it has waited for */
    emu_knowledge knowledge;
    emu_copies copies;
    uint32_t store_group; /* of bulk stores, the one that is open */
    emu_registers registers;
};

typedef struct emu_product emu_product;
typedef struct emu_bulk emu_bulk;

struct emu_warp {
    emu_fiber *lanes; /* EMU_LANES of them */
    emu_block *block;
    unsigned ready;        /* lanes that could run */
    unsigned collecting;   /* lanes at a collective */
    unsigned left;         /* lanes that have ended */
    int index;             /* in the cluster */
    emu_product *products; /* wgmma that have not been waited for, in order */
    uint32_t product_group;
    uint32_t product_clock, store_clock; /* completions: vector.h */
    uint32_t cluster_arrivals;           /* to the cluster's barrier */
    emu_trace *trace; /* accesses since the lanes were last together; only while counting */
};

typedef struct emu_barrier_state {
    int expected; /* threads; 0: nobody came yet */
    int arrived;
    unsigned warps_waiting; /* bit per warp of the block */
    unsigned warps_arrived;
    emu_gather gather;
    emu_place first; /* where the first one came */
    int reduction;   /* of __syncthreads_count and its kin */
} emu_barrier_state;

typedef struct emu_mbarrier emu_mbarrier;

struct emu_block {
    unsigned index[3];
    unsigned rank;   /* in the cluster */
    uint32_t number; /* through all launches */
    unsigned char *shared;
    emu_shadow shadow;
    emu_warp *warps;
    emu_barrier_state barriers[EMU_BARRIERS];
    emu_mbarrier *mbarriers; /* a list */
    unsigned threads_left;
};

/* Blocks are numbered through all launches, so that a byte of global memory can tell who wrote it
 * last: 0 nobody, or the host. */
typedef struct emu_open_memory {
    uintptr_t low, high;
    uint32_t *writers; /* of each byte from `low` on */
} emu_open_memory;

typedef struct emu_launch {
    void (*start)(const void *args);
    const void *args;
    unsigned grid[3];
    unsigned threads; /* of a block */
    unsigned cluster; /* blocks, along x */
    size_t shared_bytes;
    uint64_t seed; /* 0: everything as late as allowed; else order and completions at random */
    bool counting;
    bool starts_early; /* when the kernel before lets it: programmatic dependent launch */
    /* Set by emu_launch_run: the number of the first block, and of the first block of the kernels
     * that may still be running; the same where none may. */
    uint32_t first_block, first_running;
} emu_launch;

enum { EMU_MOST_PLACES = 48, EMU_FAILURE_BYTES = 4096 };

/* Why a launch ended. The text names places by their number: see emu_fail. */
typedef struct emu_failure {
    bool failed;
    char text[EMU_FAILURE_BYTES];
    uintptr_t places[EMU_MOST_PLACES];
    int place_count;
} emu_failure;

struct emu_machine {
    const emu_launch *launch;
    unsigned block_count, warp_count, thread_count;
    unsigned threads_left; /* that have not ended */
    emu_block blocks[EMU_MOST_BLOCKS];
    emu_warp *warps;
    emu_fiber *fibers;
    unsigned char *stacks;
    size_t stack_count;
    unsigned char *shared; /* of all blocks, shared_stride apart */
    size_t shared_stride, shared_room;
    void *main_stack_pointer;
    emu_bulk *bulk;           /* copies that have not completed, in order */
    unsigned cluster_arrived; /* threads at the cluster's barrier, in its phase */
    uint32_t cluster_phase;
    emu_gather cluster_gather;
    emu_vector *cluster_completed;
    uint32_t engine_clocks[EMU_ENGINES];
    unsigned engines_used;
    emu_vectors vectors;
    emu_counts counts;
    emu_failure failure;
    emu_open_memory open; /* global memory found last: memory.h */
    bool lets_next_start; /* some thread said so */
    bool lets_next_hurry; /* and did not know that the kernels before were over */
    uint64_t random;
};

/* The thread that runs on this OS thread; NULL outside of kernels. */
extern _Thread_local emu_fiber *emu_self __attribute__((tls_model("initial-exec")));

/* A machine with room for the launch; NULL when there is no memory. */
emu_machine *emu_machine_create(void);
bool emu_machine_prepare(emu_machine *machine, const emu_launch *launch);

/* Runs the cluster whose first block is `first` in x, to its end or its first failure. */
void emu_machine_run(emu_machine *machine, unsigned first, unsigned y, unsigned z);

/* fiber.c, switch.S */
void emu_fiber_prepare(emu_fiber *fiber, void (*entry)(void));
void emu_switch(void **save, void *load);

/* schedule.c: the caller does not run on until somebody made its lane ready again. */
void emu_pause(emu_fiber *self);
void emu_make_ready(emu_fiber *fiber);
void emu_end_fiber(emu_fiber *self) __attribute__((noreturn));
uint64_t emu_random(emu_machine *machine);

/* fail.c: ends the launch. In the text, \001 followed by a digit or letter (emu_place_mark) stands
 * for the source line of a pc that emu_add_place was given. */
void emu_fail(emu_machine *machine, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
int emu_add_place(emu_machine *machine, uintptr_t pc);
char emu_place_mark(int place);

/* dependent.c: whether a thread may rely on what the kernel before wrote. */
bool emu_knows_previous(const emu_fiber *fiber);

/* collective.c: waits for the lanes of mask and returns true in the last one, which has to do the
 * work for all and then call emu_dismiss. */
bool emu_meet(emu_fiber *self, const emu_visit *visit);
void emu_dismiss(emu_warp *warp, unsigned mask);
/* By line: the compiler may make several addresses of one. */
bool emu_is_same_place(const emu_place *a, const emu_place *b);
void emu_describe_thread(const emu_fiber *fiber, char text[96]);

/* The lanes of mask now know what each of them did. */
void emu_order_lanes(emu_warp *warp, unsigned mask);

static inline void *emu_arguments(const emu_warp *warp, int lane)
{
    return warp->lanes[lane].visit.arguments;
}

#define EMU_CALLER ((uintptr_t)__builtin_return_address(0))

#endif
