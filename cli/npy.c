/* npy.c: the .npy format, versions 1 to 3: magic, header length, header, then the elements. */
#include "npy_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "npy.c takes the machine for little-endian"
#endif

enum {
    MAX_HEADER_BYTES = 65536, /* NumPy's own headers have 54 to 118 */
    FIRST_CHUNK_BYTES = 1 << 20
};

static const char magic[6] = "\x93NUMPY";

int64_t npy_count(const npy_array *array)
{
    int64_t count = 1;
    for (int axis = 0; axis < array->dims; axis++)
        count *= array->shape[axis];
    return count;
}

static bool read_header(FILE *file, npy_array *array, npy_header *head, char error[NPY_ERROR_BYTES])
{
    unsigned char start[8], length_bytes[4] = {0};
    if (fread(start, 1, sizeof start, file) != sizeof start ||
        memcmp(start, magic, sizeof magic) != 0)
        return npy_fail(error, "is no .npy file (it does not begin with \\x93NUMPY)");
    if (start[6] < 1 || start[6] > 3)
        return npy_fail(error, "has version %d of the .npy format; 1 to 3 are known", start[6]);
    size_t length_size = start[6] == 1 ? 2 : 4;
    if (fread(length_bytes, 1, length_size, file) != length_size)
        return npy_fail(error, "ends within its header");
    size_t length = (size_t)length_bytes[0] | (size_t)length_bytes[1] << 8 |
                    (size_t)length_bytes[2] << 16 | (size_t)length_bytes[3] << 24;
    if (length > MAX_HEADER_BYTES)
        return npy_fail(error, "claims a header of %zu bytes; at most %d are accepted", length,
                        (int)MAX_HEADER_BYTES);
    char *text = calloc(length + 1, 1);
    if (text == NULL)
        return npy_fail(error, "does not fit into memory");
    bool ok = fread(text, 1, length, file) == length;
    if (!ok)
        npy_fail(error, "ends within its header");
    else if (strlen(text) != length)
        ok = npy_fail(error, "has a damaged header (a zero byte)");
    else
        ok = npy_parse_header(text, array, head, error);
    free(text);
    return ok;
}

/* Elements that a buffer can hold: PTRDIFF_MAX bytes. An extent of 0 makes any shape empty, but the
 * product of the others must not overflow either: strides are made of them. */
static bool count_bytes(const npy_array *array, size_t *bytes, char error[NPY_ERROR_BYTES])
{
    uint64_t limit = (uint64_t)PTRDIFF_MAX / array->item_bytes, count = 1;
    bool empty = false;
    for (int axis = 0; axis < array->dims; axis++) {
        uint64_t extent = (uint64_t)array->shape[axis];
        empty = empty || extent == 0;
        if (extent > 0 && count > limit / extent)
            return npy_fail(error, "claims a shape with more elements than memory can hold");
        count *= extent > 0 ? extent : 1;
    }
    *bytes = empty ? 0 : (size_t)count * array->item_bytes;
    return true;
}

static bool read_data(FILE *file, npy_array *array, size_t bytes, char error[NPY_ERROR_BYTES])
{
    size_t capacity = 0, used = 0;
    array->data = NULL;
    do {
        size_t grown = capacity == 0 ? FIRST_CHUNK_BYTES : capacity * 2;
        capacity = grown < bytes ? grown : bytes;
        void *data = realloc(array->data, capacity > 0 ? capacity : 1);
        if (data == NULL) {
            npy_fail(error, "does not fit into memory (%zu bytes)", bytes);
            npy_free(array);
            return false;
        }
        array->data = data;
        used += fread((char *)array->data + used, 1, capacity - used, file);
    } while (used == capacity && used < bytes);
    if (used < bytes) {
        npy_fail(error, "is truncated: its header promises %zu bytes of elements, it holds %zu",
                 bytes, used);
    } else if (fgetc(file) != EOF) {
        npy_fail(error, "goes on after the %zu bytes of elements that its header promises", bytes);
    } else {
        return true;
    }
    npy_free(array);
    return false;
}

static void swap_bytes(npy_array *array, size_t bytes)
{
    unsigned char *item = array->data;
    for (size_t offset = 0; offset < bytes;
         offset += array->item_bytes, item += array->item_bytes) {
        for (size_t low = 0, high = array->item_bytes - 1; low < high; low++, high--) {
            unsigned char byte = item[low];
            item[low] = item[high];
            item[high] = byte;
        }
    }
}

/* The file has the first index fastest; walk its elements in order and put each in C's place. */
static bool to_c_order(npy_array *array, size_t bytes, char error[NPY_ERROR_BYTES])
{
    char *ordered = malloc(bytes > 0 ? bytes : 1);
    if (ordered == NULL)
        return npy_fail(error, "does not fit into memory twice (%zu bytes, in Fortran order)",
                        bytes);
    size_t stride[NPY_MAX_DIMS], next = array->item_bytes;
    int64_t index[NPY_MAX_DIMS] = {0};
    for (int axis = array->dims - 1; axis >= 0; axis--) {
        stride[axis] = next;
        next *= (size_t)array->shape[axis];
    }
    size_t target = 0;
    for (size_t source = 0; source < bytes; source += array->item_bytes) {
        memcpy(ordered + target, (char *)array->data + source, array->item_bytes);
        for (int axis = 0; axis < array->dims; axis++) {
            target += stride[axis];
            if (++index[axis] < array->shape[axis])
                break;
            target -= stride[axis] * (size_t)array->shape[axis];
            index[axis] = 0;
        }
    }
    free(array->data);
    array->data = ordered;
    return true;
}

bool npy_read(FILE *file, npy_array *array, char error[NPY_ERROR_BYTES])
{
    npy_header head = {0};
    size_t bytes = 0;
    *array = (npy_array){0};
    if (!read_header(file, array, &head, error) || !count_bytes(array, &bytes, error) ||
        !read_data(file, array, bytes, error))
        return false;
    if (head.big_endian)
        swap_bytes(array, bytes);
    if (head.fortran_order && array->dims > 1 && !to_c_order(array, bytes, error)) {
        npy_free(array);
        return false;
    }
    return true;
}

void npy_free(npy_array *array)
{
    free(array->data);
    array->data = NULL;
}

/* Version 1; the header is padded so that the elements begin at a multiple of 64. */

bool npy_write(FILE *file, const npy_array *array)
{
    char text[512];
    char order = array->item_bytes == 1 || array->kind == 'V' ? '|' : '<';
    int length =
        snprintf(text, sizeof text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (",
                 order, array->kind, array->item_bytes);
    for (int axis = 0; axis < array->dims; axis++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%" PRId64 "%s",
                           array->shape[axis],
                           axis + 1 < array->dims ? ", "
                           : array->dims == 1     ? ","
                                                  : "");
    length += snprintf(text + length, sizeof text - (size_t)length, "), }");
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    fwrite(magic, 1, sizeof magic, file);
    const unsigned char version_and_length[4] = {1, 0, (unsigned char)(padded & 255),
                                                 (unsigned char)(padded >> 8)};
    fwrite(version_and_length, 1, sizeof version_and_length, file);
    fprintf(file, "%-*s\n", padded - 1, text);
    fwrite(array->data, array->item_bytes, (size_t)npy_count(array), file);
    return ferror(file) == 0;
}
