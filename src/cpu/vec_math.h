/* vec_math.h: the two functions of softmax, over any vec.h. */
#ifndef FC_CPU_VEC_MATH_H
#define FC_CPU_VEC_MATH_H

#include "cpu/vec.h"

/* 2^x for x <= 127, within VEC_EXP2_ULP of the true value; below -126.5 it is exactly 0, also for
 * -inf; NaN stays NaN.
 *
 * Adding 1.5 · 2^23 + 127 rounds x to a whole number n and leaves n + 127, an exponent, in the
 * lowest bits of the sum; n = -127 makes the exponent 0 and with it the result. The rest, at most
 * 1/2, goes into a polynomial of degree 5 that is 1 at 0 and has the smallest relative error
 * so, 9.2e-8. */
#define VEC_EXP2_ULP 2.5

#define VEC_FOUR(value)            \
    {                              \
        value, value, value, value \
    }
static const float vec_exp2_terms[5][4] = {
    VEC_FOUR(1.0f),
    VEC_FOUR(6.931470037e-1f),
    VEC_FOUR(2.402224243e-1f),
    VEC_FOUR(5.550733581e-2f),
    VEC_FOUR(9.671512991e-3f),
};

/* Several vectors in step: each operation waits for the one before. */
FC_SPECIALISED void vec_exp2_each(vec *x, int64_t count)
{
    const vec shift = vec_set(12582912.0f + 127.0f), lowest = vec_set(-127.0f);
    vec shifted[4], rest[4], sum[4];
    FC_UNROLL
    for (int64_t i = 0; i < count; i++) {
        x[i] = vec_max(lowest, x[i]);
        shifted[i] = vec_add(x[i], shift);
    }
    FC_UNROLL
    for (int64_t i = 0; i < count; i++) {
        rest[i] = vec_sub(x[i], vec_sub(shifted[i], shift));
        sum[i] = vec_set(1.326472731e-3f);
    }
    FC_UNROLL
    for (int term = 4; term >= 0; term--)
        FC_UNROLL
    for (int64_t i = 0; i < count; i++)
        sum[i] = vec_fma_constant(sum[i], rest[i], vec_exp2_terms[term]);
    FC_UNROLL
    for (int64_t i = 0; i < count; i++)
        x[i] = vec_mul(sum[i], vec_exponent(shifted[i]));
}

static inline vec vec_exp2(vec x)
{
    vec_exp2_each(&x, 1);
    return x;
}

/* tanh(x): near 0 an odd polynomial (Cephes' tanhf), because 1 - 2 / (e^2x + 1) cancels there. */
static inline vec vec_tanh(vec x)
{
    const vec size = vec_abs(x), square = vec_mul(x, x), one = vec_set(1.0f);
    vec sum = vec_set(-5.70498872745e-3f);
    sum = vec_fma(sum, square, vec_set(2.06390887954e-2f));
    sum = vec_fma(sum, square, vec_set(-5.37397155531e-2f));
    sum = vec_fma(sum, square, vec_set(1.33314422036e-1f));
    sum = vec_fma(sum, square, vec_set(-3.33332819422e-1f));
    const vec near = vec_fma(vec_mul(sum, square), x, x);

    /* Beyond 44 tanh is 1; vec_exp2 ends at 2^127. */
    const vec limit = vec_set(44.0f);
    const vec clamped = vec_where_less(limit, size, limit, size);
    const vec power = vec_exp2(vec_mul(clamped, vec_set(2.885390082f)));
    const vec far = vec_sub(one, vec_div(vec_set(2.0f), vec_add(power, one)));
    const vec signed_far = vec_where_less(x, vec_zero(), vec_sub(vec_zero(), far), far);
    return vec_where_less(size, vec_set(0.625f), near, signed_far);
}

#endif
