/* vec_plain.h: vec.h for any processor, with nothing but the compiler's own vectors. */
#ifndef FC_CPU_VEC_PLAIN_H
#define FC_CPU_VEC_PLAIN_H

typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_mask __attribute__((vector_size(16)));
typedef uint32_t vec_bits __attribute__((vector_size(16)));
enum { VEC_LANES = 4, VEC_REGISTERS = 16 };

static inline vec vec_set(float a)
{
    return (vec){a, a, a, a};
}

static inline vec vec_zero(void)
{
    return vec_set(0);
}

static inline vec vec_load(const void *from)
{
    vec a;
    memcpy(&a, from, sizeof a);
    return a;
}

static inline void vec_store(void *to, vec a)
{
    memcpy(to, &a, sizeof a);
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

static inline vec vec_sub(vec a, vec b)
{
    return a - b;
}

static inline vec vec_mul(vec a, vec b)
{
    return a * b;
}

static inline vec vec_div(vec a, vec b)
{
    return a / b;
}

static inline vec vec_fma(vec a, vec b, vec sum)
{
    return a * b + sum;
}

static inline vec vec_select(vec_mask mask, vec x, vec y)
{
    return (vec)((mask & (vec_mask)x) | (~mask & (vec_mask)y));
}

static inline vec vec_fma_constant(vec a, vec b, const float four[4])
{
    return vec_fma(a, b, vec_set(four[0]));
}

static inline vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

static inline vec vec_abs(vec a)
{
    return (vec)((vec_bits)a & 0x7fffffffu);
}

static inline vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return vec_select(a < b, x, y);
}

static inline vec vec_where_equal(vec a, vec b, vec x, vec y)
{
    return vec_select(a == b, x, y);
}

static inline vec vec_exponent(vec a)
{
    return (vec)((vec_bits)a << 23);
}

static inline float vec_highest(vec a)
{
    const float low = a[0] > a[1] ? a[0] : a[1];
    const float high = a[2] > a[3] ? a[2] : a[3];
    return low > high ? low : high;
}

static inline void vec_sum4(const vec a[4], float sums[4])
{
    for (int i = 0; i < 4; i++)
        sums[i] = (a[i][0] + a[i][1]) + (a[i][2] + a[i][3]);
}

static inline void vec_transpose(vec rows[VEC_LANES])
{
    const vec a = rows[0], b = rows[1], c = rows[2], d = rows[3];
    for (int i = 0; i < VEC_LANES; i++)
        rows[i] = (vec){a[i], b[i], c[i], d[i]};
}

static inline vec vec_load_f16(const void *from)
{
    uint16_t code[VEC_LANES];
    memcpy(code, from, sizeof code);
    return (vec){fc_f16_to_float(code[0]), fc_f16_to_float(code[1]), fc_f16_to_float(code[2]),
                 fc_f16_to_float(code[3])};
}

static inline vec vec_load_bf16(const void *from)
{
    uint16_t code[VEC_LANES];
    memcpy(code, from, sizeof code);
    return (vec){fc_bf16_to_float(code[0]), fc_bf16_to_float(code[1]), fc_bf16_to_float(code[2]),
                 fc_bf16_to_float(code[3])};
}

static inline vec vec_load_e4m3(const void *from)
{
    const uint8_t *code = from;
    return (vec){fc_e4m3_to_float(code[0]), fc_e4m3_to_float(code[1]), fc_e4m3_to_float(code[2]),
                 fc_e4m3_to_float(code[3])};
}

static inline vec vec_load_e5m2(const void *from)
{
    const uint8_t *code = from;
    return (vec){fc_e5m2_to_float(code[0]), fc_e5m2_to_float(code[1]), fc_e5m2_to_float(code[2]),
                 fc_e5m2_to_float(code[3])};
}

static inline void vec_store_f16(void *to, vec a)
{
    uint16_t code[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        code[i] = fc_f16_from_double((double)a[i]);
    memcpy(to, code, sizeof code);
}

static inline void vec_store_bf16(void *to, vec a)
{
    uint16_t code[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        code[i] = fc_bf16_from_double((double)a[i]);
    memcpy(to, code, sizeof code);
}

#endif
