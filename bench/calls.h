/* calls.h: one attention problem of unit-normal data, for cpu_worker.py to time and to hand to the
 * peers. Its tensors are dense: [batch][head][row][dim]. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include "flashcore.h"

typedef struct peers_sizes {
    int64_t batch, q_heads, kv_heads, q_length, kv_length, head_dim;
    int64_t type; /* fc_type */
    int64_t causal;
    int64_t backward; /* gradients are wanted too */
} peers_sizes;

typedef struct peers_call peers_call;

/* With as many threads as OpenMP gives. NULL: peers_error says why. */
FC_API peers_call *peers_open(const peers_sizes *sizes);
FC_API void peers_close(peers_call *call);
FC_API const char *peers_error(void);

FC_API const char *peers_kernel(const peers_call *call, int direction);
FC_API void *peers_tensor(const peers_call *call, const char *name); /* "q", "out", "dq" … */

/* Of one whole call; negative when it failed. */
FC_API double peers_seconds(const peers_call *call, int direction);

/* What this machine can do with as many threads as OpenMP gives; some tenths of a second each. */
FC_API double peers_peak_flops(void);     /* f32 multiply-adds in registers, two operations each */
FC_API double peers_peak_bandwidth(void); /* bytes per second read from memory */

#endif
