/* fixture.h: small double-precision problems with their memory, run by the reference kernels. */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include "flashcore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h> /* after what it needs */

enum { FIXTURE_ELEMENTS = 640, FIXTURE_SEQUENCES = 8, FIXTURE_PAGES = 32 };

/* Sums of a few dozen doubles below 10, in any order. */
#define FIXTURE_TOLERANCE 1e-12

/* Q, K, V, out and their gradients are FC_F64. It may be copied: pointers are made by each run. */
typedef struct fixture {
    fc_attention problem;
    uint64_t dropout_seed, dropout_offset;
    double q[FIXTURE_ELEMENTS], k[FIXTURE_ELEMENTS], v[FIXTURE_ELEMENTS], out[FIXTURE_ELEMENTS];
    double dout[FIXTURE_ELEMENTS], dq[FIXTURE_ELEMENTS], dk[FIXTURE_ELEMENTS], dv[FIXTURE_ELEMENTS];
    float lse[FIXTURE_ELEMENTS], bias[FIXTURE_ELEMENTS], dbias[FIXTURE_ELEMENTS];
    uint8_t mask[FIXTURE_ELEMENTS];
    float alibi[FIXTURE_ELEMENTS], sinks[FIXTURE_ELEMENTS], dsinks[FIXTURE_ELEMENTS];
    int32_t cu_q[FIXTURE_SEQUENCES + 1], cu_kv[FIXTURE_SEQUENCES + 1];
    int32_t kv_lengths[FIXTURE_SEQUENCES], page_table[FIXTURE_PAGES];
} fixture;

/* Group setup and teardown: one context that runs the reference and nothing else. */
int fixture_open_context(void **state);
int fixture_close_context(void **state);

/* One plan of that context; a status that is not FC_OK fails the test with the library's sentence.
 */
fc_plan *fixture_plan(const fc_attention *problem);
void fixture_ok(fc_status status, const char *call);

/* Runs with a workspace of the size the plan asks for. gradients may be NULL: forward alone. */
void fixture_run(const fc_plan *plan, const fc_buffers *buffers, const fc_gradients *gradients);

/* Dense, with generated inputs, and NaN in all memory that belongs to no element. */
fixture fixture_make(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_length,
                     int64_t kv_length, int64_t head_dim);

/* Generates the inputs anew, after a change of the problem's sizes. */
void fixture_fill(fixture *f);

/* Elements of q (or out), and of k or v with this many dims. */
int64_t fixture_q_count(const fixture *f, int64_t dims);
int64_t fixture_kv_count(const fixture *f, int64_t dims);
int64_t fixture_value_dim(const fixture *f);

fc_buffers fixture_buffers(const fixture *f);
void fixture_forward(fixture *f);
void fixture_backward(fixture *f); /* forward too */

/* The number of LSE elements, equal to out's rows. */
int64_t fixture_row_count(const fixture *f);

/* Fails with the formatted text and both numbers unless they agree; infinities agree with
 * themselves, NaN with nothing. */
void expect_near(double got, double want, double tolerance, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for numbers that went through FP32. */
void expect_near_f32(double got, double want, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The outputs and LSE of two fixtures with as many rows. */
void expect_same_result(const fixture *got, const fixture *want, const char *what);

#endif
