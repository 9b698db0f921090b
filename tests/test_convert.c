/* test_convert.c: element types are read and rounded exactly. */
#include "core/convert.h"
#include "core/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct format {
    fc_type type;
    int codes;
    int exponent_bits, mantissa_bits;
    bool has_infinity;
} format;

static const format formats[] = {
    {FC_F16, 1 << 16, 5, 10, true},
    {FC_BF16, 1 << 16, 8, 7, true},
    {FC_F8_E5M2, 1 << 8, 5, 2, true},
    {FC_F8_E4M3, 1 << 8, 4, 3, false},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

/* Room for an element of any type. */
typedef union element {
    uint64_t room;
    uint16_t wide;
    uint8_t narrow;
} element;

/* The value of a code by the definition of a binary floating-point format. */
static double value_by_definition(const format *f, int code)
{
    const int magnitude = code & (f->codes / 2 - 1);
    const int exponent = magnitude >> f->mantissa_bits;
    const int mantissa = magnitude & ((1 << f->mantissa_bits) - 1);
    const int bias = (1 << (f->exponent_bits - 1)) - 1;
    const int top = (1 << f->exponent_bits) - 1;
    const double sign = code >= f->codes / 2 ? -1 : 1;
    if (f->has_infinity && exponent == top)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (!f->has_infinity && magnitude == f->codes / 2 - 1)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - f->mantissa_bits);
    return sign * ldexp((1 << f->mantissa_bits) + mantissa, exponent - bias - f->mantissa_bits);
}

static double load_code(const format *f, int code)
{
    element e = {0};
    if (f->codes > 256)
        e.wide = (uint16_t)code;
    else
        e.narrow = (uint8_t)code;
    return fc_load(f->type, &e, 0);
}

static int store_code(const format *f, double value)
{
    element e = {0};
    fc_store(f->type, &e, 0, value);
    return f->codes > 256 ? e.wide : e.narrow;
}

static void test_every_code_loads_its_value(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (int code = 0; code < formats[i].codes; code++) {
            const double expected = value_by_definition(&formats[i], code);
            const double loaded = load_code(&formats[i], code);
            if (isnan(expected))
                assert_true(isnan(loaded));
            else
                assert_true(loaded == expected && signbit(loaded) == signbit(expected));
        }
}

static void test_every_value_stores_its_code(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (int code = 0; code < formats[i].codes; code++) {
            const double value = load_code(&formats[i], code);
            if (isnan(value))
                assert_true(isnan(load_code(&formats[i], store_code(&formats[i], value))));
            else if (!isinf(value))
                assert_int_equal(store_code(&formats[i], value), code);
        }
}

/* Between neighbours: below the middle down, above it up, in the middle to the even code. */
static void test_rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (int code = 0; code < formats[i].codes / 2 - 1; code++) {
            const double low = load_code(&formats[i], code);
            const double high = load_code(&formats[i], code + 1);
            if (isinf(high) || isnan(high))
                break;
            const double middle = (low + high) / 2;
            assert_int_equal(store_code(&formats[i], nextafter(middle, 0)), code);
            assert_int_equal(store_code(&formats[i], nextafter(middle, 1e300)), code + 1);
            assert_int_equal(store_code(&formats[i], middle), code % 2 ? code + 1 : code);
        }
}

static void test_overflow_is_infinity_or_the_largest(void **state)
{
    (void)state;
    uint16_t half;
    uint8_t small;
    fc_store(FC_F16, &half, 0, 65520.0);
    assert_int_equal(half, 0x7c00);
    fc_store(FC_F16, &half, 0, 65519.99);
    assert_int_equal(half, 0x7bff);
    fc_store(FC_BF16, &half, 0, -(double)INFINITY);
    assert_int_equal(half, 0xff80);
    fc_store(FC_F8_E4M3, &small, 0, 1e9);
    assert_int_equal(small, 0x7e);
    fc_store(FC_F8_E4M3, &small, 0, -(double)INFINITY);
    assert_int_equal(small, 0xfe);
    fc_store(FC_F8_E5M2, &small, 0, 1e9);
    assert_int_equal(small, 0x7c);
}

/* Rounding through float first would give 1 + 2^-10: twice rounded, wrong. */
static void test_double_is_rounded_once(void **state)
{
    (void)state;
    uint16_t half;
    fc_store(FC_F16, &half, 0, 1 + 0x1p-11 + 0x1p-40);
    assert_int_equal(half, 0x3c01);
    fc_store(FC_F16, &half, 0, 1 + 0x1p-11 - 0x1p-40);
    assert_int_equal(half, 0x3c00);
}

/* Known-answer vectors of the Random123 distribution. */
static void test_philox_gives_the_published_words(void **state)
{
    (void)state;
    static const struct {
        fc_philox_block counter;
        uint32_t key[2];
        fc_philox_block expected;
    } vectors[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const fc_philox_block got =
            fc_philox(vectors[i].counter, vectors[i].key[0], vectors[i].key[1]);
        assert_memory_equal(&got, &vectors[i].expected, sizeof got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_loads_its_value),
        cmocka_unit_test(test_every_value_stores_its_code),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_overflow_is_infinity_or_the_largest),
        cmocka_unit_test(test_double_is_rounded_once),
        cmocka_unit_test(test_philox_gives_the_published_words),
    };
    return cmocka_run_group_tests_name("convert", tests, NULL, NULL);
}
