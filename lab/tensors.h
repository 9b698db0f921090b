/* tensors.h: the data of a case in the memory layout its problem asks for.
 *
 * All memory that no element lies in (padding, gaps, pages nobody uses, rows past a sequence's
 * end, LAB_GUARD_BYTES around each tensor) is poisoned: every byte is 0xFF, which reads as NaN in
 * every floating type, as -1 in lengths and page tables and as garbage in masks. Keys that no row
 * may see hold NaN as well, unless their memory is shared with others. */
#ifndef LAB_TENSORS_H
#define LAB_TENSORS_H

#include "cases.h"
#include "memory.h"

enum { LAB_GUARD_BYTES = 512, LAB_POISON = 0xFF };

typedef enum lab_tensor {
    LAB_Q,
    LAB_K,
    LAB_V,
    LAB_Q_SCALE,
    LAB_K_SCALE,
    LAB_V_SCALE,
    LAB_ALIBI,
    LAB_BIAS,
    LAB_MASK,
    LAB_SINKS,
    LAB_CU_Q,
    LAB_CU_KV,
    LAB_KV_LENGTHS,
    LAB_PAGE_TABLE,
    LAB_DOUT,
    LAB_INPUT_COUNT,

    LAB_OUT = LAB_INPUT_COUNT,
    LAB_LSE,
    LAB_DQ,
    LAB_DK,
    LAB_DV,
    LAB_DBIAS,
    LAB_DSINKS,
    LAB_TENSOR_COUNT
} lab_tensor;

typedef struct lab_buffer {
    const char
        *name;    /* the field of fc_buffers or fc_gradients; NULL: the case has no such tensor */
    fc_type type; /* FC_TYPE_AUTO: no floating type */
    int64_t element_bytes;
    int64_t sizes[4]; /* batch or page, head, row, dim or key */
    int64_t strides[4];
    int64_t elements; /* from the lowest address to the highest */
    int64_t origin;   /* the element that the library's pointer shows */
    uint8_t *image;   /* of an input, on the host: guard, elements, guard */
    void *memory;     /* the same on the device, also of an output */
    bool borrowed;    /* image and memory belong to q's buffer: q, k and v in one allocation */
} lab_buffer;

typedef struct lab_span {
    int64_t q_rows, kv_rows;
    int64_t q_first, kv_first; /* rows of packed tensors, else 0 */
} lab_span;

typedef struct lab_tensors {
    fc_case of;
    fc_attention problem; /* with every default filled in */
    lab_memory memory;
    lab_buffer buffer[LAB_TENSOR_COUNT];
    lab_span *spans; /* one per sequence */
} lab_tensors;

/* Outputs are made but not filled. On failure nothing stays allocated. */
fc_status lab_tensors_create(const fc_case *c, const lab_memory *memory, lab_tensors *tensors);
void lab_tensors_destroy(lab_tensors *tensors);

/* Pointers to the device's memory; the workspace is the caller's. */
fc_buffers lab_tensors_buffers(const lab_tensors *tensors);
fc_gradients lab_tensors_gradients(const lab_tensors *tensors);

/* The element's number in an image; head, row and dim count within sequence b. */
int64_t lab_element(const lab_tensors *tensors, lab_tensor tensor, int64_t b, int64_t head,
                    int64_t row, int64_t dim);
/* Whether all threads should share out a tensor's rows: it is large, and no two of them are the
 * same memory. */
bool lab_shares_out(const lab_tensors *tensors, lab_tensor tensor);
/* What an FP8 element of q, k or v is multiplied with; 1 for all others. */
double lab_scale(const lab_tensors *tensors, lab_tensor tensor, int64_t b, int64_t head,
                 int64_t row);
void *lab_elements(const lab_buffer *buffer);      /* of the image, behind its guard */
void *lab_pointer(const lab_buffer *buffer);       /* what the library gets */
size_t lab_buffer_bytes(const lab_buffer *buffer); /* guards included */

/* One byte per element of an output: 1 where a call has to write. Release with free. */
uint8_t *lab_written_elements(const lab_tensors *tensors, lab_tensor tensor);

/* A row of q, k, v or dout as plain numbers. */
void lab_row_read(const lab_tensors *tensors, lab_tensor tensor, int64_t b, int64_t head,
                  int64_t row, double *values);

/* One sequence's inputs as plain numbers, dense and expanded: what the layout stands for. */
typedef struct lab_sequence {
    int64_t b;
    int64_t q_rows, kv_rows;
    double *q;     /* [q_heads][q_rows][head_dim] */
    double *k;     /* [kv_heads][kv_rows][head_dim] */
    double *v;     /* [kv_heads][kv_rows][value_dim] */
    double *dout;  /* [q_heads][q_rows][value_dim], NULL without backward */
    double *bias;  /* [q_heads][q_rows][kv_rows] or NULL */
    uint8_t *mask; /* the same */
    float *alibi;  /* [q_heads] or NULL */
    float *sinks;  /* the same */
    uint64_t dropout_seed, dropout_offset;
} lab_sequence;

void lab_sequence_read(const lab_tensors *tensors, int64_t b, lab_sequence *sequence);
/* No more of it than lab_sees looks at. */
void lab_sequence_read_visibility(const lab_tensors *tensors, int64_t b, lab_sequence *sequence);
void lab_sequence_free(lab_sequence *sequence);

/* Whether query row i may see key j of its sequence, by the header's rule. */
bool lab_sees(const fc_attention *problem, const lab_sequence *sequence, int64_t head, int64_t i,
              int64_t j);

#endif
