#include "jit_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const jit_source jit_fixture_sources[] = {
    {"ladder/add.cu", "#include \"../common/value.cuh\"\n"
                      "#include \"twice.cuh\"\n"
                      "extern \"C\" __device__ const int add_shape[4] = {1, 2, 3, VALUE};\n"
                      "extern \"C\" __global__ void add(float *x)\n"
                      "{\n"
                      "    x[threadIdx.x] += twice(value());\n"
                      "}\n"},
    {"common/value.cuh", "#ifndef VALUE_CUH\n"
                         "#define VALUE_CUH\n"
                         "static __device__ float value(void) { return VALUE; }\n"
                         "#endif\n"},
    {"ladder/twice.cuh", "#include \"common/value.cuh\"\n"
                         "static __device__ float twice(float x) { return 2 * x; }\n"},
    {"unused.cuh", "#error nobody includes this\n"},
};
const size_t jit_fixture_source_count = sizeof jit_fixture_sources / sizeof *jit_fixture_sources;

static char root[JIT_FIXTURE_PATH / 4], directory[JIT_FIXTURE_PATH / 2];

int jit_fixture_open(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/test-jit-XXXXXX", folder != NULL ? folder : "/tmp");
    if (mkdtemp(root) == NULL)
        return -1;
    snprintf(directory, sizeof directory, "%s/cache", root);
    return setenv("FLASHCORE_CACHE", directory, 1);
}

int jit_fixture_close(void **state)
{
    (void)state;
    char path[JIT_FIXTURE_PATH];
    while (jit_fixture_count_files(path) > 0)
        if (remove(path) != 0)
            return -1;
    remove(directory);
    return remove(root);
}

const char *jit_fixture_directory(void)
{
    return directory;
}

jit_request jit_fixture_request(const char *const *macro, const char *const *option)
{
    return (jit_request){.file = "ladder/add.cu",
                         .macros = macro,
                         .macro_count = 1,
                         .options = option,
                         .option_count = option != NULL,
                         .architecture = "sm_80"};
}

jit_kernel jit_fixture_build(const jit_request *request)
{
    jit_kernel kernel;
    if (jit_build_from(jit_fixture_sources, jit_fixture_source_count, request, &kernel) != FC_OK)
        fail_msg("%s", fc_last_error());
    return kernel;
}

int jit_fixture_count_files(char path[JIT_FIXTURE_PATH])
{
    DIR *listing = opendir(directory);
    if (listing == NULL)
        return 0;
    int count = 0;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(path, JIT_FIXTURE_PATH, "%s/%.200s", directory, entry->d_name);
            count++;
        }
    closedir(listing);
    return count;
}

size_t jit_fixture_read(const char *path, unsigned char content[1 << 16])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(content, 1, 1 << 16, file);
    fclose(file);
    return bytes;
}

void jit_fixture_write(const char *path, const void *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    fclose(file);
}
