/* ptx_wgmma.cuh: the emulator's counterpart of src/cuda/ptx_wgmma.cuh. */
#ifndef FC_PTX_WGMMA_CUH
#define FC_PTX_WGMMA_CUH

#include "ptx_common.cuh"

static __device__ __forceinline__ void wgmma_fence(EMU_HERE)
{
    emu_wgmma_fence(file, line);
}

static __device__ __forceinline__ void wgmma_commit(EMU_HERE)
{
    emu_wgmma_commit(file, line);
}

#define wgmma_wait(pending) emu_wgmma_wait(pending)

enum { SWIZZLE_NONE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

static __device__ __forceinline__ unsigned long long
matrix_descriptor(const void *shared, int leading_bytes, int stride_bytes, int swizzle)
{
    return (unsigned long long)((shared_address(shared) & 0x3ffffu) >> 4) |
           (unsigned long long)(leading_bytes >> 4) << 16 |
           (unsigned long long)(stride_bytes >> 4) << 32 | (unsigned long long)swizzle << 62;
}

/* The sums are written when the group is waited for: here, unlike elsewhere, their address has to
 * escape. */
#define EMU_DEFINE_WGMMA(columns, type, type_name)                                                \
    static __device__ __forceinline__ void wgmma_scores_n##columns##_##type_name(                 \
        float *sums, unsigned long long left, unsigned long long right, int accumulates,          \
        EMU_HERE)                                                                                 \
    {                                                                                             \
        emu_wgmma(type, columns, sums, emu_uint4{(unsigned)left, (unsigned)(left >> 32), 0, 0},   \
                  right, 0, accumulates, file, line);                                             \
    }                                                                                             \
    static __device__ __forceinline__ void wgmma_values_n##columns##_##type_name(                 \
        float *sums, const unsigned *left, unsigned long long right, int accumulates, EMU_HERE)   \
    {                                                                                             \
        emu_wgmma(type, columns, sums, emu_uint4{left[0], left[1], left[2], left[3]}, right, 1,   \
                  accumulates, file, line);                                                       \
    }
EMU_DEFINE_WGMMA(64, EMU_F16, f16)
EMU_DEFINE_WGMMA(64, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(80, EMU_F16, f16)
EMU_DEFINE_WGMMA(80, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(128, EMU_F16, f16)
EMU_DEFINE_WGMMA(128, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(176, EMU_F16, f16)
EMU_DEFINE_WGMMA(176, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(192, EMU_F16, f16)
EMU_DEFINE_WGMMA(192, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(256, EMU_F16, f16)
EMU_DEFINE_WGMMA(256, EMU_BF16, bf16)
#undef EMU_DEFINE_WGMMA

#endif
