/* describe_variants.c: runs during the build. Reads variants.txt, and for each row the binaries and
 * the compiler's reports; writes the table that variants.h declares and the assembly file that
 * carries the fat binaries into the library.
 *
 *   describe_variants src/cuda/variants.txt FOLDER     -> FOLDER/variants.c, FOLDER/images.S */
#include "cuda/variants.h"
#include "jit/cubin.h"
#include "jit/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 5, LINE_BYTES = 1024, PATH_BYTES = 4096 };

/* The default budget; a row may state its own. */
enum { DEFAULT_REGISTERS = 128, DEFAULT_SHARED_BYTES = 64 * 1024, DEFAULT_SPILL_BYTES = 0 };

static const char *folder;

static void give_up(const char *what, const char *which)
{
    fprintf(stderr, "describe_variants: %s: %s\n", which, what);
    exit(1);
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        give_up("cannot be opened", path);
    fseek(file, 0, SEEK_END);
    const long length = ftell(file);
    rewind(file);
    char *data = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!data || fread(data, 1, (size_t)length, file) != (size_t)length)
        give_up("cannot be read", path);
    fclose(file);
    data[length] = 0;
    *bytes = (size_t)length;
    return data;
}

static FILE *create_file(const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        give_up("cannot be written", path);
    return file;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1]))
        text[--length] = 0;
    return text;
}

/* Cuts "name | file | targets | budget | macros" into its columns. */
static void split_row(char *line, char *columns[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        char *bar = strchr(line, '|');
        if (!bar && i < COLUMNS - 1)
            give_up("has fewer than five columns", line);
        if (bar)
            *bar = 0;
        columns[i] = trim(line);
        line = bar ? bar + 1 : line;
    }
}

static int budget(const char *column, const char *key, int otherwise)
{
    const char *found = strstr(column, key);
    return found ? atoi(found + strlen(key)) : otherwise;
}

static kernel_shape read_shape(const char *path, const char *kernel)
{
    char name[JIT_REPORT_NAME_CHARS + 16];
    snprintf(name, sizeof name, "%s_shape", kernel);
    size_t cubin_bytes, data_bytes;
    const void *data;
    char *cubin = read_file(path, &cubin_bytes);
    kernel_shape shape;
    if (jit_cubin_variable(cubin, cubin_bytes, name, &data, &data_bytes) != FC_OK)
        give_up(fc_last_error(), path);
    if (data_bytes != sizeof shape)
        give_up("its shape has another size than kernel_shape", kernel);
    memcpy(&shape, data, sizeof shape);
    free(cubin);
    return shape;
}

/* Writes the reports of one variant for one target such as "sm_80". */
static void describe_target(FILE *table, const char *name, const char *target)
{
    char log_path[PATH_BYTES], cubin_path[PATH_BYTES];
    snprintf(log_path, sizeof log_path, "%s/%s.%s.log", folder, name, target);
    snprintf(cubin_path, sizeof cubin_path, "%s/%s.%s.cubin", folder, name, target);
    size_t bytes;
    char *log = read_file(log_path, &bytes);
    const char *rest = log;
    jit_report r;
    int kernels = 0;
    for (; jit_report_next(&rest, &r); kernels++) {
        const kernel_shape s = read_shape(cubin_path, r.kernel);
        fprintf(table, "    {\"%s\", %d, %d, %d, %d, %d, {%d, %d, %d, %d, %d, %d}},\n", r.kernel,
                atoi(target + strlen("sm_")), r.registers, r.stack_bytes,
                r.spill_store_bytes + r.spill_load_bytes, r.static_shared_bytes, s.query_tile,
                s.kv_tile, s.threads, s.shared_bytes, s.grid, s.heads);
    }
    if (!kernels)
        give_up("holds no report of a kernel", log_path);
    free(log);
}

static void describe_reports(FILE *table, int index, const char *name, const char *targets)
{
    char words[LINE_BYTES];
    snprintf(words, sizeof words, "%s", targets);
    fprintf(table, "static const fc_cuda_report reports_%d[] = {\n", index);
    for (char *target = strtok(words, " "); target; target = strtok(NULL, " "))
        if (strncmp(target, "sm_", 3) == 0)
            describe_target(table, name, target);
    fprintf(table, "};\nextern const unsigned char fc_cuda_image_%d[];\n\n", index);
}

static void write_image(FILE *images, int index, const char *name)
{
    fprintf(images,
            "    .balign 64\n    .global fc_cuda_image_%d\n    .hidden fc_cuda_image_%d\n"
            "fc_cuda_image_%d:\n    .incbin \"%s/%s.fatbin\"\n",
            index, index, index, folder, name);
}

static void write_row(FILE *rows, int index, char *columns[COLUMNS])
{
    char path[PATH_BYTES];
    size_t image_bytes;
    snprintf(path, sizeof path, "%s/%s.fatbin", folder, columns[0]);
    free(read_file(path, &image_bytes));
    fprintf(rows,
            "    {\"%s\", \"%s\", \"%s\", %d, %d, %d, fc_cuda_image_%d, %zu, reports_%d,\n"
            "     sizeof reports_%d / sizeof reports_%d[0]},\n",
            columns[0], columns[1], columns[4], budget(columns[3], "registers=", DEFAULT_REGISTERS),
            budget(columns[3], "shared=", DEFAULT_SHARED_BYTES),
            budget(columns[3], "spills=", DEFAULT_SPILL_BYTES), index, image_bytes, index, index,
            index);
}

int main(int count, char **words)
{
    if (count != 3)
        give_up("usage: describe_variants VARIANTS_TXT FOLDER", "arguments");
    folder = words[2];
    FILE *list = fopen(words[1], "r");
    if (!list)
        give_up("cannot be opened", words[1]);
    FILE *table = create_file("variants.c"), *images = create_file("images.S"), *rows = tmpfile();
    if (!rows)
        give_up("cannot be made", "a temporary file");
    fprintf(table, "#include \"cuda/variants.h\"\n\n");
    fprintf(images, "    .section .rodata\n");

    char line[LINE_BYTES];
    int variants = 0;
    while (fgets(line, sizeof line, list)) {
        char *columns[COLUMNS];
        if (line[0] == '#' || !*trim(line))
            continue;
        split_row(line, columns);
        describe_reports(table, variants, columns[0], columns[2]);
        write_image(images, variants, columns[0]);
        write_row(rows, variants, columns);
        variants++;
    }
    fprintf(table, "const fc_cuda_variant fc_cuda_variants[] = {\n");
    rewind(rows);
    while (fgets(line, sizeof line, rows))
        fputs(line, table);
    fprintf(table, "};\n\nconst int fc_cuda_variant_count = %d;\n", variants);
    fprintf(images, "    .section .note.GNU-stack,\"\",%%progbits\n");
    const bool failed = ferror(table) || ferror(images);
    return fclose(table) || fclose(images) || fclose(list) || failed;
}
