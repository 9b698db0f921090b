/* nvrtc.c: finds NVRTC, opens it, and has it compile. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "jit/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NVRTC_OUT_OF_MEMORY = 1, NVRTC_COMPILATION = 6 };

static const char *const library_names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
static const char *const library_folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                              "/usr/local/cuda/targets/*/lib"};
enum {
    NAME_COUNT = sizeof library_names / sizeof *library_names,
    FOLDER_COUNT = sizeof library_folders / sizeof *library_folders
};

static void *open_library(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_first_match(const char *pattern)
{
    glob_t paths;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &paths) == 0)
        for (size_t i = 0; i < paths.gl_pathc && library == NULL; i++)
            library = open_library(paths.gl_pathv[i]);
    globfree(&paths);
    return library;
}

static void *search_library(void)
{
    void *library = NULL;
    for (int name = 0; name < NAME_COUNT && library == NULL; name++)
        library = open_library(library_names[name]);
    for (int folder = 0; folder < FOLDER_COUNT; folder++)
        for (int name = 0; name < NAME_COUNT && library == NULL; name++) {
            char pattern[128];
            snprintf(pattern, sizeof pattern, "%s/%s", library_folders[folder],
                     library_names[name]);
            library = open_first_match(pattern);
        }
    return library;
}

static fc_status find_library(void **library)
{
    const char *path = secure_getenv("FLASHCORE_NVRTC");
    if (path == NULL || path[0] == '\0') {
        *library = search_library();
        if (*library == NULL)
            return fc_fail(FC_ERROR_UNSUPPORTED,
                           "kernels are compiled at run time by NVRTC, which was not found: "
                           "install the CUDA toolkit (12.4 or newer) or set FLASHCORE_NVRTC to "
                           "the path of libnvrtc.so");
        return FC_OK;
    }
    *library = open_library(path);
    if (*library == NULL)
        return fc_fail(FC_ERROR_UNSUPPORTED,
                       "FLASHCORE_NVRTC = \"%s\" can't be opened (%s): set it to the path of "
                       "libnvrtc.so, a part of the CUDA toolkit",
                       path, dlerror());
    return FC_OK;
}

static bool find_function(void *library, const char *name, void *function, size_t function_bytes)
{
    void *symbol = dlsym(library, name);
    /* Copied, because C has no conversion from an object's pointer to a function's. */
    memcpy(function, &symbol, function_bytes);
    return symbol != NULL;
}

/* The name of a function that the library lacks, or NULL. */
static const char *find_functions(void *library, jit_nvrtc *compiler)
{
#define FIND(name, arguments)                                                           \
    if (!find_function(library, "nvrtc" #name, &compiler->name, sizeof compiler->name)) \
        return "nvrtc" #name;
    JIT_NVRTC_FUNCTIONS(FIND)
    FIND(GetErrorString, )
#undef FIND
    return NULL;
}

/* Two builds of one version differ in what they compile, hence size and time of the file. */
static void describe(const char *library_path, jit_nvrtc *compiler)
{
    int major = 0, minor = 0;
    compiler->Version(&major, &minor);
    struct stat file = {0};
    if (stat(library_path, &file) != 0)
        file.st_size = 0;
    snprintf(compiler->identity, sizeof compiler->identity, "NVRTC %d.%d, %lld bytes of %lld",
             major, minor, (long long)file.st_size, (long long)file.st_mtime);
}

/* Toolkits have include beside lib or lib64; Python's packages may have it one folder further. */
static void find_toolkit_headers(const char *library_path, jit_nvrtc *compiler)
{
    static const char *const ways[] = {"../include", "../../include", "../../cuda_runtime/include"};
    const char *slash = strrchr(library_path, '/');
    int folder_chars = slash != NULL ? (int)(slash - library_path) : 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && slash != NULL; i++) {
        char header[sizeof compiler->include_option];
        int chars = snprintf(header, sizeof header, "%.*s/%s/cuda_fp16.h", folder_chars,
                             library_path, ways[i]);
        if (chars > 0 && (size_t)chars < sizeof header && access(header, R_OK) == 0) {
            snprintf(compiler->include_option, sizeof compiler->include_option, "-I%.*s/%s",
                     folder_chars, library_path, ways[i]);
            return;
        }
    }
}

static fc_status open_compiler(jit_nvrtc *compiler)
{
    void *library;
    FC_TRY(find_library(&library));
    const char *missing = find_functions(library, compiler);
    if (missing != NULL) {
        dlclose(library);
        return fc_fail(FC_ERROR_UNSUPPORTED,
                       "the NVRTC library has no function %s: it must be that of CUDA 12.4 or "
                       "newer (FLASHCORE_NVRTC names another)",
                       missing);
    }
    Dl_info where = {0};
    dladdr(dlsym(library, "nvrtcVersion"), &where);
    const char *path = where.dli_fname != NULL ? where.dli_fname : "";
    describe(path, compiler);
    find_toolkit_headers(path, compiler);
    return FC_OK;
}

fc_status jit_nvrtc_open(const jit_nvrtc **compiler)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static jit_nvrtc opened;
    static bool is_open;
    pthread_mutex_lock(&lock);
    fc_status status = is_open ? FC_OK : open_compiler(&opened);
    is_open = status == FC_OK;
    pthread_mutex_unlock(&lock);
    *compiler = status == FC_OK ? &opened : NULL;
    return status;
}

static void *allocate(size_t bytes, fc_status *status)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        *status = fc_fail(FC_ERROR_MEMORY, "out of memory for %zu bytes of compiled code", bytes);
    return memory;
}

static fc_status read_log(const jit_nvrtc *compiler, jit_nvrtc_program program, jit_kernel *kernel)
{
    size_t bytes = 0;
    fc_status status = FC_OK;
    if (compiler->GetProgramLogSize(program, &bytes) != 0)
        bytes = 0;
    kernel->log = allocate(bytes + 1, &status);
    if (kernel->log == NULL)
        return status;
    kernel->log[0] = '\0';
    if (bytes > 0 && compiler->GetProgramLog(program, kernel->log) != 0)
        kernel->log[0] = '\0';
    kernel->log[bytes] = '\0';
    return FC_OK;
}

static fc_status fail_to_compile(const jit_nvrtc *compiler, jit_nvrtc_result result,
                                 const char *file, const char *log)
{
    fc_status status = result == NVRTC_COMPILATION     ? FC_ERROR_INVALID
                       : result == NVRTC_OUT_OF_MEMORY ? FC_ERROR_MEMORY
                                                       : FC_ERROR_UNSUPPORTED;
    /* As much of the log as the sentence has room for: the first error is the one that counts. */
    return fc_fail(status, "%s does not compile (%s): %s", file, compiler->GetErrorString(result),
                   log);
}

static fc_status read_binary(const jit_nvrtc *compiler, jit_nvrtc_program program, bool ptx,
                             jit_kernel *kernel)
{
    jit_nvrtc_result result = ptx ? compiler->GetPTXSize(program, &kernel->binary_bytes)
                                  : compiler->GetCUBINSize(program, &kernel->binary_bytes);
    fc_status status = FC_OK;
    if (result == 0)
        kernel->binary = allocate(kernel->binary_bytes, &status);
    if (status != FC_OK)
        return status;
    if (result == 0)
        result = ptx ? compiler->GetPTX(program, kernel->binary)
                     : compiler->GetCUBIN(program, kernel->binary);
    if (result != 0 || kernel->binary_bytes == 0)
        return fc_fail(FC_ERROR_UNSUPPORTED, "NVRTC compiled but gave no %s (%s)",
                       ptx ? "PTX" : "machine code", compiler->GetErrorString(result));
    return FC_OK;
}

static fc_status compile(const jit_nvrtc *compiler, const jit_program *program,
                         jit_nvrtc_program handle, jit_kernel *kernel)
{
    jit_nvrtc_result result = compiler->CompileProgram(handle, program->option_count,
                                                       (const char *const *)program->options);
    FC_TRY(read_log(compiler, handle, kernel));
    if (result != 0)
        return fail_to_compile(compiler, result, program->source->name, kernel->log);
    return read_binary(compiler, handle, program->wants_ptx, kernel);
}

fc_status jit_nvrtc_compile(const jit_nvrtc *compiler, const jit_program *program,
                            jit_kernel *kernel)
{
    const char *header_texts[JIT_MAX_HEADERS];
    for (int i = 0; i < program->header_count; i++)
        header_texts[i] = program->headers[i]->text;
    jit_nvrtc_program handle;
    jit_nvrtc_result result = compiler->CreateProgram(
        &handle, program->source->text, program->source->name, program->header_count, header_texts,
        (const char *const *)program->header_names);
    if (result != 0)
        return fail_to_compile(compiler, result, program->source->name, "no program was made");
    fc_status status = compile(compiler, program, handle, kernel);
    compiler->DestroyProgram(&handle);
    return status;
}
