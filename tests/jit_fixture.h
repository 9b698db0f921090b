/* jit_fixture.h: a cache directory of its own for each test, and a few small kernels. */
#ifndef TESTS_JIT_FIXTURE_H
#define TESTS_JIT_FIXTURE_H

#include "jit/jit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after what it needs */

enum { JIT_FIXTURE_PATH = 512 };

/* "ladder/add.cu" and the headers it includes; it wants VALUE. */
extern const jit_source jit_fixture_sources[];
extern const size_t jit_fixture_source_count;

/* Setup and teardown of a test: FLASHCORE_CACHE names a directory that does not exist yet. */
int jit_fixture_open(void **state);
int jit_fixture_close(void **state);
const char *jit_fixture_directory(void);

/* "add.cu" for sm_80 with one macro and NULL or one option. */
jit_request jit_fixture_request(const char *const *macro, const char *const *option);
/* Its kernel; a failure fails the test with the library's sentence. Release it. */
jit_kernel jit_fixture_build(const jit_request *request);

/* Files in the cache directory, and the path of the last of them. */
int jit_fixture_count_files(char path[JIT_FIXTURE_PATH]);

/* The whole content, at most 64 KiB, and how much there was. */
size_t jit_fixture_read(const char *path, unsigned char content[1 << 16]);
void jit_fixture_write(const char *path, const void *content, size_t bytes);

#endif
