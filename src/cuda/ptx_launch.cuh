/* ptx_launch.cuh: registers that warps hand to each other, and kernels that start before the one
 * before them has ended (sm_90). */
#ifndef FC_PTX_LAUNCH_CUH
#define FC_PTX_LAUNCH_CUH

#include "ptx_common.cuh"

/* By all warps of a warpgroup. `registers` is a constant, a multiple of 8 from 24 to 256. */
#define lower_registers(registers) \
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers))
#define raise_registers(registers) \
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers))

/* Until what the kernel before wrote is there. */
static __device__ __forceinline__ void wait_for_previous_kernel(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

static __device__ __forceinline__ void let_next_kernel_start(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif
