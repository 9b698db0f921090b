/* cache.c: a file is header, binary, log; the digest is over everything but itself. */
#include "jit/cache.h"

#include "jit/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Byte offsets in the header; numbers are little-endian. */
enum {
    MAGIC_AT = 0,
    FORMAT_AT = 8,
    SIGNATURE_AT = 16,
    BINARY_BYTES_AT = SIGNATURE_AT + JIT_SIGNATURE_CHARS,
    LOG_BYTES_AT = BINARY_BYTES_AT + 8,
    DIGEST_AT = LOG_BYTES_AT + 8,
    HEADER_BYTES = DIGEST_AT + JIT_SHA256_BYTES,
    FORMAT = 1,
    MAX_FILE_BYTES = 1 << 28,
    FILE_NAME_CHARS = 128,
    OLD_DRAFT_SECONDS = 3600
};

static const char draft_prefix[] = "draft-";
static const char magic[8] = {'F', 'C', 'K', 'E', 'R', 'N', 'E', 'L'};

static void store_number(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t load_number(const unsigned char *from)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static fc_status choose_path(char path[PATH_MAX])
{
    const char *own = getenv("FLASHCORE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int chars;
    if (own != NULL && own[0] != '\0')
        chars = snprintf(path, PATH_MAX, "%s", own);
    else if (xdg != NULL && xdg[0] == '/')
        chars = snprintf(path, PATH_MAX, "%s/flashcore", xdg);
    else if (home != NULL && home[0] != '\0')
        chars = snprintf(path, PATH_MAX, "%s/.cache/flashcore", home);
    else
        return fc_fail(FC_ERROR_INVALID, "no place for the kernel cache: none of FLASHCORE_CACHE, "
                                         "XDG_CACHE_HOME and HOME is set");
    FC_REQUIRE(chars > 0 && chars < PATH_MAX,
               "the kernel cache's path of %d characters is too long", chars);
    return FC_OK;
}

/* Failures show when the directory is opened. */
static void make_directories(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, S_IRWXU);
        *slash = '/';
    }
    mkdir(part, S_IRWXU);
}

static fc_status check_directory(int directory, const char *path)
{
    struct stat info;
    FC_REQUIRE(fstat(directory, &info) == 0, "the kernel cache %s can't be examined: %s", path,
               strerror(errno));
    FC_REQUIRE(info.st_uid == geteuid(),
               "the kernel cache %s belongs to user %ld, but must belong to the one who runs this, "
               "%ld",
               path, (long)info.st_uid, (long)geteuid());
    FC_REQUIRE((info.st_mode & (S_IWGRP | S_IWOTH)) == 0,
               "the kernel cache %s can be written by others (mode %03o): chmod go-w makes it safe",
               path, (unsigned)info.st_mode & 0777u);
    return FC_OK;
}

fc_status jit_cache_open(int *directory)
{
    char path[PATH_MAX];
    FC_TRY(choose_path(path));
    make_directories(path);
    int opened = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    FC_REQUIRE(opened >= 0, "the kernel cache %s can't be opened as a directory: %s", path,
               strerror(errno));
    fc_status status = check_directory(opened, path);
    if (status != FC_OK)
        close(opened);
    else
        *directory = opened;
    return status;
}

void jit_cache_close(int directory)
{
    close(directory);
}

static void digest_file(const unsigned char *header, const void *binary, size_t binary_bytes,
                        const char *log, size_t log_bytes, unsigned char digest[JIT_SHA256_BYTES])
{
    jit_sha256 hash;
    jit_sha256_start(&hash);
    jit_sha256_add(&hash, header, DIGEST_AT);
    jit_sha256_add(&hash, binary, binary_bytes);
    jit_sha256_add(&hash, log, log_bytes);
    jit_sha256_finish(&hash, digest);
}

static bool read_whole(int file, unsigned char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = read(file, to, bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        to += count;
        bytes -= (size_t)count;
    }
    return true;
}

static bool write_whole(int file, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        ssize_t count = write(file, from, bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        from += count;
        bytes -= (size_t)count;
    }
    return true;
}

/* The whole file in memory, or NULL. */
static unsigned char *read_file(int directory, const char *name, size_t *bytes)
{
    /* O_NONBLOCK: a pipe by that name must not make us wait. */
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat info;
    unsigned char *content = NULL;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        info.st_size >= HEADER_BYTES && info.st_size <= MAX_FILE_BYTES) {
        *bytes = (size_t)info.st_size;
        content = malloc(*bytes);
    }
    if (content != NULL && !read_whole(file, content, *bytes)) {
        free(content);
        content = NULL;
    }
    close(file);
    return content;
}

static bool is_whole(const unsigned char *content, size_t bytes, const char *signature)
{
    uint64_t binary_bytes = load_number(content + BINARY_BYTES_AT);
    uint64_t log_bytes = load_number(content + LOG_BYTES_AT);
    size_t payload_bytes = bytes - HEADER_BYTES;
    if (memcmp(content + MAGIC_AT, magic, sizeof magic) != 0 ||
        load_number(content + FORMAT_AT) != FORMAT ||
        memcmp(content + SIGNATURE_AT, signature, JIT_SIGNATURE_CHARS) != 0 ||
        binary_bytes > payload_bytes || log_bytes != payload_bytes - binary_bytes)
        return false;
    const unsigned char *binary = content + HEADER_BYTES;
    unsigned char digest[JIT_SHA256_BYTES];
    digest_file(content, binary, (size_t)binary_bytes, (const char *)binary + binary_bytes,
                (size_t)log_bytes, digest);
    return memcmp(digest, content + DIGEST_AT, sizeof digest) == 0;
}

static void name_file(char name[FILE_NAME_CHARS], const char *signature)
{
    snprintf(name, FILE_NAME_CHARS, "%s.fckernel", signature);
}

bool jit_cache_load(int directory, jit_kernel *kernel)
{
    char name[FILE_NAME_CHARS];
    name_file(name, kernel->signature);
    size_t bytes = 0;
    unsigned char *content = read_file(directory, name, &bytes);
    bool found = content != NULL && is_whole(content, bytes, kernel->signature);
    if (found) {
        size_t binary_bytes = (size_t)load_number(content + BINARY_BYTES_AT);
        const unsigned char *binary = content + HEADER_BYTES;
        kernel->binary = malloc(binary_bytes > 0 ? binary_bytes : 1);
        kernel->log =
            strndup((const char *)binary + binary_bytes, bytes - HEADER_BYTES - binary_bytes);
        found = kernel->binary != NULL && kernel->log != NULL;
        if (found) {
            memcpy(kernel->binary, binary, binary_bytes);
            kernel->binary_bytes = binary_bytes;
        } else {
            free(kernel->binary);
            free(kernel->log);
            kernel->binary = NULL;
            kernel->log = NULL;
        }
    }
    free(content);
    return found;
}

static void fill_header(unsigned char header[HEADER_BYTES], const jit_kernel *kernel,
                        size_t log_bytes)
{
    memcpy(header + MAGIC_AT, magic, sizeof magic);
    store_number(header + FORMAT_AT, FORMAT);
    memcpy(header + SIGNATURE_AT, kernel->signature, JIT_SIGNATURE_CHARS);
    store_number(header + BINARY_BYTES_AT, kernel->binary_bytes);
    store_number(header + LOG_BYTES_AT, log_bytes);
    digest_file(header, kernel->binary, kernel->binary_bytes, kernel->log, log_bytes,
                header + DIGEST_AT);
}

/* What a process that was killed while writing left behind. Writing takes well under a second, so
 * that a draft untouched for an hour has no writer any more. Failures do no harm: it is tried again
 * with the next kernel. */
static void remove_old_drafts(int directory)
{
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    if (listing == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    const time_t now = time(NULL);
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        struct stat info;
        if (strncmp(entry->d_name, draft_prefix, strlen(draft_prefix)) == 0 &&
            fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            info.st_mtime < now - OLD_DRAFT_SECONDS)
            unlinkat(directory, entry->d_name, 0);
    }
    closedir(listing);
}

/* A new file that nobody else writes to; -1 with errno set when there can be none. */
static int create_draft(int directory, char name[FILE_NAME_CHARS])
{
    static atomic_uint drafts;
    int file;
    do {
        /* Processes of two containers may share a number: then the next name is tried. */
        snprintf(name, FILE_NAME_CHARS, "%s%ld-%u", draft_prefix, (long)getpid(),
                 atomic_fetch_add(&drafts, 1));
        file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
    } while (file < 0 && errno == EEXIST);
    return file;
}

fc_status jit_cache_store(int directory, const jit_kernel *kernel)
{
    char name[FILE_NAME_CHARS], draft[FILE_NAME_CHARS];
    unsigned char header[HEADER_BYTES];
    size_t log_bytes = strlen(kernel->log);
    name_file(name, kernel->signature);
    fill_header(header, kernel, log_bytes);
    remove_old_drafts(directory);
    int file = create_draft(directory, draft);
    FC_REQUIRE(file >= 0, "no file can be made in the kernel cache: %s", strerror(errno));
    bool stored = write_whole(file, header, sizeof header) &&
                  write_whole(file, kernel->binary, kernel->binary_bytes) &&
                  write_whole(file, kernel->log, log_bytes);
    stored = close(file) == 0 && stored;
    if (!stored || renameat(directory, draft, directory, name) != 0) {
        int reason = errno;
        unlinkat(directory, draft, 0);
        return fc_fail(FC_ERROR_INVALID, "%s can't be written to the kernel cache: %s", name,
                       strerror(reason));
    }
    return FC_OK;
}
