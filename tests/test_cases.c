/* test_cases.c: the case list is what it says it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "case_draft.h"

#include <stdio.h>
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
    assert_int_equal(case_count(), 2117);
}

/* A drawn case's name has its features between dashes. */
static bool has_feature(const fc_case *c, const case_feature *feature)
{
    char between_dashes[64];
    snprintf(between_dashes, sizeof between_dashes, "-%s-", feature->name);
    return strstr(c->name, between_dashes) != NULL;
}

static void test_drawn_cases_have_everything(void **state)
{
    (void)state;
    enum { DRAWN = 2000 };
    size_t seen[64] = {0}, strange = 0, backward = 0, empty = 0;
    assert_in_range(case_feature_count, 1, 64);
    for (uint64_t number = 1; number <= DRAWN; number++) {
        fc_case c;
        case_random(number, &c);
        for (size_t i = 0; i < case_feature_count; i++)
            seen[i] += has_feature(&c, &case_features[i]);
        strange += c.values != CASE_NORMAL;
        backward += c.backward;
        empty += c.problem.q_length == 0 || c.problem.kv_length == 0;
    }
    for (size_t i = 0; i < case_feature_count; i++)
        if (!seen[i] && strcmp(case_features[i].axis, "dims") != 0 &&
            strcmp(case_features[i].axis, "shape") != 0)
            fail_msg("no drawn case has %s", case_features[i].name);
    assert_in_range(strange, DRAWN / 10, DRAWN / 3);
    assert_in_range(backward, DRAWN / 10, DRAWN / 2);
    assert_in_range(empty, DRAWN / 100, DRAWN / 10);
}

/* So that a number is enough to see one again. */
static void test_a_number_makes_a_case(void **state)
{
    (void)state;
    fc_case once, again, next;
    case_random(7, &once);
    case_random(7, &again);
    case_random(8, &next);
    assert_string_equal(once.name, again.name);
    assert_int_equal(once.seed, again.seed);
    assert_memory_equal(&once.problem, &again.problem, sizeof once.problem);
    assert_memory_equal(once.kv_lengths, again.kv_lengths, sizeof once.kv_lengths);
    assert_int_equal(strncmp(once.name, "random-7-", 9), 0);
    assert_int_equal(strncmp(next.name, "random-8-", 9), 0);
    assert_int_not_equal(once.seed, next.seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn_cases_have_everything),
        cmocka_unit_test(test_a_number_makes_a_case),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_no_case_disappears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
