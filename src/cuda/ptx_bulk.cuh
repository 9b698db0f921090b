/* ptx_bulk.cuh: whole rows and boxes of tensors between global and shared memory (sm_90), by one
 * thread. They are written and read by another proxy than plain accesses: between the two stands
 * fence_async. */
#ifndef FC_PTX_BULK_CUH
#define FC_PTX_BULK_CUH

#include "ptx_mbarrier.cuh"

/* A CUtensorMap, as cuTensorMapEncodeTiled makes it, in the kernel's argument. */
typedef struct __align__(64) tensor_map
{
    unsigned long long opaque[16];
} tensor_map;

/* The mbarriers that this thread made are there for copies and for other blocks. */
static __device__ __forceinline__ void fence_mbarriers(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Plain accesses to shared memory before this are over for copies and wgmma after it. */
static __device__ __forceinline__ void fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Arrives, and lets the phase last until so many bytes more have come. */
static __device__ __forceinline__ void mbarrier_arrive_expect(mbarrier *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

/* `bytes` is a multiple of 16, addresses are aligned to 16. */
static __device__ __forceinline__ void bulk_load(void *shared, const void *global, int bytes,
                                                 mbarrier *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* A map lies in memory. Asked for ahead, it is there when the first load of it goes out. */
static __device__ __forceinline__ void prefetch_tensor_map(const tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* The box of a four-dimensional tensor whose first element has these coordinates, dims first. */
static __device__ __forceinline__ void tensor_load(void *shared, const tensor_map *map, int dim,
                                                   int row, int head, int batch, mbarrier *barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(dim), "r"(row), "r"(head), "r"(batch), "r"(shared_address(barrier))
                 : "memory");
}

/* The same into every block of the cluster whose bit is set, each with its own mbarrier. */
static __device__ __forceinline__ void tensor_load_multicast(void *shared, const tensor_map *map,
                                                             int dim, int row, int head, int batch,
                                                             mbarrier *barrier,
                                                             unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(
                     shared_address(shared)),
                 "l"(map), "r"(dim), "r"(row), "r"(head), "r"(batch), "r"(shared_address(barrier)),
                 "h"(blocks)
                 : "memory");
}

static __device__ __forceinline__ void tensor_store(const tensor_map *map, const void *shared,
                                                    int dim, int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(dim), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* Closes the group of this thread's stores since the last commit. */
static __device__ __forceinline__ void bulk_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until at most `pending` (a constant) of this thread's groups still have shared memory to read, or
 * are still under way. */
#define bulk_wait_read(pending) \
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory")
#define bulk_wait(pending) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory")

#endif
