/* output.h: what the program says, and files that appear whole or not at all. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "json.h"
#include "options.h"

#include <stdbool.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* "flashcore: …" on stderr; returns the status. */
int cli_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for steps of a verb; false. */
bool cli_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory, or the end of the program with a sentence. */
void *cli_allocate(size_t bytes); /* zeroed */
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A file under a temporary name beside its own until it is committed. */
typedef struct cli_output {
    FILE *file;
    char *path;
    char *temporary_path;
} cli_output;

/* All print why they failed, and leave what was at the path before. Discard in the end. */
bool cli_output_open(cli_output *output, const char *path);
bool cli_output_finish(cli_output *output); /* every byte is written */
bool cli_output_commit(cli_output *output); /* finished and under its own name */
void cli_output_discard(cli_output *output);

/* Where --json points, `write` is called for it. False: the file could not be written. */
typedef void cli_json_function(json_writer *json, const void *data);
bool cli_write_json(const cli_arguments *arguments, cli_json_function *write, const void *data);

/* Opens the object that a verb's result is, with what says where it comes from. */
void cli_json_result(json_writer *json, const char *verb);

/* Text for people goes to stdout unless JSON does. */
bool cli_wants_text(const cli_arguments *arguments);

/* One line on a terminal, rewritten in place; nothing where stderr is no terminal. "" clears it. */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
