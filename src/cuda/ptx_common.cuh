/* ptx_common.cuh: what every kernel file starts from. Inline PTX lives in ptx_*.cuh and nowhere
 * else; the kernels are C over these functions, so that another set of the same headers can run
 * them on a CPU. All headers are named relative to src/cuda. */
#ifndef FC_PTX_COMMON_CUH
#define FC_PTX_COMMON_CUH

#define PASTE_NAMES_EXPANDED(a, b) a##b
#define PASTE_NAMES(a, b) PASTE_NAMES_EXPANDED(a, b)

/* The launch shape that the host reads out of the binary, beside its kernel. */
#define KERNEL_SHAPE_OF(kernel) extern "C" __device__ kernel_shape PASTE_NAMES(kernel, _shape)

#define WARP_LANES 32
#define ALL_LANES 0xffffffffu

/* The block's dynamic shared memory, seen as one struct. */
extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
#define SHARED_MEMORY(type) ((type *)dynamic_shared_memory)

typedef unsigned short f16; /* its bits */

/* Of a one-dimensional block. The masks say that the numbers are not negative: dividing them is
 * then a shift, and addresses made of them take half the registers. */
static __device__ __forceinline__ int thread_id(void)
{
    return (int)(threadIdx.x & 1023u);
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
    return (unsigned)__cvta_generic_to_shared(pointer);
}

#endif
