/* cpu_floors.h: the two floors under every call on a CPU, measured: what its f32 multiply-adds take
 * in registers, and what its bytes take to be read from memory. */
#ifndef LAB_CPU_FLOORS_H
#define LAB_CPU_FLOORS_H

#include "flashcore.h"

/* With the context's threads and the best instruction set that it may use; about so many seconds,
 * and the best of what was seen in them: others on the machine only ever make it slower. */
double lab_cpu_operations_a_second(const fc_context *context, double seconds);

/* 0 where there is no memory to read: it takes 512 MB, more than most caches have. */
double lab_cpu_bytes_a_second(const fc_context *context, double seconds);

#endif
