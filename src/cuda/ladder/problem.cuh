/* problem.cuh: where a head's rows lie in the dense [batch][head][row] tensors. */
#ifndef FC_LADDER_PROBLEM_CUH
#define FC_LADDER_PROBLEM_CUH

#include "ladder/ladder_args.h"
#include "ptx_common.cuh"

/* Rows of Q, out and lse before the first one of a query head. */
static __device__ __forceinline__ size_t query_rows_before(const ladder_args *args, int batch,
                                                           int q_head)
{
    return ((size_t)batch * args->q_heads + q_head) * args->q_length;
}

static __device__ __forceinline__ int kv_head_of(const ladder_args *args, int q_head)
{
    return q_head / (args->q_heads / args->kv_heads);
}

/* Rows of K and V before the first one that a query head sees. */
static __device__ __forceinline__ size_t kv_rows_before(const ladder_args *args, int batch,
                                                        int q_head)
{
    return ((size_t)batch * args->kv_heads + kv_head_of(args, q_head)) * args->kv_length;
}

#endif
