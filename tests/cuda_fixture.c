/* cuda_fixture.c: see cuda_fixture.h. */
#include "cuda_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

fake_cuda *fake;
static fake_cuda untouched;

bool open_fake(void)
{
    setenv("FLASHCORE_CUDA_DRIVER", FAKE_CUDA_LIBRARY, 1);
    void *library = dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) {
        fprintf(stderr, "the fake driver cannot be opened: %s\n", dlerror());
        return false;
    }
    untouched = *fake;
    return true;
}

int reset_fake(void **state)
{
    (void)state;
    *fake = untouched;
    return 0;
}

int nothing_is_held(void **state)
{
    (void)state;
    assert_int_equal(fake->contexts_held, 0);
    assert_int_equal(fake->contexts_pushed, 0);
    assert_int_equal(fake->modules_held, 0);
    assert_int_equal(fake->allocations_held, 0);
    assert_int_equal(fake->streams_held, 0);
    assert_int_equal(fake->events_held, 0);
    assert_int_equal(fake->graphs_held, 0);
    assert_int_equal(fake->replays_held, 0);
    return 0;
}

fc_status open_gpu(fc_context **context, const char *kernel)
{
    fc_context_options options = fc_context_options_init();
    options.device_type = FC_CUDA;
    options.kernel = kernel;
    return fc_context_create(&options, context);
}

fc_attention mission(void)
{
    fc_attention p = fc_attention_init();
    p.batch = 1;
    p.q_heads = p.kv_heads = 8;
    p.q_length = p.kv_length = 512;
    p.head_dim = 64;
    p.q_type = FC_F16;
    return p;
}

fc_buffers somewhere(void)
{
    static _Alignas(256) char memory[4 * 256];
    fc_buffers b = fc_buffers_init();
    b.q = memory;
    b.k = memory + 256;
    b.v = memory + 512;
    b.out = memory + 768;
    return b;
}

void assert_says(const char *sentence)
{
    if (!strstr(fc_last_error(), sentence))
        fail_msg("'%s' does not say '%s'", fc_last_error(), sentence);
}

void open_hopper(fc_context **context, const char *kernel)
{
    fake->compute_major = 9;
    fake->compute_minor = 0;
    fake->shared_bytes_a_block = 227 * 1024;
    assert_int_equal(open_gpu(context, kernel), FC_OK);
}

void assert_launches(fc_context *context, const fc_attention *p, const fc_buffers *b,
                     const char *variant)
{
    assert_int_equal(fc_attend(context, p, b, NULL), FC_OK);
    assert_string_equal(fake->last_kernel, variant);
}

void assert_kernel_runs(const char *kernel, const char *variant, const fc_attention *p,
                        fc_buffers b)
{
    fc_context *context;
    open_hopper(&context, kernel);
    assert_launches(context, p, &b, variant);
    fc_context_destroy(context);
}
