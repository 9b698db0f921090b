#include "elements.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Floating-point types shorter than FP32: sign, exponent, fraction. */
typedef struct small_float {
    int exponent_bits;
    int fraction_bits;
    bool finite; /* the largest exponent holds numbers; all ones alone is NaN */
} small_float;

static const small_float *small_float_of(fc_type type)
{
    static const small_float formats[] = {
        [FC_F16] = {5, 10, false},
        [FC_BF16] = {8, 7, false},
        [FC_F8_E4M3] = {4, 3, true},
        [FC_F8_E5M2] = {5, 2, false},
    };
    return type >= FC_F16 && type <= FC_F8_E5M2 ? &formats[type] : NULL;
}

static uint32_t encode(const small_float *format, double value)
{
    uint32_t sign = signbit(value) ? 1u << (format->exponent_bits + format->fraction_bits) : 0;
    uint32_t top_exponent = (1u << format->exponent_bits) - 1;
    if (isinf(value)) {
        assert(!format->finite);
        return sign | top_exponent << format->fraction_bits;
    }
    if (value == 0)
        return sign;
    int exponent;
    double fraction = 2 * frexp(fabs(value), &exponent) - 1;
    int biased = exponent - 1 + (int)(top_exponent >> 1);
    double scaled = ldexp(fraction, format->fraction_bits);
    assert(biased > 0 && biased <= (int)top_exponent && scaled == floor(scaled));
    return sign | (uint32_t)biased << format->fraction_bits | (uint32_t)scaled;
}

static double decode(const small_float *format, uint32_t bits)
{
    uint32_t top_exponent = (1u << format->exponent_bits) - 1;
    uint32_t fraction = bits & ((1u << format->fraction_bits) - 1);
    uint32_t biased = bits >> format->fraction_bits & top_exponent;
    bool negative = bits >> (format->exponent_bits + format->fraction_bits) & 1;
    int bias = (int)(top_exponent >> 1);
    double value;
    if (biased == 0)
        value = ldexp(fraction, 1 - bias - format->fraction_bits);
    else if (format->finite && biased == top_exponent &&
             fraction + 1 == 1u << format->fraction_bits)
        value = NAN;
    else if (!format->finite && biased == top_exponent)
        value = fraction != 0 ? NAN : INFINITY;
    else
        value = ldexp(fraction + (1u << format->fraction_bits),
                      (int)biased - bias - format->fraction_bits);
    return negative ? -value : value;
}

size_t element_bytes(fc_type type)
{
    if (type == ELEMENT_I32)
        return sizeof(int32_t);
    if (type == ELEMENT_U8)
        return sizeof(uint8_t);
    return fc_type_bytes(type);
}

double element_spacing(fc_type type, double value)
{
    const small_float *format = small_float_of(type);
    int fraction_bits = type == FC_F64 ? 52 : 23;
    int least_exponent = type == FC_F64 ? -1022 : -126;
    if (format != NULL) {
        fraction_bits = format->fraction_bits;
        least_exponent = 2 - (1 << (format->exponent_bits - 1));
    }
    int exponent;
    frexp(value, &exponent);
    if (value == 0 || exponent - 1 < least_exponent)
        exponent = least_exponent + 1;
    return ldexp(1, exponent - 1 - fraction_bits);
}

void element_store(fc_type type, void *array, int64_t index, double value)
{
    const small_float *format = small_float_of(type);
    if (type == FC_F64)
        ((double *)array)[index] = value;
    else if (type == FC_F32)
        ((float *)array)[index] = (float)value;
    else if (type == ELEMENT_I32)
        ((int32_t *)array)[index] = (int32_t)value;
    else if (type == FC_F16 || type == FC_BF16)
        ((uint16_t *)array)[index] = (uint16_t)encode(format, value);
    else if (format != NULL)
        ((uint8_t *)array)[index] = (uint8_t)encode(format, value);
    else
        ((uint8_t *)array)[index] = (uint8_t)value;
}

double element_load(fc_type type, const void *array, int64_t index)
{
    const small_float *format = small_float_of(type);
    if (type == FC_F64)
        return ((const double *)array)[index];
    if (type == FC_F32)
        return (double)((const float *)array)[index];
    if (type == ELEMENT_I32)
        return ((const int32_t *)array)[index];
    if (type == FC_F16 || type == FC_BF16)
        return decode(format, ((const uint16_t *)array)[index]);
    uint8_t byte = ((const uint8_t *)array)[index];
    return format != NULL ? decode(format, byte) : byte;
}

static uint64_t splitmix(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double element_generate(fc_type type, uint64_t seed, int64_t index)
{
    int64_t draw = (int64_t)(splitmix(seed, (uint64_t)index) >> 33);
    int64_t sixteenths = draw % 65 - 32;
    if (type == ELEMENT_U8)
        return draw % 3 != 0 ? 1 : 0;
    int64_t halves = sixteenths / 2, quarters = sixteenths / 4;
    if (type == FC_F8_E4M3)
        return (double)halves / 16;
    if (type == FC_F8_E5M2)
        return (double)quarters / 8;
    return (double)sixteenths / 16;
}
