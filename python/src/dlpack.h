/* dlpack.h: the binary layout of DLPack 1.x, as far as tensors are read and made here. Written from
 * its specification; values and field orders are fixed by it. */
#ifndef FLASHCORE_DLPACK_H
#define FLASHCORE_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E5M2 = 12
};
enum { DL_MAJOR_VERSION = 1, DL_READ_ONLY = 1 };

typedef struct dl_device {
    int32_t type;
    int32_t index;
} dl_device;

typedef struct dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_version {
    uint32_t major;
    uint32_t minor;
} dl_version;

typedef struct dl_managed_versioned {
    dl_version version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

/* What a type offers in C, as the capsule type.__dlpack_c_exchange_api__: the same exchange without
 * a single Python object made. Each function returns 0, or -1 with a Python error set. */
typedef void (*dl_set_error)(void *context, const char *kind, const char *message);

typedef struct dl_exchange_api {
    dl_version version;
    struct dl_exchange_api *previous;
    int (*allocate)(dl_tensor *prototype, dl_managed_versioned **out, void *error_context,
                    dl_set_error set_error);
    int (*export_managed)(void *object, dl_managed_versioned **out);
    int (*import_managed)(dl_managed_versioned *tensor, void **object); /* takes the tensor over */
    int (*view)(void *object, dl_tensor *out); /* may be NULL; valid while the object is */
    int (*current_stream)(int32_t device_type, int32_t device_index, void **stream);
} dl_exchange_api;

#endif
