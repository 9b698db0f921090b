/* thread.h: whether a team of threads is needed, and the calling thread's number within it. */
#ifndef FC_CPU_THREAD_H
#define FC_CPU_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* A team of one costs three system calls in GCC's runtime: as much as the smallest problem. */
static inline bool works_alone(int threads, int64_t items)
{
    return threads == 1 || items <= 1;
}

static inline int this_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

#endif
