/* thread.h: the number of the calling thread within its team. */
#ifndef FC_CPU_THREAD_H
#define FC_CPU_THREAD_H

#ifdef _OPENMP
#include <omp.h>
#endif

static inline int this_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

#endif
