/* xla.h: the binary layout of XLA's foreign function interface, version 0.x, as far as it is used
 * here. Written from its description; values and field orders are fixed by it. */
#ifndef FLASHCORE_XLA_H
#define FLASHCORE_XLA_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_API_MAJOR = 0 };
enum { XLA_EXTENSION_METADATA = 1, XLA_STAGE_EXECUTE = 3, XLA_ATTRIBUTE_ARRAY = 1 };
enum { XLA_ERROR_INVALID_ARGUMENT = 3, XLA_ERROR_UNIMPLEMENTED = 12, XLA_ERROR_INTERNAL = 13 };

typedef struct xla_extension {
    size_t struct_size;
    int type;
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t struct_size;
    xla_extension *extension;
    int major;
    int minor;
} xla_version;

typedef struct xla_metadata {
    size_t struct_size;
    xla_version version;
    uint32_t traits;
    int64_t state_type; /* where struct_size says that it is there; 0: no state */
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_bytes {
    const char *data;
    size_t length;
} xla_bytes;

typedef struct xla_array {
    int type;
    size_t count;
    void *data;
} xla_array;

typedef struct xla_buffer {
    size_t struct_size;
    xla_extension *extension;
    int type;
    void *data;
    int64_t rank;
    int64_t *shape;
} xla_buffer;

typedef struct xla_values { /* arguments and results alike */
    size_t struct_size;
    xla_extension *extension;
    int64_t count;
    int *types;
    void **values;
} xla_values;

typedef struct xla_attributes {
    size_t struct_size;
    xla_extension *extension;
    int64_t count;
    int *types;
    xla_bytes **names;
    void **values;
} xla_attributes;

typedef struct xla_error xla_error;

typedef struct xla_error_create_args {
    size_t struct_size;
    xla_extension *extension;
    const char *message;
    int code;
} xla_error_create_args;

typedef struct xla_stream_get_args {
    size_t struct_size;
    xla_extension *extension;
    void *context;
    void *stream;
} xla_stream_get_args;

typedef struct xla_memory_args {
    size_t struct_size;
    xla_extension *extension;
    void *context;
    size_t bytes;
    size_t alignment;
    void *data;
} xla_memory_args;

typedef struct xla_ordinal_args {
    size_t struct_size;
    xla_extension *extension;
    void *context;
    int32_t ordinal;
} xla_ordinal_args;

typedef xla_error *(*xla_function)(void);

typedef struct xla_api {
    size_t struct_size;
    xla_extension *extension;
    xla_version version;
    const void *internal;
    xla_error *(*error_create)(xla_error_create_args *);
    xla_function error_message, error_destroy, handler_register;
    xla_error *(*stream_get)(xla_stream_get_args *);
    xla_function type_register, context_get, state_set, state_get;
    xla_error *(*memory_allocate)(xla_memory_args *);
    xla_function memory_free, pool_schedule, pool_threads;
    xla_function future_create, future_available, future_error, run_id;
    xla_error *(*ordinal_get)(xla_ordinal_args *); /* where struct_size says that it is there */
} xla_api;

typedef struct xla_call {
    size_t struct_size;
    xla_extension *extension;
    const xla_api *api;
    void *context;
    int stage;
    xla_values arguments;
    xla_values results;
    xla_attributes attributes;
} xla_call;

#endif
