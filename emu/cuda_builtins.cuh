/* cuda_builtins.cuh: what nvcc knows without a header: qualifiers, vector types, indices, warp
 * functions, intrinsics. Comes before the first line of every kernel file. */
#ifndef EMU_CUDA_BUILTINS_CUH
#define EMU_CUDA_BUILTINS_CUH

#include "device.h"

/* C's <math.h> and not libstdc++'s, whose templates are a third of a kernel's compilation. */
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <string.h>

/* Inlined to the last one: arrays that functions hand to each other then stay the thread's own,
 * like registers, and what is reported of one of these is said of the line that called it. */
#define __device__ __attribute__((always_inline))
#define __forceinline__ inline
#define EMU_INLINE static __device__ inline
#define __noinline__
#define __host__
#define __constant__ const
#define __global__ __attribute__((visibility("default"), noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))

/* Vectors are copied whole, as the hardware's wide loads and stores do it. A compiler that sees
 * single parts of one used would load these alone: it is told that something takes the register. */
#if defined(__x86_64__)
#define EMU_VECTOR_REGISTER "+x"
#else
#define EMU_VECTOR_REGISTER "+w"
#endif
template <class vector> EMU_INLINE vector emu_whole(vector value)
{
    if constexpr (sizeof(vector) == 8) {
        uint64_t bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        __asm__("" : "+r"(bits));
        __builtin_memcpy(&value, &bits, sizeof bits);
    } else {
        __asm__("" : EMU_VECTOR_REGISTER(value));
    }
    return value;
}
#define EMU_VECTOR_TYPE(name, element, count, ...)                                       \
    struct name {                                                                        \
        typedef element whole_type __attribute__((vector_size(count * sizeof(element)))); \
        union {                                                                          \
            struct {                                                                     \
                element __VA_ARGS__;                                                     \
            };                                                                           \
            whole_type whole;                                                            \
        };                                                                               \
        name() = default;                                                                \
        template <class... others>                                                       \
        __device__ name(element first, others... rest) : whole{first, (element)rest...}  \
        {                                                                                \
        }                                                                                \
        __device__ name(const name &other) : whole(emu_whole(other.whole)) {}            \
        __device__ name &operator=(const name &other)                                    \
        {                                                                                \
            whole = other.whole;                                                         \
            return *this;                                                                \
        }                                                                                \
    };                                                                                   \
    EMU_INLINE name make_##name
EMU_VECTOR_TYPE(uint2, unsigned, 2, x, y)
(unsigned x, unsigned y) { return {x, y}; }
EMU_VECTOR_TYPE(int2, int, 2, x, y)(int x, int y) { return {x, y}; }
EMU_VECTOR_TYPE(float2, float, 2, x, y)(float x, float y) { return {x, y}; }
EMU_VECTOR_TYPE(uint4, unsigned, 4, x, y, z, w)
(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
EMU_VECTOR_TYPE(int4, int, 4, x, y, z, w)
(int x, int y, int z, int w) { return {x, y, z, w}; }
EMU_VECTOR_TYPE(float4, float, 4, x, y, z, w)
(float x, float y, float z, float w) { return {x, y, z, w}; }
#undef EMU_VECTOR_TYPE

struct emu_dim3 {
    unsigned x, y, z;
};
#define threadIdx (emu_dim3{emu_thread_x(), 0, 0})
#define blockIdx (emu_dim3{emu_block_index(0), emu_block_index(1), emu_block_index(2)})
#define blockDim (emu_dim3{emu_block_size(0), emu_block_size(1), emu_block_size(2)})
#define gridDim (emu_dim3{emu_grid_size(0), emu_grid_size(1), emu_grid_size(2)})
#define warpSize 32

/* Barriers and fences. What a fence orders, barriers order too; alone it makes no one wait. */
EMU_INLINE void __syncthreads(EMU_HERE) { emu_barrier(0, 0, 1, file, line); }
EMU_INLINE int __syncthreads_count(int value, EMU_HERE)
{
    return emu_barrier_reduce(EMU_COUNT_NONZERO, value, file, line);
}
EMU_INLINE int __syncthreads_and(int value, EMU_HERE)
{
    return emu_barrier_reduce(EMU_ALL_NONZERO, value, file, line);
}
EMU_INLINE int __syncthreads_or(int value, EMU_HERE)
{
    return emu_barrier_reduce(EMU_ANY_NONZERO, value, file, line);
}
EMU_INLINE void __syncwarp(unsigned mask = ~0u, EMU_HERE) { emu_sync_warp(mask, file, line); }
EMU_INLINE void __threadfence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_INLINE void __threadfence_block(void) {}

/* Shuffles, votes, reductions. */
#define EMU_DEFINE_SHUFFLE(name, how, operand)                                              \
    template <class type>                                                                   \
    EMU_INLINE type name(unsigned mask, type value, int operand, int width = 32, EMU_HERE)    \
    {                                                                                       \
        static_assert(sizeof(type) <= 8, "a shuffle moves 4 or 8 bytes");                    \
        uint64_t bits = 0;                                                                  \
        __builtin_memcpy(&bits, &value, sizeof value);                                      \
        bits = emu_shuffle(how, mask, bits, operand, width, file, line);                    \
        __builtin_memcpy(&value, &bits, sizeof value);                                      \
        return value;                                                                       \
    }
EMU_DEFINE_SHUFFLE(__shfl_sync, EMU_SHUFFLE_INDEX, lane)
EMU_DEFINE_SHUFFLE(__shfl_xor_sync, EMU_SHUFFLE_XOR, distance)
EMU_DEFINE_SHUFFLE(__shfl_up_sync, EMU_SHUFFLE_UP, distance)
EMU_DEFINE_SHUFFLE(__shfl_down_sync, EMU_SHUFFLE_DOWN, distance)
#undef EMU_DEFINE_SHUFFLE

EMU_INLINE unsigned __ballot_sync(unsigned mask, int value, EMU_HERE)
{
    return emu_ballot(mask, value, file, line);
}
EMU_INLINE int __any_sync(unsigned mask, int value, EMU_HERE)
{
    return emu_ballot(mask, value, file, line) != 0;
}
EMU_INLINE int __all_sync(unsigned mask, int value, EMU_HERE)
{
    return emu_ballot(mask, value, file, line) == mask;
}
EMU_INLINE unsigned __activemask(void) { return emu_active_mask(); }

#define EMU_DEFINE_REDUCTION(name, how)                                             \
    EMU_INLINE unsigned name(unsigned mask, unsigned value, EMU_HERE)               \
    {                                                                               \
        return emu_reduce(how, 0, mask, value, file, line);                         \
    }                                                                               \
    EMU_INLINE int name(unsigned mask, int value, EMU_HERE)                         \
    {                                                                               \
        return (int)emu_reduce(how, 1, mask, (unsigned)value, file, line);          \
    }
EMU_DEFINE_REDUCTION(__reduce_add_sync, EMU_REDUCE_ADD)
EMU_DEFINE_REDUCTION(__reduce_min_sync, EMU_REDUCE_MIN)
EMU_DEFINE_REDUCTION(__reduce_max_sync, EMU_REDUCE_MAX)
#undef EMU_DEFINE_REDUCTION

/* Atomics. */
#define EMU_DEFINE_ATOMIC(name, how)                                                              \
    EMU_INLINE int name(int *memory, int value) { return emu_atomic_int(how, memory, value); }    \
    EMU_INLINE unsigned name(unsigned *memory, unsigned value)                                    \
    {                                                                                             \
        return emu_atomic_unsigned(how, memory, value);                                           \
    }
EMU_DEFINE_ATOMIC(atomicAdd, EMU_ATOMIC_ADD)
EMU_DEFINE_ATOMIC(atomicMin, EMU_ATOMIC_MIN)
EMU_DEFINE_ATOMIC(atomicMax, EMU_ATOMIC_MAX)
EMU_DEFINE_ATOMIC(atomicExch, EMU_ATOMIC_EXCHANGE)
#undef EMU_DEFINE_ATOMIC
EMU_INLINE float atomicAdd(float *memory, float value)
{
    return emu_atomic_float(EMU_ATOMIC_ADD, memory, value);
}
EMU_INLINE unsigned atomicCAS(unsigned *memory, unsigned expected, unsigned value)
{
    return emu_atomic_cas(memory, expected, value);
}

/* Intrinsics. */
template <class to, class from> EMU_INLINE to emu_bits_as(from value)
{
    static_assert(sizeof(to) == sizeof(from), "the same bits");
    to result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}
EMU_INLINE float __int_as_float(int bits) { return emu_bits_as<float>(bits); }
EMU_INLINE float __uint_as_float(unsigned bits) { return emu_bits_as<float>(bits); }
EMU_INLINE int __float_as_int(float value) { return emu_bits_as<int>(value); }
EMU_INLINE unsigned __float_as_uint(float value) { return emu_bits_as<unsigned>(value); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
/* Of the eight bytes of two words those that the selector's four digits name. */
EMU_INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> i * 4 & 7u) * 8 & 0xffu) << i * 8;
    return result;
}
EMU_INLINE int __popc(unsigned bits) { return __builtin_popcount(bits); }
EMU_INLINE int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
EMU_INLINE int __ffs(int bits) { return __builtin_ffs(bits); }
EMU_INLINE float __fdividef(float a, float b) { return a / b; }
EMU_INLINE float __frcp_rn(float a) { return 1.0f / a; }
EMU_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
EMU_INLINE float __fmul_rn(float a, float b) { return a * b; }
EMU_INLINE float __fadd_rn(float a, float b) { return a + b; }
/* A macro, because the C library has the name already. */
#define __expf(x) emu_exp2((x) * 1.4426950408889634f)
EMU_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
template <class type> EMU_INLINE type __ldg(const type *memory) { return *memory; }
template <class type> EMU_INLINE type min(type a, type b) { return b < a ? b : a; }
template <class type> EMU_INLINE type max(type a, type b) { return a < b ? b : a; }

#endif
