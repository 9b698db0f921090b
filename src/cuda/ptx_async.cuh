/* ptx_async.cuh: copies from global to shared memory that run while the thread goes on. */
#ifndef FC_PTX_ASYNC_CUH
#define FC_PTX_ASYNC_CUH

#include "ptx_common.cuh"

/* Copies 16 bytes, or writes 16 zero bytes and reads nothing where wanted is 0. Past L1: every
 * block reads a tile once, and what another block will read again is kept in L2. */
static __device__ __forceinline__ void cp_async_16_or_zero(void *shared, const void *global,
                                                           int wanted)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(wanted ? 16 : 0)
                 : "memory");
}

/* Closes the group of this thread's copies since the last commit; it may be empty. */
static __device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` (a constant) of this thread's groups are still under way. Its
 * copies are then visible to this thread, and after a barrier to the others. */
#define cp_async_wait(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")

#endif
