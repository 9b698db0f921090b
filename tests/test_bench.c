/* test_bench.c: what a timing promises before it starts. */
#include "bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Between two uses of a set all others come by: twice the cache at least. */
static void test_cold_calls_find_nothing_in_the_cache(void **state)
{
    (void)state;
    const double cache = 60e6;
    for (int percent = 1; percent <= 400; percent++) {
        const double bytes = cache * percent / 100;
        const double sets = bench_cold_sets(bytes, cache);
        const double others = sets == 1 ? bytes : (sets - 1) * bytes;
        assert_true(others >= 2 * cache);
        assert_true(sets == 1 || (sets - 2) * bytes < 2 * cache);
    }
    assert_true(bench_cold_sets(2 * cache, cache) == 1);
    assert_true(bench_cold_sets(1.9 * cache, cache) == 3);
    assert_true(bench_cold_sets(cache, cache) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_calls_find_nothing_in_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
