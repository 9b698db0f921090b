/* ptx_common.cuh: the emulator's counterpart of src/cuda/ptx_common.cuh. */
#ifndef FC_PTX_COMMON_CUH
#define FC_PTX_COMMON_CUH

#include "cuda_builtins.cuh"

#define PASTE_NAMES_EXPANDED(a, b) a##b
#define PASTE_NAMES(a, b) PASTE_NAMES_EXPANDED(a, b)

/* Stands for the kernel's one argument, whatever its type. Every thread reads it as a whole, which is
 * no access of the kernel's. */
struct emu_argument {
    const void *bytes;
    template <class type> __attribute__((no_sanitize("thread"))) operator type() const
    {
        return *(const type *)bytes;
    }
};

/* The launch shape, and NAME_start, by which the emulator calls a kernel whose argument's type it
 * does not know. The kernel itself is declared further down: a template looks it up when the file
 * has been read to its end, because its argument is of a type of the template's. */
#define EMU_DEFINE_START(kernel, start)                                                        \
    template <class argument> static inline void PASTE_NAMES(start, _of)(argument args)        \
    {                                                                                          \
        kernel(args);                                                                          \
    }                                                                                          \
    extern "C" __attribute__((visibility("default"))) void start(const void *args)             \
    {                                                                                          \
        PASTE_NAMES(start, _of)(emu_argument{args});                                           \
    }
#define KERNEL_SHAPE_OF(kernel)                        \
    EMU_DEFINE_START(kernel, PASTE_NAMES(kernel, _start)) \
    extern "C" __attribute__((visibility("default"))) kernel_shape PASTE_NAMES(kernel, _shape); \
    kernel_shape PASTE_NAMES(kernel, _shape)

#define WARP_LANES 32
#define ALL_LANES 0xffffffffu

#define SHARED_MEMORY(type) ((type *)emu_shared_memory())

typedef unsigned short f16; /* its bits */

static __device__ __forceinline__ int thread_id(void)
{
    return (int)emu_thread_x();
}

static __device__ __forceinline__ int lane_id(void)
{
    return thread_id() % WARP_LANES;
}

static __device__ __forceinline__ int warp_id(void)
{
    return thread_id() / WARP_LANES;
}

static __device__ __forceinline__ unsigned shared_address(const void *pointer)
{
    return emu_shared_address(pointer);
}

#endif
