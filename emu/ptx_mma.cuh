/* ptx_mma.cuh: the emulator's counterpart of src/cuda/ptx_mma.cuh, which shows the fragments. */
#ifndef FC_PTX_MMA_CUH
#define FC_PTX_MMA_CUH

#include "ptx_common.cuh"

#define EMU_DEFINE_MMA(name, type)                                                               \
    static __device__ __forceinline__ void name(float result[4], const unsigned left[4],         \
                                                unsigned right_0, unsigned right_1, EMU_HERE)    \
    {                                                                                            \
        const emu_float4 sum =                                                                   \
            emu_mma(type, emu_float4{result[0], result[1], result[2], result[3]},                \
                    emu_uint4{left[0], left[1], left[2], left[3]}, right_0, right_1, file, line); \
        for (int i = 0; i < 4; i++)                                                              \
            result[i] = sum[i];                                                                  \
    }
#define EMU_DEFINE_MMA_FROM_ZERO(name)                                                           \
    static __device__ __forceinline__ void name##_from_zero(                                     \
        float result[4], const unsigned left[4], unsigned right_0, unsigned right_1, EMU_HERE)   \
    {                                                                                            \
        for (int i = 0; i < 4; i++)                                                              \
            result[i] = 0.0f;                                                                    \
        name(result, left, right_0, right_1, file, line);                                        \
    }
EMU_DEFINE_MMA(mma_m16n8k16_f16, EMU_F16)
EMU_DEFINE_MMA(mma_m16n8k16_bf16, EMU_BF16)
EMU_DEFINE_MMA_FROM_ZERO(mma_m16n8k16_f16)
EMU_DEFINE_MMA_FROM_ZERO(mma_m16n8k16_bf16)

static __device__ __forceinline__ void ldmatrix_x4(unsigned matrix[4], const void *row, EMU_HERE)
{
    const emu_uint4 values = emu_ldmatrix(4, 0, row, file, line);
    for (int i = 0; i < 4; i++)
        matrix[i] = values[i];
}

static __device__ __forceinline__ void ldmatrix_x4_trans(unsigned matrix[4], const void *row,
                                                         EMU_HERE)
{
    const emu_uint4 values = emu_ldmatrix(4, 1, row, file, line);
    for (int i = 0; i < 4; i++)
        matrix[i] = values[i];
}

static __device__ __forceinline__ void stmatrix_x4(void *row, const unsigned matrix[4], EMU_HERE)
{
    emu_stmatrix(4, 0, row, emu_uint4{matrix[0], matrix[1], matrix[2], matrix[3]}, file, line);
}

#endif
