/* cuda_fixture.h: what the tests against the fake driver share. */
#ifndef CUDA_FIXTURE_H
#define CUDA_FIXTURE_H

#include "fake_cuda.h"
#include "flashcore.h"

#include <stdbool.h>

extern fake_cuda *fake;

/* Before everything else, by main; false with a line on stderr. */
bool open_fake(void);

/* Before and after each test: whatever went wrong in it, nothing is held and the caller's context
 * is back. */
int reset_fake(void **state);
int nothing_is_held(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset_fake, nothing_is_held)

/* kernel: or NULL. */
fc_status open_gpu(fc_context **context, const char *kernel);

fc_attention mission(void);

/* Addresses that nobody reads: the fake launches nothing. */
fc_buffers somewhere(void);

void assert_says(const char *sentence);

/* As open_gpu, on a GPU of sm_90, which must go well. */
void open_hopper(fc_context **context, const char *kernel);

/* That the problem runs on this variant; of the kernel, NULL for the one that is chosen, on a GPU
 * of sm_90. */
void assert_launches(fc_context *context, const fc_attention *p, const fc_buffers *b,
                     const char *variant);
void assert_kernel_runs(const char *kernel, const char *variant, const fc_attention *p,
                        fc_buffers b);

#endif
