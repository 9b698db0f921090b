/* tuned.c: see tuned.h. */
#include "cuda/tuned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t power_above(int64_t number)
{
    int64_t power = 1;
    while (power < number)
        power *= 2;
    return power;
}

void fc_tuned_bucket(const fc_attention *p, char bucket[FC_BUCKET_BYTES])
{
    const bool hides = p->window_left >= 0 || p->window_right >= 0;
    snprintf(bucket, FC_BUCKET_BYTES, "bh%lld q%lld kv%lld%s",
             (long long)power_above(p->batch * p->q_heads), (long long)power_above(p->q_length),
             (long long)power_above(p->kv_length), hides ? " window" : "");
}

fc_status fc_tuned_read(char **text)
{
    const char *path = getenv("FLASHCORE_TUNED");
    *text = NULL;
    if (!path || !*path)
        return FC_OK;
    FILE *file = fopen(path, "r");
    size_t capacity = 0;
    const bool any = file && getdelim(text, &capacity, '\0', file) > 0;
    const bool ok = any || (file && !ferror(file));
    const int error = errno;
    if (file)
        fclose(file);
    if (!any) { /* an empty file has no row; what was allocated for it has no end */
        free(*text);
        *text = NULL;
    }
    return ok ? FC_OK
              : fc_fail(FC_ERROR_INVALID, "FLASHCORE_TUNED names %s, which cannot be read: %s",
                        path, strerror(error));
}

/* Whether a row's column begins with exactly these words; *row moves behind its bar. */
static bool column_is(const char **row, const char *words)
{
    const size_t length = strlen(words);
    if (strncmp(*row, words, length) != 0 || strncmp(*row + length, " | ", 3) != 0)
        return false;
    *row += length + 3;
    return true;
}

void fc_tuned_find(const char *text, const char *device, const char *variant, const char *bucket,
                   char macros[FC_MACROS_BYTES])
{
    macros[0] = '\0';
    for (const char *line = text; line && *line;) {
        const char *row = line, *end = line + strcspn(line, "\n");
        line = *end ? end + 1 : end;
        if (!column_is(&row, device) || !column_is(&row, variant) || !column_is(&row, bucket))
            continue;
        const char *bar = strstr(row, " | ");
        const size_t length = (size_t)((bar && bar < end ? bar : end) - row);
        if (length < FC_MACROS_BYTES)
            snprintf(macros, FC_MACROS_BYTES, "%.*s", (int)length, row);
    }
}

fc_status fc_tuned_function(fc_cuda_device *d, const fc_cuda_variant *variant,
                            const fc_attention *problem, const fc_cuda_function **function)
{
    char bucket[FC_BUCKET_BYTES], macros[FC_MACROS_BYTES];
    fc_tuned_bucket(problem, bucket);
    fc_tuned_find(d->tuned, d->name, variant->name, bucket, macros);
    return macros[0] ? fc_cuda_find_rebuilt(d, variant, macros, function)
                     : fc_cuda_find_function(d, variant, variant->name, function);
}
