/* convert.h: element types to and from double, exactly and with round-to-nearest-even. */
#ifndef FC_CORE_CONVERT_H
#define FC_CORE_CONVERT_H

#include "flashcore.h"

#include <stdbool.h>

static inline float fc_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Subnormals are made by subtracting two normal numbers, so that a caller's flush-to-zero mode
 * does not change them. */
static inline float fc_f16_to_float(uint16_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x8000u) << 16;
    const uint32_t magnitude = code & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return fc_float_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x400u)
        return fc_float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
    const float subnormal =
        fc_float_from_bits((magnitude << 13) + (113u << 23)) - fc_float_from_bits(113u << 23);
    return sign ? -subnormal : subnormal;
}

static inline float fc_bf16_to_float(uint16_t code)
{
    return fc_float_from_bits((uint32_t)code << 16);
}

static inline float fc_e4m3_to_float(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    const uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7fu)
        return fc_float_from_bits(sign | 0x7fc00000u);
    if (magnitude >= 0x08u)
        return fc_float_from_bits(sign | ((magnitude << 20) + (120u << 23)));
    const float subnormal =
        fc_float_from_bits((magnitude << 20) + (121u << 23)) - fc_float_from_bits(121u << 23);
    return sign ? -subnormal : subnormal;
}

/* E5M2 is the upper byte of an f16. */
static inline float fc_e5m2_to_float(uint8_t code)
{
    return fc_f16_to_float((uint16_t)((unsigned)code << 8));
}

typedef struct fc_small_float {
    int exponent_bias;
    int mantissa_bits;
    uint32_t largest;  /* code of the largest finite value */
    uint32_t overflow; /* code of what is larger */
    uint32_t nan;
    int sign_shift;
} fc_small_float;

/* Rounds once, straight from double. A carry out of the mantissa flows into the exponent. */
static inline uint32_t fc_encode_small(double value, fc_small_float format)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 63) << format.sign_shift;
    const int biased = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & 0xfffffffffffffu;
    if (biased == 0x7ff)
        return sign | (fraction ? format.nan : format.overflow);
    if (biased == 0)
        return sign; /* below 2^-1022: far under every small format's smallest value */

    const int exponent = biased - 1023;
    const int smallest_normal = 1 - format.exponent_bias;
    const bool subnormal = exponent < smallest_normal;
    const int shift = 52 - format.mantissa_bits + (subnormal ? smallest_normal - exponent : 0);
    if (shift > 54)
        return sign;
    const uint64_t mantissa = fraction | 1ull << 52;
    const uint64_t half_less_one = (1ull << (shift - 1)) - 1;
    const uint64_t rounded = (mantissa + half_less_one + (mantissa >> shift & 1)) >> shift;
    const uint64_t exponent_part =
        subnormal ? 0 : (uint64_t)(exponent - smallest_normal) << format.mantissa_bits;
    const uint64_t code = exponent_part + rounded;
    return sign | (code > format.largest ? format.overflow : (uint32_t)code);
}

static inline uint16_t fc_f16_from_double(double value)
{
    return (uint16_t)fc_encode_small(value, (fc_small_float){.exponent_bias = 15,
                                                             .mantissa_bits = 10,
                                                             .largest = 0x7bff,
                                                             .overflow = 0x7c00,
                                                             .nan = 0x7e00,
                                                             .sign_shift = 15});
}

static inline uint16_t fc_bf16_from_double(double value)
{
    return (uint16_t)fc_encode_small(value, (fc_small_float){.exponent_bias = 127,
                                                             .mantissa_bits = 7,
                                                             .largest = 0x7f7f,
                                                             .overflow = 0x7f80,
                                                             .nan = 0x7fc0,
                                                             .sign_shift = 15});
}

/* E4M3 has no infinity: what is too large becomes 448. */
static inline uint8_t fc_e4m3_from_double(double value)
{
    return (uint8_t)fc_encode_small(value, (fc_small_float){.exponent_bias = 7,
                                                            .mantissa_bits = 3,
                                                            .largest = 0x7e,
                                                            .overflow = 0x7e,
                                                            .nan = 0x7f,
                                                            .sign_shift = 7});
}

static inline uint8_t fc_e5m2_from_double(double value)
{
    return (uint8_t)fc_encode_small(value, (fc_small_float){.exponent_bias = 15,
                                                            .mantissa_bits = 2,
                                                            .largest = 0x7b,
                                                            .overflow = 0x7c,
                                                            .nan = 0x7e,
                                                            .sign_shift = 7});
}

static inline double fc_load(fc_type type, const void *base, int64_t index)
{
    switch (type) {
    case FC_F64: return ((const double *)base)[index];
    case FC_F32: return (double)((const float *)base)[index];
    case FC_F16: return (double)fc_f16_to_float(((const uint16_t *)base)[index]);
    case FC_BF16: return (double)fc_bf16_to_float(((const uint16_t *)base)[index]);
    case FC_F8_E4M3: return (double)fc_e4m3_to_float(((const uint8_t *)base)[index]);
    default: return (double)fc_e5m2_to_float(((const uint8_t *)base)[index]);
    }
}

static inline void fc_store(fc_type type, void *base, int64_t index, double value)
{
    switch (type) {
    case FC_F64: ((double *)base)[index] = value; break;
    case FC_F32: ((float *)base)[index] = (float)value; break;
    case FC_F16: ((uint16_t *)base)[index] = fc_f16_from_double(value); break;
    case FC_BF16: ((uint16_t *)base)[index] = fc_bf16_from_double(value); break;
    case FC_F8_E4M3: ((uint8_t *)base)[index] = fc_e4m3_from_double(value); break;
    default: ((uint8_t *)base)[index] = fc_e5m2_from_double(value); break;
    }
}

static inline bool fc_type_is_f8(fc_type type)
{
    return type == FC_F8_E4M3 || type == FC_F8_E5M2;
}

#endif
