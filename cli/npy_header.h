/* npy_header.h: what npy.c and its header parser share. */
#ifndef CLI_NPY_HEADER_H
#define CLI_NPY_HEADER_H

#include "npy.h"

typedef struct npy_header {
    bool big_endian;
    bool fortran_order;
    bool has_descr, has_order, has_shape;
} npy_header;

/* Fills in the array's type and shape. */
bool npy_parse_header(const char *text, npy_array *array, npy_header *head,
                      char error[NPY_ERROR_BYTES]);

/* Writes the sentence and returns false. */
bool npy_fail(char error[NPY_ERROR_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
