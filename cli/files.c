/* files.c: see files.h. */
#include "files.h"
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *cli_read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 0;
    const bool any = file != NULL && getdelim(&text, &capacity, '\0', file) > 0;
    if (!any) { /* what getdelim allocated holds nothing then, not even an end */
        free(text);
        text = file != NULL && !ferror(file) ? cli_format("%s", "") : NULL;
    }
    if (text == NULL)
        cli_refuse("cannot read %s: %s", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    return text;
}

json_value *cli_read_json(const char *path)
{
    char error[JSON_ERROR_BYTES];
    char *text = cli_read_text(path);
    json_value *json = text != NULL ? json_read(text, error) : NULL;
    if (text != NULL && json == NULL)
        cli_refuse("%s is no JSON: %s", path, error);
    free(text);
    return json;
}
