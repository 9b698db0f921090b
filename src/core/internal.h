/* internal.h: what the parts of the library share. A call goes one way:
 *   descriptor -> resolve -> validate -> kernels (choose) -> plan -> buffers -> the kernel's run */
#ifndef FC_CORE_INTERNAL_H
#define FC_CORE_INTERNAL_H

#include "flashcore.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define I64 "%" PRId64

enum { FC_MAX_DIM = 576 };

/* error.c: fc_fail keeps the sentence for fc_last_error and returns the status; fc_refuse formats
 * a kernel's reason, valid until this thread's next fc_refuse. */
fc_status fc_fail(fc_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *fc_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FC_REQUIRE(condition, ...)                         \
    do {                                                   \
        if (!(condition))                                  \
            return fc_fail(FC_ERROR_INVALID, __VA_ARGS__); \
    } while (0)

#define FC_TRY(call)                \
    do {                            \
        fc_status status_ = (call); \
        if (status_ != FC_OK)       \
            return status_;         \
    } while (0)

/* descriptor.c: copies a caller's struct of any known size over our zeroed one, so that callers
 * compiled with an older header keep working. known_bytes ends with 0. */
fc_status fc_read_struct(const char *name, const void *theirs, const size_t *known_bytes,
                         void *ours, size_t our_bytes);
fc_status fc_read_options(const fc_context_options *theirs, fc_context_options *ours);
fc_status fc_read_attention(const fc_attention *theirs, fc_attention *ours);
fc_status fc_read_buffers(const fc_buffers *theirs, fc_buffers *ours);
fc_status fc_read_gradients(const fc_gradients *theirs, fc_gradients *ours);

/* validate.c: refuses what is out of range or contradictory, in the caller's own terms; what
 * passes comes back resolved. */
fc_status fc_validate(const fc_attention *given, fc_attention *resolved);

/* resolve.c: every default filled in. After it, window_left and window_right alone say which keys
 * a row may see (-1: no limit), causal or not, and all strides are the real ones. */
void fc_resolve(fc_attention *problem);

/* layout.c: where a tensor's elements are. */
typedef enum fc_tensor {
    FC_TENSOR_Q,
    FC_TENSOR_K,
    FC_TENSOR_V,
    FC_TENSOR_OUT,
    FC_TENSOR_LSE,
    FC_TENSOR_DOUT,
    FC_TENSOR_DQ,
    FC_TENSOR_DK,
    FC_TENSOR_DV,
    FC_TENSOR_COUNT
} fc_tensor;

typedef struct fc_layout {
    const char *name;
    fc_type type;
    bool output;
    int64_t sizes[4]; /* batch or page, head, row, dim */
    int64_t strides[4];
} fc_layout;

fc_layout fc_tensor_layout(const fc_attention *problem, fc_tensor tensor);
fc_layout fc_broadcast_layout(const fc_attention *problem, const char *name, fc_type type,
                              fc_broadcast strides);
fc_strides *fc_tensor_strides(fc_attention *problem, fc_tensor tensor);
bool fc_layout_is_empty(const fc_layout *layout);
/* Both return FC_OK or a sentence that names the tensor. */
fc_status fc_layout_fits_memory(const fc_layout *layout);
fc_status fc_layout_does_not_overlap(const fc_layout *layout);

/* buffers.c: everything about the pointers of one call that can be checked before it runs. */
fc_status fc_check_buffers(const fc_plan *plan, const fc_buffers *buffers,
                           const fc_gradients *gradients);

/* kernels.c */
typedef struct fc_kernel fc_kernel;
struct fc_kernel {
    const char *name;
    const char *summary;
    fc_direction direction;
    /* NULL, or the reason for refusing. */
    const char *(*accepts)(const fc_kernel *self, const fc_context *context,
                           const fc_attention *problem);
    /* NULL, or whether a kernel that accepts the problem is a good choice for it; one that is not
     * runs only when forced or when nothing else accepts. */
    bool (*suits)(const fc_kernel *self, const fc_context *context, const fc_attention *problem);
    /* NULL where a run needs none. */
    size_t (*workspace_bytes)(const fc_kernel *self, const fc_context *context,
                              const fc_attention *problem);
    /* NULL, or what is done once a plan: the result is the plan's, which frees it. */
    fc_status (*prepare)(const fc_kernel *self, const fc_plan *plan, void **prepared);
    /* gradients is NULL in the forward direction. */
    fc_status (*run)(const fc_plan *plan, const fc_buffers *buffers, const fc_gradients *gradients,
                     fc_stream stream);
    const void *data; /* the kernel's own */
};

fc_status fc_choose_kernel(const fc_context *context, const fc_attention *problem,
                           fc_direction direction, const fc_kernel **kernel);
fc_status fc_check_kernel_names(const char *names);

/* context.c */
struct fc_context {
    fc_device_type device_type;
    int device_index;
    int threads;
    char *forced_kernels; /* "a,b" or NULL */
    int cpu_limit;        /* the most of fc_cpu_level that may be used */
    fc_log_function log;
    void *log_user;
    struct fc_cuda_device *cuda; /* NULL on the CPU */
    pthread_mutex_t lock;        /* of cache and lent */
    struct fc_plan_cache *cache;
    struct fc_lent_block *lent;
};

void fc_log(const fc_context *context, fc_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* plan.c */
struct fc_plan {
    fc_context *context;
    fc_attention request; /* as asked for: the cache's key */
    fc_attention problem; /* resolved */
    const fc_kernel *kernels[2];
    size_t workspace_bytes[2];
    void *prepared[2];
    atomic_int references;
};

/* attend.c */
void fc_release_cache(fc_context *context);

#endif
