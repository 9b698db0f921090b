/* attention.h: what the hosts of the attention kernels share: the sizes and types they accept, and
 * the argument (attention_args.h) that a problem becomes. */
#ifndef FC_CUDA_ATTENTION_H
#define FC_CUDA_ATTENTION_H

#include "core/internal.h"
#include "cuda/attention_args.h"
#include "cuda/device.h"

/* Elements of 16 bytes, which a kernel reads or writes at once. */
enum { FC_CUDA_CHUNK = 8 };

/* Why no attention kernel takes the types or sizes of a problem; NULL: they all do. */
const char *fc_cuda_refuse(const fc_context *context, const fc_attention *p);

int64_t fc_divide_up(int64_t number, int64_t by);

/* Of head and value dimension; variants have room for it. */
int64_t fc_cuda_larger_dim(const fc_attention *p);

/* Whether rows are whole chunks, and so all that is between them. */
bool fc_cuda_reads_in_chunks(const fc_attention *p);
bool fc_cuda_writes_in_chunks(const fc_attention *p);
bool fc_cuda_is_aligned(const void *pointer);

/* Whether it asks for nothing that changes scores or weights, and no page table. */
bool fc_cuda_is_plain(const fc_attention *p);

/* Whether no lengths have to be looked up, and no sinks are added. */
bool fc_cuda_is_dense(const fc_attention *p);

/* Whether rows see different keys. */
bool fc_cuda_has_limits(const fc_attention *p);

/* Whether they see them from the first one on, up to one that depends on the row. */
bool fc_cuda_ends_with_row(const fc_attention *p);

fast_divisor fc_cuda_divisor(int64_t by);

/* All but the pointers; one block a tile, no heads packed. */
attention_args fc_cuda_arguments(const fc_attention *p);
void fc_cuda_set_pointers(attention_args *args, const fc_buffers *b);

/* Workspace where the keys are split over blocks: each leaves a row's output and its logarithm of
 * the sum. */
size_t fc_cuda_partial_bytes(const attention_args *args);

/* A kernel of the variant of the same name. */
fc_status fc_cuda_find_kernel(const fc_plan *plan, const char *name,
                              const fc_cuda_function **function);

#endif
