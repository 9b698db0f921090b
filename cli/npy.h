/* npy.h: NumPy's .npy files, read into memory and written. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NPY_MAX_DIMS = 8, NPY_ERROR_BYTES = 256 };

/* An array in the order of C and of this machine's bytes, whatever the file held. */
typedef struct npy_array {
    char kind; /* NumPy's letter: f float, i and u integer, b boolean, V raw bytes */
    size_t item_bytes;
    int dims;
    int64_t shape[NPY_MAX_DIMS];
    void *data; /* from malloc; npy_free */
} npy_array;

/* On failure `error` holds a sentence without the file's name, and nothing is to be freed. Never
 * allocates much more than the file really holds, whatever its header claims. */
bool npy_read(FILE *file, npy_array *array, char error[NPY_ERROR_BYTES]);
void npy_free(npy_array *array);

/* False: the stream reports why (ferror, errno). */
bool npy_write(FILE *file, const npy_array *array);

int64_t npy_count(const npy_array *array); /* elements */

#endif
