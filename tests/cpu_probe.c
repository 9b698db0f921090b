/* cpu_probe.c: see cpu_probe.h. */
#include "cpu_probe.h"

#include "cpu/matmul.h"
#include "cpu/name.h"
#include "cpu/vec_math.h"

#define TEXT_(text) #text
#define TEXT(text) TEXT_(text)

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool same_number(float a, float b)
{
    return (isnan(a) && isnan(b)) || bits_of(a) == bits_of(b);
}

/* ---- Functions ---- */

static double ulp_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, (exponent - 1 < -126 ? -126 : exponent - 1) - 23);
}

/* One of so many floats is tried; builds with sanitizers, many times slower, try fewer. */
#ifndef FLOATS_APART
#define FLOATS_APART 97
#endif

/* Of those between -126 and 0, and between 0 and 127. */
static double exp2_error(void)
{
    static const float ends[] = {-126.0f, 127.0f};
    double worst = 0;
    for (int side = 0; side < 2; side++) {
        const uint32_t last = bits_of(ends[side]);
        for (uint32_t code = last & 0x80000000u; code <= last;) {
            float x[VEC_LANES], power[VEC_LANES];
            for (int i = 0; i < VEC_LANES; i++, code += FLOATS_APART)
                x[i] = fc_float_from_bits(code < last ? code : last);
            vec_store(power, vec_exp2(vec_load(x)));
            for (int i = 0; i < VEC_LANES; i++) {
                const double truth = exp2((double)x[i]);
                worst = fmax(worst, fabs((double)power[i] - truth) / ulp_of(truth));
            }
        }
    }
    return worst;
}

static float exp2_of(float x)
{
    float power[VEC_LANES];
    vec_store(power, vec_exp2(vec_set(x)));
    return power[0];
}

static double tanh_error(void)
{
    double worst = 0;
    for (uint32_t code = bits_of(1e-30f); code < bits_of(200.0f); code += 4999) {
        float value[VEC_LANES];
        const float x = fc_float_from_bits(code);
        const double truth = tanh((double)x);
        vec_store(value, vec_tanh(vec_set(x)));
        worst = fmax(worst, fabs((double)value[0] - truth) / truth);
        vec_store(value, vec_tanh(vec_set(-x)));
        worst = fmax(worst, fabs((double)value[0] + truth) / truth);
    }
    return worst;
}

/* ---- Elements ---- */

/* Room for a vector of any type. */
typedef union elements {
    double room[VEC_LANES];
    uint8_t narrow[VEC_LANES];
    uint16_t wide[VEC_LANES];
} elements;

static int64_t wrong_loads(fc_type type)
{
    const int64_t codes = type == FC_F16 || type == FC_BF16 ? 65536 : 256;
    int64_t wrong = 0;
    for (int64_t code = 0; code < codes; code += VEC_LANES) {
        elements from;
        float values[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++)
            if (codes == 256)
                from.narrow[i] = (uint8_t)(code + i);
            else
                from.wide[i] = (uint16_t)(code + i);
        vec_store(values, vec_load_as(type, &from));
        for (int i = 0; i < VEC_LANES; i++)
            wrong += !same_number(values[i], (float)fc_load(type, &from, i));
    }
    return wrong;
}

/* Every 1013th float: ties, subnormals, overflows and NaN are among them. */
static int64_t wrong_stores(fc_type type)
{
    int64_t wrong = 0;
    for (uint64_t code = 0; code < 0x100000000u; code += 1013ull * VEC_LANES) {
        float values[VEC_LANES];
        elements stored, expected;
        for (int i = 0; i < VEC_LANES; i++)
            values[i] = fc_float_from_bits((uint32_t)(code + 1013 * (uint64_t)i) & ~0xfffu);
        if (type == FC_F16)
            vec_store_f16(stored.wide, vec_load(values));
        else
            vec_store_bf16(stored.wide, vec_load(values));
        for (int i = 0; i < VEC_LANES; i++) {
            fc_store(type, &expected, i, (double)values[i]);
            wrong +=
                !same_number((float)fc_load(type, &stored, i), (float)fc_load(type, &expected, i));
        }
    }
    return wrong;
}

static int64_t wrong_transposes(void)
{
    int64_t wrong = 0;
    float from[VEC_LANES][VEC_LANES], to[VEC_LANES];
    vec rows[VEC_LANES];
    for (int i = 0; i < VEC_LANES * VEC_LANES; i++)
        from[i / VEC_LANES][i % VEC_LANES] = (float)i;
    for (int i = 0; i < VEC_LANES; i++)
        rows[i] = vec_load(from[i]);
    vec_transpose(rows);
    for (int i = 0; i < VEC_LANES; i++) {
        vec_store(to, rows[i]);
        for (int j = 0; j < VEC_LANES; j++)
            wrong += to[j] != from[j][i];
    }
    return wrong;
}

static int64_t wrong_moves(void)
{
    float lanes[VEC_LANES], result[VEC_LANES], sums[4];
    vec four[4];
    float sum = 0;
    for (int i = 0; i < VEC_LANES; i++) {
        lanes[i] = (float)(i * i);
        sum += lanes[i];
    }
    for (int i = 0; i < 4; i++)
        four[i] = vec_mul(vec_load(lanes), vec_set((float)(i + 1)));
    vec_sum4(four, sums);
    int64_t wrong = wrong_transposes();
    for (int i = 0; i < 4; i++)
        wrong += sums[i] != (float)(i + 1) * sum;
    wrong += vec_highest(vec_load(lanes)) != lanes[VEC_LANES - 1];
    vec_store(result, vec_where_less(vec_load(lanes), vec_set(4), vec_set(1), vec_set(2)));
    for (int i = 0; i < VEC_LANES; i++)
        wrong += result[i] != (lanes[i] < 4 ? 1.0f : 2.0f);
    vec_store(result, vec_where_equal(vec_load(lanes), vec_set(4), vec_set(1), vec_set(2)));
    for (int i = 0; i < VEC_LANES; i++)
        wrong += result[i] != (lanes[i] == 4 ? 1.0f : 2.0f);
    vec_store(result, vec_max(vec_set(-127), vec_set(NAN)));
    return wrong + !isnan(result[0]);
}

/* ---- The matrix step ---- */

enum { DEPTH = 128, PANELS = 3, COLUMNS = PANELS * MATMUL_COLUMNS, A_STRIDE = DEPTH + 8 };
enum { PANEL_ELEMENTS = DEPTH * MATMUL_COLUMNS };

/* Values that bf16 holds exactly, all different along a row. */
static float sample(int64_t row, int64_t column)
{
    return (float)((row * 7 + column * 13) % 61 - 30) / 32;
}

static double matmul_error(void)
{
    static operand a[MATMUL_ROWS * A_STRIDE], b[COLUMNS * DEPTH];
    static float c[MATMUL_ROWS * COLUMNS];
    double worst = 0;
    for (int64_t row = 0; row < MATMUL_ROWS; row++)
        for (int64_t k = 0; k < DEPTH; k++)
            a[row * A_STRIDE + k] = operand_of(sample(row, k));
    for (int64_t k = 0; k < DEPTH; k++)
        for (int64_t column = 0; column < COLUMNS; column++) {
            const int64_t panel = column / MATMUL_COLUMNS, at = column % MATMUL_COLUMNS;
            b[panel * PANEL_ELEMENTS + k / OPERAND_GROUP * OPERAND_GROUP * MATMUL_COLUMNS +
              at * OPERAND_GROUP + k % OPERAND_GROUP] = operand_of(sample(k, column));
        }
    matmul_begin();
    for (int accumulate = 0; accumulate < 2; accumulate++)
        matmul(&(matmul_step){.a = a,
                              .a_stride = A_STRIDE,
                              .b = b,
                              .panel_stride = PANEL_ELEMENTS,
                              .depth = DEPTH,
                              .panels = PANELS,
                              .c = c,
                              .c_stride = COLUMNS,
                              .accumulate = accumulate});
    matmul_end();
    for (int64_t row = 0; row < MATMUL_ROWS; row++)
        for (int64_t column = 0; column < COLUMNS; column++) {
            double truth = 0;
            for (int64_t k = 0; k < DEPTH; k++)
                truth += (double)sample(row, k) * (double)sample(k, column);
            worst = fmax(worst, fabs((double)c[row * COLUMNS + column] - 2 * truth));
        }
    return worst;
}

const cpu_probe FC_CPU_NAME(probe) = {
    .isa = TEXT(FC_CPU_ISA),
    .exp2_bound = VEC_EXP2_ULP,
    .exp2_error = exp2_error,
    .exp2_of = exp2_of,
    .tanh_error = tanh_error,
    .wrong_loads = wrong_loads,
    .wrong_stores = wrong_stores,
    .wrong_moves = wrong_moves,
    .matmul_error = matmul_error,
};
