/* device.h: what a kernel, compiled for the emulator, calls in it. The headers under the names of
 * src/cuda/ptx_*.cuh and cuda_builtins.cuh are thin layers over these functions. Values travel in
 * registers and never through pointers to a kernel's arrays: an array whose address escapes would
 * be watched like shared memory.
 *
 * Collectives take the place they are called from, to tell whether all lanes met at the same one.
 */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define EMU_FILE_HERE const char *file = __builtin_FILE()
#define EMU_LINE_HERE int line = __builtin_LINE()
#define EMU_HERE EMU_FILE_HERE, EMU_LINE_HERE
extern "C" {
#else
#define EMU_HERE const char *file, int line
#endif

#define EMU_API __attribute__((visibility("default")))
/* Depends on the thread alone, which never changes while its stack lives. */
#define EMU_CONSTANT EMU_API __attribute__((const))

typedef float emu_float4 __attribute__((vector_size(16)));
typedef unsigned emu_uint4 __attribute__((vector_size(16)));

/* Where the thread is. */
EMU_CONSTANT unsigned emu_thread_x(void);
EMU_CONSTANT unsigned emu_block_index(int axis);
EMU_CONSTANT unsigned emu_block_size(int axis);
EMU_CONSTANT unsigned emu_grid_size(int axis);
EMU_CONSTANT void *emu_shared_memory(void);
EMU_API unsigned emu_shared_address(const void *pointer);

/* Barriers of a block: id 0 with 0 threads is __syncthreads. */
EMU_API void emu_barrier(int id, int threads, int waits, EMU_HERE);
EMU_API int emu_barrier_reduce(int how, int value, EMU_HERE);
enum { EMU_COUNT_NONZERO, EMU_ALL_NONZERO, EMU_ANY_NONZERO };

/* The lanes of a warp. */
EMU_API void emu_sync_warp(unsigned mask, EMU_HERE);
enum { EMU_SHUFFLE_INDEX, EMU_SHUFFLE_XOR, EMU_SHUFFLE_UP, EMU_SHUFFLE_DOWN };
EMU_API uint64_t emu_shuffle(int how, unsigned mask, uint64_t value, int operand, int width,
                             EMU_HERE);
EMU_API unsigned emu_ballot(unsigned mask, int value, EMU_HERE);
enum { EMU_REDUCE_ADD, EMU_REDUCE_MIN, EMU_REDUCE_MAX, EMU_REDUCE_AND, EMU_REDUCE_OR };
EMU_API unsigned emu_reduce(int how, int is_signed, unsigned mask, unsigned value, EMU_HERE);
EMU_API unsigned emu_active_mask(void);

/* Matrix instructions: m16n8k16 of 16-bit types, m16n8k32 of 8-bit ones. */
enum { EMU_F16, EMU_BF16, EMU_E4M3, EMU_E5M2, EMU_S8 };
EMU_API emu_float4 emu_mma(int type, emu_float4 sum, emu_uint4 left, unsigned right_0,
                           unsigned right_1, EMU_HERE);
EMU_API emu_uint4 emu_mma_s8(emu_uint4 sum, emu_uint4 left, unsigned right_0, unsigned right_1,
                             EMU_HERE);
EMU_API emu_uint4 emu_ldmatrix(int matrices, int transposed, const void *row, EMU_HERE);
EMU_API void emu_stmatrix(int matrices, int transposed, void *row, emu_uint4 values, EMU_HERE);

/* Copies from global to shared memory: `bytes` of destination, of which `wanted` are read and the
 * rest becomes 0. */
EMU_API void emu_cp_async(void *shared, const void *global, int bytes, int wanted);
EMU_API void emu_cp_async_commit(void);
EMU_API void emu_cp_async_wait(int pending);

/* Barriers in shared memory. */
EMU_API void emu_mbarrier_init(void *barrier, int arrivals);
EMU_API void emu_mbarrier_arrive(void *barrier);
EMU_API void emu_mbarrier_wait(void *barrier, int parity);

/* Clusters. An address holds the block's rank plus one above the offset. */
EMU_CONSTANT int emu_cluster_rank(void);
EMU_CONSTANT int emu_cluster_blocks(void);
EMU_API void emu_cluster_arrive(EMU_HERE);
EMU_API void emu_cluster_arrive_relaxed(EMU_HERE);
EMU_API void emu_cluster_wait(EMU_HERE);
EMU_API unsigned emu_cluster_address(const void *shared, int rank);
EMU_API unsigned emu_load_cluster(unsigned address);
EMU_API void emu_store_cluster(unsigned address, unsigned value);
EMU_API void emu_store_cluster_async(unsigned address, unsigned value, unsigned barrier_address);
EMU_API void emu_store_cluster_async_16(unsigned address, emu_uint4 value,
                                        unsigned barrier_address);
EMU_API void emu_mbarrier_arrive_cluster(unsigned barrier_address);

/* Bulk copies. Maps are what cuTensorMapEncodeTiled of the emulated driver makes; `blocks` is 0, or
 * those that a load goes to. */
EMU_API void emu_fence_mbarriers(void);
EMU_API void emu_fence_async(void);
EMU_API void emu_mbarrier_arrive_expect(void *barrier, int bytes);
EMU_API void emu_bulk_load(void *shared, const void *global, int bytes, void *barrier);
EMU_API void emu_prefetch_tensor_map(const void *map);
EMU_API void emu_tensor_load(void *shared, const void *map, int dim, int row, int head, int batch,
                             void *barrier, unsigned blocks);
EMU_API void emu_tensor_store(const void *map, const void *shared, int dim, int row, int head,
                              int batch);
EMU_API void emu_bulk_commit(void);
EMU_API void emu_bulk_wait(int pending, int read_only);

/* Products of a warpgroup, warp by warp. Operands are descriptors, the left one, where
 * left_registers is not NULL, four registers of a lane instead. */
EMU_API void emu_wgmma(int type, int columns, float *sums, const unsigned *left_registers,
                       uint64_t left, uint64_t right, int accumulates, EMU_HERE);
EMU_API void emu_wgmma_fence(EMU_HERE);
EMU_API void emu_wgmma_commit(EMU_HERE);
EMU_API void emu_wgmma_wait(int pending, EMU_HERE);

/* Memory that is told apart from plain accesses. */
EMU_API emu_uint4 emu_load_global(const void *global, int bytes);
EMU_API void emu_store_global(void *global, emu_uint4 chunk, int bytes);
enum { EMU_ATOMIC_ADD, EMU_ATOMIC_MIN, EMU_ATOMIC_MAX, EMU_ATOMIC_EXCHANGE };
EMU_API float emu_atomic_float(int how, float *memory, float value);
EMU_API unsigned emu_atomic_unsigned(int how, unsigned *memory, unsigned value);
EMU_API int emu_atomic_int(int how, int *memory, int value);
EMU_API unsigned emu_atomic_cas(unsigned *memory, unsigned expected, unsigned value);

/* Programmatic dependent launch. */
EMU_API void emu_wait_for_previous(void);
EMU_API void emu_let_next_start(void);

/* Arithmetic that the CPU lacks or that is counted. */
EMU_API float emu_exp2(float x);
EMU_API float emu_log2(float x);
EMU_API float emu_reciprocal(float x);
EMU_API float emu_f16_to_f32(unsigned short bits);
EMU_API unsigned short emu_f32_to_f16(float value);
EMU_API unsigned short emu_f32_to_bf16(float value);

#ifdef __cplusplus
}
#endif
#endif
