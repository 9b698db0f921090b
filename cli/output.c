/* output.c: see output.h. */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_error(const char *format, va_list arguments)
{
    fputs("flashcore: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int cli_fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    return status;
}

bool cli_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    return false;
}

void *cli_allocate(size_t bytes)
{
    void *memory = calloc(bytes > 0 ? bytes : 1, 1);
    if (memory == NULL)
        exit(cli_fail(CLI_FAILED, "out of memory (%zu bytes)", bytes));
    return memory;
}

char *cli_format(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = cli_allocate((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* A symbolic link stays one: the file it points to is replaced. */
static char *resolve_path(const char *path)
{
    char *resolved = realpath(path, NULL);
    return resolved != NULL ? resolved : cli_format("%s", path);
}

/* mkstemp makes files that nobody else may read; an ordinary file follows the umask. */
static void apply_umask(int descriptor)
{
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
}

bool cli_output_open(cli_output *output, const char *path)
{
    *output = (cli_output){0};
    struct stat existing;
    if (stat(path, &existing) == 0 && !S_ISREG(existing.st_mode)) {
        return cli_refuse("cannot write %s: it is not a regular file", path);
    }
    output->path = resolve_path(path);
    output->temporary_path = cli_format("%s.XXXXXX", output->path);
    int descriptor = mkstemp(output->temporary_path);
    if (descriptor >= 0) {
        apply_umask(descriptor);
        output->file = fdopen(descriptor, "wb");
    }
    if (output->file == NULL) {
        cli_fail(CLI_FAILED, "cannot write %s: %s", path, strerror(errno));
        cli_output_discard(output);
        return false;
    }
    return true;
}

bool cli_output_finish(cli_output *output)
{
    bool written = ferror(output->file) == 0;
    written = fclose(output->file) == 0 && written;
    output->file = NULL;
    return written || cli_refuse("cannot write %s: %s", output->path, strerror(errno));
}

bool cli_output_commit(cli_output *output)
{
    if (output->file != NULL && !cli_output_finish(output))
        return false;
    if (rename(output->temporary_path, output->path) != 0)
        return cli_refuse("cannot write %s: %s", output->path, strerror(errno));
    free(output->temporary_path);
    output->temporary_path = NULL;
    return true;
}

void cli_output_discard(cli_output *output)
{
    if (output->file != NULL)
        fclose(output->file);
    if (output->temporary_path != NULL)
        unlink(output->temporary_path);
    free(output->temporary_path);
    free(output->path);
    *output = (cli_output){0};
}

static bool json_goes_to_stdout(const cli_arguments *arguments)
{
    return arguments->json &&
           (arguments->json_path == NULL || strcmp(arguments->json_path, "-") == 0);
}

bool cli_wants_text(const cli_arguments *arguments)
{
    return !json_goes_to_stdout(arguments);
}

bool cli_write_json(const cli_arguments *arguments, cli_json_function *write, const void *data)
{
    if (!arguments->json)
        return true;
    cli_output output = {.file = stdout};
    bool to_file = !json_goes_to_stdout(arguments);
    if (to_file && !cli_output_open(&output, arguments->json_path))
        return false;
    json_writer json = json_start(output.file);
    write(&json, data);
    bool ok = !to_file || cli_output_commit(&output);
    if (to_file)
        cli_output_discard(&output);
    return ok;
}

void cli_json_result(json_writer *json, const char *verb)
{
    json_object(json, NULL);
    json_text(json, "verb", verb);
    json_text(json, "version", fc_version());
    json_text(json, "build", fc_build());
}

void cli_progress(const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, arguments);
    fflush(stderr);
    va_end(arguments);
}
