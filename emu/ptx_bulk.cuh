/* ptx_bulk.cuh: the emulator's counterpart of src/cuda/ptx_bulk.cuh. */
#ifndef FC_PTX_BULK_CUH
#define FC_PTX_BULK_CUH

#include "ptx_mbarrier.cuh"

typedef struct __align__(64) tensor_map
{
    unsigned long long opaque[16];
} tensor_map;

static __device__ __forceinline__ void fence_mbarriers(void)
{
    emu_fence_mbarriers();
}

static __device__ __forceinline__ void fence_async(void)
{
    emu_fence_async();
}

static __device__ __forceinline__ void mbarrier_arrive_expect(mbarrier *barrier, int bytes)
{
    emu_mbarrier_arrive_expect(barrier, bytes);
}

static __device__ __forceinline__ void bulk_load(void *shared, const void *global, int bytes,
                                                 mbarrier *barrier)
{
    emu_bulk_load(shared, global, bytes, barrier);
}

static __device__ __forceinline__ void prefetch_tensor_map(const tensor_map *map)
{
    emu_prefetch_tensor_map(map);
}

static __device__ __forceinline__ void tensor_load(void *shared, const tensor_map *map, int dim,
                                                   int row, int head, int batch, mbarrier *barrier)
{
    emu_tensor_load(shared, map, dim, row, head, batch, barrier, 0);
}

static __device__ __forceinline__ void tensor_load_multicast(void *shared, const tensor_map *map,
                                                             int dim, int row, int head, int batch,
                                                             mbarrier *barrier,
                                                             unsigned short blocks)
{
    emu_tensor_load(shared, map, dim, row, head, batch, barrier, blocks);
}

static __device__ __forceinline__ void tensor_store(const tensor_map *map, const void *shared,
                                                    int dim, int row, int head, int batch)
{
    emu_tensor_store(map, shared, dim, row, head, batch);
}

static __device__ __forceinline__ void bulk_commit(void)
{
    emu_bulk_commit();
}

#define bulk_wait_read(pending) emu_bulk_wait(pending, 1)
#define bulk_wait(pending) emu_bulk_wait(pending, 0)

#endif
