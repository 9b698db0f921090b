/* test_check_gradients.c: the same for gradients: backward calls that are wrong in one way. */
#include "cheat.h"
#include "core/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define GRADIENT_CHEAT(name)                                                                      \
    static fc_status name(void *user, fc_context *on, const fc_attention *p, const fc_plan *plan, \
                          const fc_buffers *b, const fc_gradients *g)

GRADIENT_CHEAT(dq_halved)
{
    (void)user, (void)on;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    for (int64_t i = 0; i < p->batch * p->q_heads * p->q_length * p->head_dim; i++)
        fc_store(cheat_out_type(p), g->dq, i, fc_load(cheat_out_type(p), g->dq, i) / 2);
    return status;
}

GRADIENT_CHEAT(sinks_forgotten)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    g->dsinks[0] = 0;
    return status;
}

GRADIENT_CHEAT(bias_added_to)
{
    (void)user, (void)on, (void)p;
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    g->dbias[3] += 1e-3f;
    return status;
}

GRADIENT_CHEAT(unseen_key_left_out)
{
    (void)user, (void)on;
    const int64_t last = p->batch * p->kv_heads * p->kv_length * p->head_dim - 1;
    const double before = fc_load(cheat_out_type(p), g->dv, last);
    const fc_status status = fc_plan_backward(plan, b, g, NULL);
    fc_store(cheat_out_type(p), g->dv, last, before);
    return status;
}

GRADIENT_CHEAT(lse_overwritten)
{
    (void)user, (void)on, (void)p;
    b->lse[0] += 1;
    return fc_plan_backward(plan, b, g, NULL);
}

#define GRADIENT_CAUGHT(promise, group, name, cheat, sentence)  \
    static void promise(void **state)                           \
    {                                                           \
        (void)state;                                            \
        cheat_backward_is_caught(group, name, cheat, sentence); \
    }

GRADIENT_CAUGHT(test_wrong_dq, "features", "f32", dq_halved, "dq[b")
GRADIENT_CAUGHT(test_forgotten_dsinks, "features", "sinks", sinks_forgotten, "dsinks[b")
GRADIENT_CAUGHT(test_wrong_dbias, "pairs", "bias-f32", bias_added_to, "dbias[b")
GRADIENT_CAUGHT(test_gradient_of_unseen_key_left_out, "masked", "last_keys-q17-kv40",
                unseen_key_left_out, "was not written")
GRADIENT_CAUGHT(test_lse_overwritten, "features", "f32", lse_overwritten,
                "the backward call changed lse")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_dq),
        cmocka_unit_test(test_forgotten_dsinks),
        cmocka_unit_test(test_wrong_dbias),
        cmocka_unit_test(test_gradient_of_unseen_key_left_out),
        cmocka_unit_test(test_lse_overwritten),
    };
    return cmocka_run_group_tests(tests, cheat_make_context, cheat_destroy_context);
}
