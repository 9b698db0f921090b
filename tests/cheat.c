/* cheat.c: see cheat.h. */
#include "cheat.h"

#include "core/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

fc_context *cheat_context;

int cheat_make_context(void **state)
{
    (void)state;
    fc_context_options options = fc_context_options_init();
    options.kernel = "reference,reference_backward";
    return fc_context_create(&options, &cheat_context) == FC_OK ? 0 : -1;
}

int cheat_destroy_context(void **state)
{
    (void)state;
    fc_context_destroy(cheat_context);
    return 0;
}

fc_case cheat_find_case(const char *group, const char *name)
{
    fc_case c;
    for (size_t i = 0; i < case_count(); i++) {
        case_get(i, &c);
        if (strcmp(c.group, group) == 0 && strcmp(c.name, name) == 0)
            return c;
    }
    fail_msg("there is no case %s/%s", group, name);
    return c;
}

void cheat_expect_failure(const fc_case *c, const check_target *target, const char *sentence)
{
    check_result result;
    check_case(cheat_context, c, &result);
    if (result.outcome != CHECK_PASSED)
        fail_msg("%s: the honest kernel does not pass: %s", c->name, result.reason);
    check_case_on(target, c, &result);
    if (result.outcome != CHECK_FAILED || !strstr(result.reason, sentence))
        fail_msg("%s: expected a failure with '%s', got outcome %d, '%s'", c->name, sentence,
                 (int)result.outcome, result.reason);
}

void cheat_forward_is_caught(const char *group, const char *name, forward_call *forward,
                             const char *sentence)
{
    int calls = 0;
    const fc_case c = cheat_find_case(group, name);
    check_target target = check_target_of(cheat_context);
    target.forward = forward;
    target.user = &calls;
    cheat_expect_failure(&c, &target, sentence);
}

void cheat_backward_is_caught(const char *group, const char *name, backward_call *backward,
                              const char *sentence)
{
    const fc_case c = cheat_find_case(group, name);
    check_target target = check_target_of(cheat_context);
    target.backward = backward;
    cheat_expect_failure(&c, &target, sentence);
}

fc_status cheat_run_other(fc_context *on, const fc_attention *problem, const fc_buffers *buffers)
{
    fc_plan *plan;
    fc_status status = fc_plan_create(on, problem, &plan);
    if (status != FC_OK)
        return status;
    fc_buffers own = *buffers;
    own.workspace_bytes = fc_plan_workspace_bytes(plan, FC_FORWARD);
    own.workspace = lab_host_memory.allocate(NULL, own.workspace_bytes);
    status = fc_plan_forward(plan, &own, NULL);
    lab_host_memory.release(NULL, own.workspace);
    fc_plan_destroy(plan);
    return status;
}

int64_t cheat_out_elements(const fc_attention *p)
{
    const int64_t dim = p->value_dim ? p->value_dim : p->head_dim;
    return p->batch * p->q_heads * p->q_length * dim;
}

fc_type cheat_out_type(const fc_attention *p)
{
    return p->out_type ? p->out_type : p->q_type;
}

void cheat_fill_out(const fc_attention *p, const fc_buffers *b)
{
    for (int64_t i = 0; i < cheat_out_elements(p); i++)
        fc_store(cheat_out_type(p), b->out, i, 0.125);
}
