/* vector.c: see vector.h. */
#include "vector.h"

#include <stdlib.h>
#include <string.h>

void emu_vectors_start(emu_vectors *vectors, uint32_t half)
{
    if (vectors->half != half)
        emu_vectors_end(vectors);
    vectors->half = half;
}

void emu_vectors_end(emu_vectors *vectors)
{
    while (vectors->free_list) {
        emu_vector *vector = vectors->free_list;
        vectors->free_list = vector->next_free;
        free(vector);
    }
}

static size_t vector_bytes(const emu_vectors *vectors)
{
    return sizeof(emu_vector) + 2 * (size_t)vectors->half * sizeof(uint32_t);
}

static emu_vector *take(emu_vectors *vectors)
{
    emu_vector *vector = vectors->free_list;
    if (vector)
        vectors->free_list = vector->next_free;
    else if (!(vector = malloc(vector_bytes(vectors))))
        abort();
    vector->references = 1;
    return vector;
}

emu_vector *emu_vector_zero(emu_vectors *vectors)
{
    emu_vector *vector = take(vectors);
    memset(vector->known, 0, 2 * (size_t)vectors->half * sizeof(uint32_t));
    return vector;
}

emu_vector *emu_vector_copy(emu_vectors *vectors, const emu_vector *from)
{
    emu_vector *vector = take(vectors);
    memcpy(vector->known, from->known, 2 * (size_t)vectors->half * sizeof(uint32_t));
    return vector;
}

void emu_vector_join(const emu_vectors *vectors, emu_vector *into, const emu_vector *from)
{
    for (uint32_t i = 0; i < 2 * vectors->half; i++)
        into->known[i] = into->known[i] > from->known[i] ? into->known[i] : from->known[i];
}

emu_vector *emu_vector_hold(emu_vector *vector)
{
    vector->references++;
    return vector;
}

void emu_vector_release(emu_vectors *vectors, emu_vector *vector)
{
    if (!vector || --vector->references)
        return;
    vector->next_free = vectors->free_list;
    vectors->free_list = vector;
}

void emu_gather_add(emu_vectors *vectors, emu_gather *gather, emu_knowledge *thread,
                    uint32_t number)
{
    if (!gather->vector)
        gather->vector = emu_vector_copy(vectors, thread->vector);
    else if (gather->last != thread->vector)
        emu_vector_join(vectors, gather->vector, thread->vector);
    if (gather->last != thread->vector) {
        emu_vector_release(vectors, gather->last);
        gather->last = emu_vector_hold(thread->vector);
    }
    gather->vector->known[number] = thread->clock++;
    gather->vector->known[vectors->half + number] = thread->proxied;
}

void emu_gather_take(emu_vectors *vectors, const emu_gather *gather, emu_knowledge *thread)
{
    emu_vector_release(vectors, thread->vector);
    thread->vector = emu_vector_hold(gather->vector);
}

void emu_knowledge_join(emu_vectors *vectors, emu_knowledge *thread, const emu_vector *from)
{
    emu_vector *joined = emu_vector_copy(vectors, thread->vector);
    emu_vector_join(vectors, joined, from);
    emu_vector_release(vectors, thread->vector);
    thread->vector = joined;
}

void emu_knowledge_learn(emu_vectors *vectors, emu_knowledge *thread, uint32_t number,
                         uint32_t clock)
{
    emu_vector *learned = emu_vector_copy(vectors, thread->vector);
    learned->known[number] = learned->known[vectors->half + number] = clock;
    emu_vector_release(vectors, thread->vector);
    thread->vector = learned;
}

/* The clock goes on, to tell what comes after the fence. */
void emu_knowledge_fence(emu_vectors *vectors, emu_knowledge *thread)
{
    emu_vector *fenced = emu_vector_copy(vectors, thread->vector);
    for (uint32_t i = 0; i < vectors->half; i++)
        fenced->known[vectors->half + i] = fenced->known[i];
    emu_vector_release(vectors, thread->vector);
    thread->vector = fenced;
    thread->proxied = thread->clock++;
}

void emu_gather_clear(emu_vectors *vectors, emu_gather *gather)
{
    emu_vector_release(vectors, gather->vector);
    emu_vector_release(vectors, gather->last);
    *gather = (emu_gather){0};
}
