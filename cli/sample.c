/* sample.c: see sample.h. */
#include "sample.h"

#include "bench.h"

bool cli_is_candidate(fc_context *context, const fc_case *c)
{
    fc_plan *plan = NULL;
    if (bench_flops(&c->problem, FC_FORWARD) / 2 > SAMPLE_MOST_PRODUCTS)
        return false;
    const bool accepted = fc_plan_create(context, &c->problem, &plan) == FC_OK;
    fc_plan_destroy(plan);
    return accepted;
}

bool cli_is_sampled(size_t number, size_t candidates, size_t wanted)
{
    return number == 0 || number * wanted / candidates != (number - 1) * wanted / candidates;
}
