/* vector.h: vector clocks. A thread counts its releases (barriers it came to, arrivals); what it
 * did before its n-th release is over for another thread once that one knows n of it.
 *
 * A vector holds such numbers of every thread of the cluster, and behind them the same once more
 * for what the asynchronous proxy may see. It is never changed once threads share it: all threads
 * that left one barrier hold the same one, so that a barrier costs one vector and not one each. */
#ifndef EMU_VECTOR_H
#define EMU_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

/* Completions of asynchronous operations count like releases of threads of their own, whose
 * numbers stand behind those of the threads: an engine for the copies of an mbarrier (or several),
 * then one for the wgmma and one for the stores of each warp, last the kernel before this one. */
enum { EMU_ENGINES = 64 };

typedef struct emu_vector {
    uint32_t references;
    struct emu_vector *next_free;
    uint32_t known[];
} emu_vector;

typedef struct emu_vectors {
    uint32_t half; /* numbers of one half: threads and engines */
    emu_vector *free_list;
} emu_vectors;

/* What one thread knows. Its own numbers are kept here and not in the shared vector. */
typedef struct emu_knowledge {
    emu_vector *vector;
    uint32_t clock;   /* of its own: 1 more than its releases */
    uint32_t proxied; /* its own writes that the asynchronous proxy may see: clocks up to this */
} emu_knowledge;

/* What those who come to a barrier bring together. */
typedef struct emu_gather {
    emu_vector *vector; /* NULL: nobody came */
    emu_vector *last;   /* joined last: threads that share a vector join it once */
} emu_gather;

void emu_vectors_start(emu_vectors *vectors, uint32_t half);
void emu_vectors_end(emu_vectors *vectors);

emu_vector *emu_vector_zero(emu_vectors *vectors);
emu_vector *emu_vector_copy(emu_vectors *vectors, const emu_vector *from);
void emu_vector_join(const emu_vectors *vectors, emu_vector *into, const emu_vector *from);
emu_vector *emu_vector_hold(emu_vector *vector);
void emu_vector_release(emu_vectors *vectors, emu_vector *vector); /* NULL is fine */

/* A release: the thread's knowledge goes in, and its clock goes on. */
void emu_gather_add(emu_vectors *vectors, emu_gather *gather, emu_knowledge *thread,
                    uint32_t number);
/* An acquire, by a thread that was added itself, or by one that was not. */
void emu_gather_take(emu_vectors *vectors, const emu_gather *gather, emu_knowledge *thread);
void emu_knowledge_join(emu_vectors *vectors, emu_knowledge *thread, const emu_vector *from);
/* What one other did up to a clock is over for the thread, and for its asynchronous proxy. */
void emu_knowledge_learn(emu_vectors *vectors, emu_knowledge *thread, uint32_t number,
                         uint32_t clock);
/* A proxy fence: what is over for the thread is over for its asynchronous proxy too. */
void emu_knowledge_fence(emu_vectors *vectors, emu_knowledge *thread);
void emu_gather_clear(emu_vectors *vectors, emu_gather *gather);

/* Whether what `number` did at its clock `clock` is over for a thread. */
static inline bool emu_knows(const emu_knowledge *thread, uint32_t self, uint32_t number,
                             uint32_t clock)
{
    return number == self || thread->vector->known[number] >= clock;
}

/* The same for what the asynchronous proxy does on behalf of the thread. */
static inline bool emu_proxy_knows(const emu_vectors *vectors, const emu_knowledge *thread,
                                   uint32_t self, uint32_t number, uint32_t clock)
{
    return number == self ? thread->proxied >= clock
                          : thread->vector->known[vectors->half + number] >= clock;
}

#endif
