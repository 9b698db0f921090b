/* test_jit_directory.c: kernels are kept where the user said, and only where nobody else can put
 * one. */
#include "jit/cache.h"
#include "jit_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_cache(void)
{
    int directory;
    if (jit_cache_open(&directory) != FC_OK)
        fail_msg("%s", fc_last_error());
    return directory;
}

static void test_the_directory_is_for_the_user_alone(void **state)
{
    (void)state;
    struct stat info;
    jit_cache_close(open_cache());
    assert_int_equal(stat(jit_fixture_directory(), &info), 0);
    assert_int_equal(info.st_mode & 0777, S_IRWXU);
}

static void check_refused(const char *words)
{
    int directory = -2;
    assert_int_equal(jit_cache_open(&directory), FC_ERROR_INVALID);
    if (strstr(fc_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", fc_last_error(), words);
    assert_int_equal(directory, -2);
}

static void test_a_directory_that_others_may_write_is_refused(void **state)
{
    (void)state;
    static const mode_t open_modes[] = {0770, 0707, 0777, 0720, 0702, 01777};
    jit_cache_close(open_cache());
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(jit_fixture_directory(), open_modes[i]), 0);
        check_refused("can be written by others");
    }
    assert_int_equal(chmod(jit_fixture_directory(), 0755), 0);
    jit_cache_close(open_cache());
}

static void test_a_directory_of_another_user_is_refused(void **state)
{
    (void)state;
    jit_cache_close(open_cache());
    if (geteuid() == 0)
        assert_int_equal(chown(jit_fixture_directory(), 1, (gid_t)-1), 0);
    else
        setenv("FLASHCORE_CACHE", "/", 1);
    check_refused("belongs to user");
}

static void test_what_is_no_directory_is_refused(void **state)
{
    (void)state;
    char target[JIT_FIXTURE_PATH], link[JIT_FIXTURE_PATH];
    jit_cache_close(open_cache());
    snprintf(target, sizeof target, "%s/file", jit_fixture_directory());
    snprintf(link, sizeof link, "%s/link", jit_fixture_directory());
    jit_fixture_write(target, "", 0);
    assert_int_equal(symlink(jit_fixture_directory(), link), 0);
    setenv("FLASHCORE_CACHE", target, 1);
    check_refused("can't be opened as a directory");
    setenv("FLASHCORE_CACHE", link, 1);
    check_refused("can't be opened as a directory");
}

/* Opens the cache that the environment names and sees that it is at path. */
static void check_opens(const char *path)
{
    struct stat opened, named;
    int directory = open_cache();
    assert_int_equal(fstat(directory, &opened), 0);
    assert_int_equal(stat(path, &named), 0);
    assert_int_equal(opened.st_ino, named.st_ino);
    jit_cache_close(directory);
    assert_int_equal(rmdir(path), 0);
}

static void test_where_the_directory_is(void **state)
{
    (void)state;
    const char *root = jit_fixture_directory();
    char xdg[JIT_FIXTURE_PATH], home[JIT_FIXTURE_PATH], parent[JIT_FIXTURE_PATH];
    snprintf(xdg, sizeof xdg, "%s/flashcore", root);
    snprintf(home, sizeof home, "%s/.cache/flashcore", root);
    snprintf(parent, sizeof parent, "%s/.cache", root);
    setenv("XDG_CACHE_HOME", root, 1);
    setenv("HOME", root, 1);
    check_opens(root);
    unsetenv("FLASHCORE_CACHE");
    check_opens(xdg);
    setenv("XDG_CACHE_HOME", "relative/does/not/count", 1);
    check_opens(home);
    unsetenv("XDG_CACHE_HOME");
    check_opens(home);
    unsetenv("HOME");
    check_refused("FLASHCORE_CACHE");
    assert_int_equal(rmdir(parent), 0);
}

#define DIRECTORY_TEST(name) \
    cmocka_unit_test_setup_teardown(name, jit_fixture_open, jit_fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECTORY_TEST(test_the_directory_is_for_the_user_alone),
        DIRECTORY_TEST(test_a_directory_that_others_may_write_is_refused),
        DIRECTORY_TEST(test_a_directory_of_another_user_is_refused),
        DIRECTORY_TEST(test_what_is_no_directory_is_refused),
        DIRECTORY_TEST(test_where_the_directory_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
