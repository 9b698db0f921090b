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

/* clang leaves out the calls for accesses to a thread's own array through addresses that do not
 * escape themselves: this gives away each of them. */
template <class type> static __device__ __forceinline__ void emu_escape(type *array, int count)
{
#pragma unroll
    for (int i = 0; i < count; i++)
        __asm__ volatile("" : : "r"(array + i));
}

/* The sums are written when the group is waited for, and nobody may touch them or the left operand's
 * registers before: here, unlike elsewhere, the address of these arrays has to escape. */
#define EMU_DEFINE_WGMMA(columns, type, type_name)                                                \
    static __device__ __forceinline__ void wgmma_scores_n##columns##_##type_name(                 \
        float *sums, unsigned long long left, unsigned long long right, int accumulates,          \
        EMU_HERE)                                                                                 \
    {                                                                                             \
        emu_escape(sums, columns / 2);                                                            \
        emu_wgmma(type, columns, sums, nullptr, left, right, accumulates, file, line);            \
    }                                                                                             \
    static __device__ __forceinline__ void wgmma_values_n##columns##_##type_name(                 \
        float *sums, const unsigned *left, unsigned long long right, int accumulates, EMU_HERE)   \
    {                                                                                             \
        emu_escape(sums, columns / 2);                                                            \
        emu_escape(left, 4);                                                                      \
        emu_wgmma(type, columns, sums, left, 0, right, accumulates, file, line);                  \
    }
EMU_DEFINE_WGMMA(64, EMU_F16, f16)
EMU_DEFINE_WGMMA(64, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(80, EMU_F16, f16)
EMU_DEFINE_WGMMA(80, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(96, EMU_F16, f16)
EMU_DEFINE_WGMMA(96, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(128, EMU_F16, f16)
EMU_DEFINE_WGMMA(128, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(176, EMU_F16, f16)
EMU_DEFINE_WGMMA(176, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(192, EMU_F16, f16)
EMU_DEFINE_WGMMA(192, EMU_BF16, bf16)
EMU_DEFINE_WGMMA(256, EMU_F16, f16)
EMU_DEFINE_WGMMA(256, EMU_BF16, bf16)

#endif
