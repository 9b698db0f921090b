/* fuzz_npy.c: any file at all to the .npy reader. What it accepts must survive being written and
 * read again. */
#include "cli/npy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void require(int condition, const char *promise)
{
    if (!condition) {
        fprintf(stderr, "fuzz_npy: not so: %s\n", promise);
        abort();
    }
}

static void write_and_read_again(const npy_array *array)
{
    const size_t data_bytes = (size_t)npy_count(array) * array->item_bytes;
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *const sink = open_memstream(&text, &text_bytes);
    require(sink && npy_write(sink, array) && fclose(sink) == 0, "what was read can be written");

    npy_array again;
    char error[NPY_ERROR_BYTES];
    FILE *const source = fmemopen(text, text_bytes, "rb");
    require(source && npy_read(source, &again, error), "what was written can be read");
    require(again.kind == array->kind && again.item_bytes == array->item_bytes &&
                again.dims == array->dims &&
                memcmp(again.shape, array->shape, sizeof(int64_t) * (size_t)array->dims) == 0,
            "type and shape stay the same");
    require(!data_bytes || memcmp(again.data, array->data, data_bytes) == 0, "data stay the same");
    fclose(source);
    npy_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (!count)
        return 0; /* fmemopen has no empty file */
    FILE *const file = fmemopen((void *)bytes, count, "rb");
    require(file != NULL, "fmemopen works");
    npy_array array;
    char error[NPY_ERROR_BYTES] = "";
    if (npy_read(file, &array, error)) {
        write_and_read_again(&array);
        npy_free(&array);
    } else {
        require(error[0] && memchr(error, 0, sizeof error), "a refusal has a sentence");
    }
    fclose(file);
    return 0;
}
