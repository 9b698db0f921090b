/* test_cases.c: the case list is what it says it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cases.h"

#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const fc_case *)a)->name, ((const fc_case *)b)->name);
}

/* Names are unique over all groups, so that one finds one case; and none was cut off. */
static void test_names_are_unique(void **state)
{
    (void)state;
    const size_t count = case_count();
    fc_case *cases = calloc(count, sizeof *cases);
    for (size_t i = 0; i < count; i++) {
        case_get(i, &cases[i]);
        assert_in_range(strlen(cases[i].name), 1, sizeof cases[i].name - 2);
    }
    qsort(cases, count, sizeof *cases, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(cases[i - 1].name, cases[i].name) == 0)
            fail_msg("two cases are called %s", cases[i].name);
    free(cases);
}

/* Exact, so that a validator that refuses too much can't make cases disappear. The three: a window
 * to the right with causal of either diagonal; kv_lengths with packed keys. */
static void test_no_case_disappears(void **state)
{
    (void)state;
    assert_int_equal(case_contradictions(), 3);
    assert_int_equal(case_count(), 2038);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_no_case_disappears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
