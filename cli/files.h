/* files.h: whole files, read into memory. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "json_read.h"

/* Both print what is wrong and return NULL. Release with free and json_free. */
char *cli_read_text(const char *path);
json_value *cli_read_json(const char *path);

#endif
