/* vec.h: the vector type of the instruction set that a file is compiled for. Each vec_*.h has the
 * same names: a vector of VEC_LANES floats, of which VEC_REGISTERS are at hand, and the operations
 * that attention needs.
 *
 *   vec_fma_constant(a, b, four)  a · b + a constant, which is there four times
 *   vec_max(a, b)                 a NaN in b stays
 *   vec_where_less(a, b, x, y)    a < b ? x : y, lane by lane; vec_where_equal likewise
 *   vec_exponent(a)               the low bits of a moved to where a float's exponent is
 *   vec_sum4(a, sums)             sums[i] = sum of the lanes of a[i]
 *   vec_transpose(rows)           a square block of VEC_LANES rows, in place
 *   vec_load_f16(p) …             VEC_LANES elements of that type as floats
 *   vec_store_f16(p, a) …         rounded to nearest, ties to even */
#ifndef FC_CPU_VEC_H
#define FC_CPU_VEC_H

#include "core/convert.h"

#include <math.h>

/* FC_SPECIALISED: a step that is written once for any type and number of rows, and inlined with
 * constants. FC_UNROLL: loops over registers must vanish; an array that is indexed at run time
 * lives in memory. Sanitizers look at the same in one copy, which compiles in a fifth of the time.
 */
#if defined(FC_SANITIZED)
#define FC_SPECIALISED static inline
#define FC_UNROLL
#elif defined(__clang__)
#define FC_SPECIALISED static inline __attribute__((always_inline))
#define FC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FC_SPECIALISED static inline __attribute__((always_inline))
#define FC_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(FC_VEC_NEON)
#include "cpu/vec_neon.h"
#elif defined(FC_VEC_AVX2)
#include "cpu/vec_avx2.h"
#elif defined(FC_VEC_AVX512)
#include "cpu/vec_avx512.h"
#else
#include "cpu/vec_plain.h"
#endif

static inline vec vec_load_as(fc_type type, const void *from)
{
    switch (type) {
    case FC_F16: return vec_load_f16(from);
    case FC_BF16: return vec_load_bf16(from);
    case FC_F8_E4M3: return vec_load_e4m3(from);
    case FC_F8_E5M2: return vec_load_e5m2(from);
    default: return vec_load(from);
    }
}

static inline float vec_sum(vec a)
{
    const vec four[4] = {a, vec_zero(), vec_zero(), vec_zero()};
    float sums[4];
    vec_sum4(four, sums);
    return sums[0];
}

#endif
