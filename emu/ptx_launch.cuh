/* ptx_launch.cuh: the emulator's counterpart of src/cuda/ptx_launch.cuh. Registers are as many as
 * it takes. */
#ifndef FC_PTX_LAUNCH_CUH
#define FC_PTX_LAUNCH_CUH

#include "ptx_common.cuh"

#define EMU_CHECK_REGISTERS(registers)                                              \
    static_assert((registers) % 8 == 0 && (registers) >= 24 && (registers) <= 256,  \
                  "setmaxnreg takes multiples of 8 from 24 to 256")
#define lower_registers(registers) EMU_CHECK_REGISTERS(registers)
#define raise_registers(registers) EMU_CHECK_REGISTERS(registers)

static __device__ __forceinline__ void wait_for_previous_kernel(void)
{
    emu_wait_for_previous();
}

static __device__ __forceinline__ void let_next_kernel_start(void)
{
    emu_let_next_start();
}

#endif
