/* values.c: see values.h. */
#include "values.h"

#include <math.h>

static const double two_pi = 6.283185307179586;

/* The finaliser of SplitMix64. */
uint64_t lab_hash(uint64_t seed, uint64_t value)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15u + value + 0x632BE59BD9B4E019u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t row_hash(const lab_tensors *t, lab_tensor tensor, lab_place place)
{
    uint64_t hash = lab_hash(t->of.seed, (uint64_t)tensor);
    hash = lab_hash(hash, (uint64_t)place.b);
    hash = lab_hash(hash, (uint64_t)place.head);
    return lab_hash(hash, (uint64_t)place.row);
}

static uint64_t place_hash(const lab_tensors *t, lab_tensor tensor, lab_place place)
{
    return lab_hash(row_hash(t, tensor, place), (uint64_t)place.dim);
}

static double uniform(uint64_t hash)
{
    return ((double)(hash >> 11) + 0.5) * 0x1p-53;
}

/* Of a number: fmin and fmax, which heed NaN, are calls on x86. */
static double cut_off(double value, double limit)
{
    return value < -limit ? -limit : value > limit ? limit : value;
}

static double normal(uint64_t hash)
{
    const double radius = sqrt(-2 * log(uniform(hash)));
    return cut_off(radius * cos(two_pi * uniform(lab_hash(hash, 1))), 3.9);
}

/* Student's t with two degrees of freedom, cut off within the range of every type. */
static double heavy_tailed(uint64_t hash, double noise)
{
    return cut_off(noise / sqrt(-log(uniform(lab_hash(hash, 2)))), 200);
}

static double smallest_normal(fc_type type)
{
    switch (type) {
    case FC_F64: return 0x1p-1022;
    case FC_F32:
    case FC_BF16: return 0x1p-126;
    case FC_F8_E4M3: return 0x1p-6;
    default: return 0x1p-14; /* f16, E5M2 */
    }
}

/* Puts one strange number into the middle key of sequence 0, head 0; all else is finite. */
static bool is_middle_key(const lab_tensors *t, lab_place place)
{
    return place.b == 0 && place.head == 0 && place.dim == 0 &&
           place.row == t->spans[0].kv_rows / 2;
}

static double strange_value(const lab_tensors *t, lab_tensor tensor, lab_place place, double plain)
{
    if (!is_middle_key(t, place))
        return plain;
    switch (t->of.values) {
    case CASE_NAN_KEY: return tensor == LAB_K ? (double)NAN : plain;
    case CASE_NAN_VALUE: return tensor == LAB_V ? (double)NAN : plain;
    default: return tensor == LAB_V ? (double)INFINITY : plain;
    }
}

/* q and k of equal elements a and -a have the logit -a² · sqrt(head_dim), the scale being its
 * default; ±120 lies beyond what FP32's exp can hold (-103 to 88.7). */
static double extreme_value(const lab_tensors *t, lab_tensor tensor, double noise)
{
    const double a = sqrt(120 / sqrt((double)t->problem.head_dim));
    const double sign = tensor == LAB_K && t->of.values == CASE_LOW ? -1 : 1;
    return sign * a + noise / 16;
}

/* The last dim alone makes key j's logit j · scale. It is added last: sums before it stay small. */
static double rising_value(const lab_tensors *t, lab_tensor tensor, lab_place place, double noise)
{
    if (place.dim + 1 < t->problem.head_dim)
        return noise;
    return tensor == LAB_K ? (double)place.row / 2 : 2;
}

static double value_of(const lab_tensors *t, lab_tensor tensor, lab_place place, uint64_t hash)
{
    const double noise = normal(hash);
    const bool scores = tensor == LAB_Q || tensor == LAB_K;
    if (tensor == LAB_DOUT)
        return noise;
    switch (t->of.values) {
    case CASE_NORMAL: return noise;
    case CASE_HUGE: return scores ? 50 * noise : noise;
    case CASE_LOW:
    case CASE_HIGH: return scores ? extreme_value(t, tensor, noise) : noise;
    case CASE_RISING: return scores ? rising_value(t, tensor, place, noise) : noise;
    case CASE_SUBNORMAL: return noise / 4 * smallest_normal(t->buffer[tensor].type);
    case CASE_CONSTANT: return 0.5;
    case CASE_ONE_HOT:
        return scores ? (place.dim == place.row % t->problem.head_dim ? 12 : 0) : noise;
    case CASE_COARSE: return tensor == LAB_K ? round(2 * noise) / 2 : noise;
    case CASE_HEAVY: return heavy_tailed(hash, noise);
    case CASE_OFFSET: return scores ? 4 + noise : 64 + noise;
    default: return strange_value(t, tensor, place, noise);
    }
}

void lab_row_values(const lab_tensors *t, lab_tensor tensor, lab_place place, int64_t count,
                    double *values)
{
    const uint64_t hash = row_hash(t, tensor, place);
    for (place.dim = 0; place.dim < count; place.dim++)
        values[place.dim] = value_of(t, tensor, place, lab_hash(hash, (uint64_t)place.dim));
}

double lab_parameter(const lab_tensors *t, lab_tensor tensor, lab_place place)
{
    const uint64_t hash = place_hash(t, tensor, place);
    switch (tensor) {
    case LAB_ALIBI: return ldexp(1 + uniform(hash), -2 - (int)(place.head % 6));
    case LAB_BIAS: return hash % 16 == 0 ? -(double)INFINITY : normal(hash);
    case LAB_SINKS: return normal(hash);
    default: return 0.5 + 1.5 * uniform(hash);
    }
}

uint8_t lab_mask_value(const lab_tensors *t, lab_place place)
{
    const lab_span *span = &t->spans[place.b];
    switch (t->of.mask) {
    case CASE_MASK_LEADING: return place.row >= (span->q_rows + 2) / 3;
    case CASE_MASK_TRAILING: return place.row < span->q_rows - (span->q_rows + 2) / 3;
    case CASE_MASK_ALL: return 0;
    case CASE_MASK_KEYS: return place.dim < (span->kv_rows + 1) / 2;
    default: return place_hash(t, LAB_MASK, place) % 4 != 0;
    }
}
