/* test_tables.c: the reference gives what another program computed, case by case of tables.txt. */
#include "elements.h"
#include "fixture.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>

/* A result is the double-precision one rounded once to its type: half a unit in the last place.
 * 1e-10 beyond that, because the tables have 12 digits and sums may be taken in any order. */
static double tolerance(fc_type type, double expected)
{
    return element_spacing(type, expected) / 2 + 1e-10 * fmax(1, fabs(expected));
}

static void check_untouched(const table_case *of, const table_array *array, int64_t index)
{
    size_t bytes = element_bytes(array->type);
    const unsigned char *element = (const unsigned char *)array->memory + index * (int64_t)bytes;
    for (size_t i = 0; i < bytes; i++)
        if (element[i] != TABLE_POISON)
            fail_msg("%s: %s[%lld] is no element of the tensor, but was overwritten", of->name,
                     array->name, (long long)(index - array->origin));
}

static void check_output(const table_case *of, const table_array *array)
{
    for (int64_t i = 0; i < array->count; i++) {
        double expected = array->expected[i];
        double got = element_load(array->type, array->memory, i);
        if (isnan(expected))
            check_untouched(of, array, i);
        else if (!(got == expected || fabs(got - expected) <= tolerance(array->type, expected)))
            fail_msg("%s: %s[%lld] = %.12g, but the table says %.12g", of->name, array->name,
                     (long long)(i - array->origin), got, expected);
    }
    for (int64_t i = 0; i < TABLE_GUARD_ELEMENTS; i++) {
        check_untouched(of, array, -1 - i);
        check_untouched(of, array, array->count + i);
    }
}

static void test_case(void **state)
{
    const table_case *of = *state;
    fc_plan *plan = fixture_plan(&of->problem);
    bool backward = of->gradients.dq != NULL;
    fixture_run(plan, &of->buffers, backward ? &of->gradients : NULL);
    fc_plan_destroy(plan);
    for (int i = 0; i < of->array_count; i++)
        if (of->arrays[i].expected != NULL)
            check_output(of, &of->arrays[i]);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s tests/data/tables.txt\n", argv[0]);
        return EXIT_FAILURE;
    }
    int count;
    table_case *cases = tables_read(argv[1], &count);
    struct CMUnitTest *tests = calloc((size_t)count, sizeof *tests);
    if (tests == NULL || count == 0)
        return EXIT_FAILURE;
    for (int i = 0; i < count; i++) {
        tests[i].name = cases[i].name;
        tests[i].test_func = test_case;
        tests[i].initial_state = &cases[i];
    }
    int failures = _cmocka_run_group_tests("tables", tests, (size_t)count, fixture_open_context,
                                           fixture_close_context);
    free(tests);
    tables_free(cases, count);
    return failures;
}
