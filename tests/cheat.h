/* cheat.h: kernels that are wrong in one way, held against the harness (lab/check.h). The honest
 * kernel passes a case first; the cheat must then fail it with the sentence that says why. */
#ifndef TESTS_CHEAT_H
#define TESTS_CHEAT_H

#include "check.h"

typedef fc_status forward_call(void *user, fc_context *on, const fc_attention *p,
                               const fc_plan *plan, const fc_buffers *b);
typedef fc_status backward_call(void *user, fc_context *on, const fc_attention *p,
                                const fc_plan *plan, const fc_buffers *b, const fc_gradients *g);

/* Forced to the reference: setup and teardown of a group of tests. */
extern fc_context *cheat_context;
int cheat_make_context(void **state);
int cheat_destroy_context(void **state);

fc_case cheat_find_case(const char *group, const char *name);

void cheat_expect_failure(const fc_case *c, const check_target *target, const char *sentence);
void cheat_forward_is_caught(const char *group, const char *name, forward_call *forward,
                             const char *sentence);
void cheat_backward_is_caught(const char *group, const char *name, backward_call *backward,
                              const char *sentence);

/* One wrong step after (or in place of) the honest call. `user` counts the calls where it wants. */
#define CHEAT(name)                                                                               \
    static fc_status name(void *user, fc_context *on, const fc_attention *p, const fc_plan *plan, \
                          const fc_buffers *b)

#define CAUGHT(promise, group, name, cheat, sentence)          \
    static void promise(void **state)                          \
    {                                                          \
        (void)state;                                           \
        cheat_forward_is_caught(group, name, cheat, sentence); \
    }

/* Runs another problem on the same buffers. */
fc_status cheat_run_other(fc_context *on, const fc_attention *problem, const fc_buffers *buffers);

/* Every element of out becomes the same. */
void cheat_fill_out(const fc_attention *p, const fc_buffers *b);

/* Of out, for the dense problems that are cheated on. */
int64_t cheat_out_elements(const fc_attention *p);
fc_type cheat_out_type(const fc_attention *p);

#endif
