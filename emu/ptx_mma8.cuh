/* ptx_mma8.cuh: the emulator's counterpart of src/cuda/ptx_mma8.cuh, which shows the fragments. */
#ifndef FC_PTX_MMA8_CUH
#define FC_PTX_MMA8_CUH

#include "ptx_mma.cuh"

EMU_DEFINE_MMA(mma_m16n8k32_e4m3, EMU_E4M3)
EMU_DEFINE_MMA(mma_m16n8k32_e5m2, EMU_E5M2)

static __device__ __forceinline__ void mma_m16n8k32_s8(int result[4], const unsigned left[4],
                                                       unsigned right_0, unsigned right_1, EMU_HERE)
{
    const emu_uint4 sum = emu_mma_s8(emu_uint4{(unsigned)result[0], (unsigned)result[1],
                                               (unsigned)result[2], (unsigned)result[3]},
                                     emu_uint4{left[0], left[1], left[2], left[3]}, right_0,
                                     right_1, file, line);
    for (int i = 0; i < 4; i++)
        result[i] = (int)sum[i];
}

#endif
