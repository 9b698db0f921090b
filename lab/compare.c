/* compare.c: see compare.h. */
#include "compare.h"

#include "core/convert.h"
#include "f16_promise.h"
#include "unfused.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double largest_finite(const double *values, const uint8_t *written, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (written[i] && isfinite(values[i]))
            largest = fmax(largest, fabs(values[i]));
    return largest;
}

static double largest_difference(const double *a, const double *b, const uint8_t *written,
                                 int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (written[i] && isfinite(a[i]) && isfinite(b[i]))
            largest = fmax(largest, fabs(a[i] - b[i]));
    return largest;
}

double compare_ulp(fc_type type, double magnitude)
{
    switch (type) {
    case FC_F64: return fmax(magnitude * 0x1p-52, 0x1p-1074);
    case FC_F32: return fmax(magnitude * 0x1p-23, 0x1p-149);
    case FC_F16: return fmax(magnitude * 0x1p-10, 0x1p-24);
    default: return fmax(magnitude * 0x1p-7, 0x1p-133); /* bf16 */
    }
}

static bool stores_16_bits(unfused_precision precision)
{
    return precision.stored == FC_F16 || precision.stored == FC_BF16;
}

/* The soft-cap, where tanh may be rounded as a number of size 1 is. */
static double cap_rounding(const lab_tensors *t, unfused_precision precision)
{
    return stores_16_bits(precision) ? (double)t->problem.softcap : 0;
}

/* What tensor cores cut off sums of products. */
static double product_cuts(const lab_tensors *t, unfused_precision precision,
                           double largest_product)
{
    const int64_t cuts = (t->problem.head_dim + 15) / 16;
    return stores_16_bits(precision) ? (double)cuts * 0x1p-23 * largest_product : 0;
}

double compare_tolerance(const lab_tensors *t, lab_tensor tensor, const lab_results *truth,
                         const lab_results *plain, unfused_sizes largest)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    uint8_t *written = lab_written_elements(t, tensor);
    const double *values = truth->values[tensor];
    const double magnitude = largest_finite(values, written, buffer->elements);
    const double error =
        largest_difference(values, plain->values[tensor], written, buffer->elements);
    free(written);
    const unfused_precision precision = unfused_precision_of(&t->problem);
    if (tensor == LAB_LSE)
        return 2 * error + fmax(product_cuts(t, precision, largest.product),
                                0x1p-22 * fmax(fmax(1, cap_rounding(t, precision)),
                                               fmax(largest.score, magnitude)));
    const double score_rounding = compare_ulp(precision.sums, largest.score);
    const double tolerance =
        2 * error + compare_ulp(buffer->type, magnitude) + score_rounding * magnitude;
    return tensor == LAB_OUT ? fmin(tolerance, f16_promise(t, magnitude)) : tolerance;
}

/* The sequence, head, row and dim that an element stands for, or those of the memory itself where
 * it belongs to no sequence. */
static void find_place(const lab_tensors *t, lab_tensor tensor, int64_t element, int64_t place[4])
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const bool keys = tensor == LAB_DK || tensor == LAB_DV;
    const bool rows = tensor != LAB_DBIAS && tensor != LAB_DSINKS;
    for (place[0] = 0; place[0] < t->problem.batch; place[0]++) {
        const lab_span *span = &t->spans[place[0]];
        const int64_t row_count = !rows ? buffer->sizes[2] : keys ? span->kv_rows : span->q_rows;
        for (place[1] = 0; place[1] < buffer->sizes[1]; place[1]++)
            for (place[2] = 0; place[2] < row_count; place[2]++)
                for (place[3] = 0; place[3] < buffer->sizes[3]; place[3]++)
                    if (lab_element(t, tensor, place[0], place[1], place[2], place[3]) == element)
                        return;
    }
    place[0] = -1;
}

void compare_name_element(const lab_tensors *t, lab_tensor tensor, int64_t element, char *text,
                          size_t bytes)
{
    int64_t place[4];
    find_place(t, tensor, element, place);
    if (place[0] < 0)
        snprintf(text, bytes, "%s[element %" PRId64 ", past every sequence]",
                 t->buffer[tensor].name, element - t->buffer[tensor].origin);
    else
        snprintf(text, bytes,
                 "%s[b %" PRId64 ", head %" PRId64 ", row %" PRId64 ", %s %" PRId64 "]",
                 t->buffer[tensor].name, place[0], place[1], place[2],
                 tensor == LAB_DBIAS ? "key" : "dim", place[3]);
}

/* Without the sign of a NaN, which says nothing. */
static const char *number(double value, char text[32])
{
    if (isnan(value))
        return "nan";
    snprintf(text, 32, "%.9g", value);
    return text;
}

double compare_difference(fc_type type, double got, double expected)
{
    const double rounded = lab_round(type, expected); /* may overflow, as the result then must */
    if (isnan(rounded) || isinf(rounded))
        return (isnan(rounded) && isnan(got)) || got == rounded ? 0 : (double)INFINITY;
    return isfinite(got) ? fabs(got - expected) : (double)INFINITY;
}

const double compare_ulp_limits[COMPARE_ULP_BINS - 1] = {0.5, 1, 2, 4, 8, 16, 64};

double compare_ulp_of(fc_type type, double value)
{
    return compare_ulp(type, value != 0 && isfinite(value) ? ldexp(1, ilogb(value)) : 0);
}

static int ulp_bin(fc_type type, double error, double expected)
{
    const double ulps = error / compare_ulp_of(type, expected);
    int bin = 0;
    while (bin < COMPARE_ULP_BINS - 1 && !(ulps <= compare_ulp_limits[bin]))
        bin++;
    return bin;
}

typedef struct error_sums {
    double error, squared_error, squared_truth;
    int64_t count;
} error_sums;

static void add_error(error_sums *sums, double error, double expected)
{
    if (!isfinite(error) || !isfinite(expected))
        return;
    sums->error += error;
    sums->squared_error += error * error;
    sums->squared_truth += expected * expected;
    sums->count++;
}

void compare_tensor(const lab_tensors *t, lab_tensor tensor, const uint8_t *image,
                    const lab_results *truth, double tolerance, compare_report *report)
{
    const lab_buffer *buffer = &t->buffer[tensor];
    const double *expected = truth->values[tensor];
    uint8_t *written = lab_written_elements(t, tensor);
    int64_t worst = -1;
    error_sums sums = {0};
    *report = (compare_report){.tolerance = tolerance};
    for (int64_t i = 0; i < buffer->elements; i++) {
        if (!written[i])
            continue;
        const double got = fc_load(buffer->type, image + LAB_GUARD_BYTES, i);
        const double error = compare_difference(buffer->type, got, expected[i]);
        report->ulps[ulp_bin(buffer->type, error, expected[i])]++;
        add_error(&sums, error, expected[i]);
        if (worst < 0 || error > report->error) {
            worst = i;
            report->error = error;
        }
    }
    free(written);
    report->mean_error = sums.count > 0 ? sums.error / (double)sums.count : 0;
    report->relative_error =
        sums.squared_truth > 0 ? sqrt(sums.squared_error / sums.squared_truth) : 0;
    if (report->error <= tolerance)
        return;
    char name[96], got[32], wanted[32];
    compare_name_element(t, tensor, worst, name, sizeof name);
    snprintf(report->reason, sizeof report->reason,
             "%s is %s, expected %s: error %.3g, tolerance %.3g", name,
             number(fc_load(buffer->type, image + LAB_GUARD_BYTES, worst), got),
             number(expected[worst], wanted), report->error, tolerance);
}

bool compare_doubled(const lab_tensors *t, const uint8_t *before, const uint8_t *after, char *name,
                     size_t name_bytes)
{
    const lab_buffer *out = &t->buffer[LAB_OUT];
    const double spacing = compare_ulp(out->type, 0),
                 smallest_normal = spacing / compare_ulp(out->type, 1);
    uint8_t *written = lab_written_elements(t, LAB_OUT);
    bool same = true;
    for (int64_t i = 0; same && i < out->elements; i++) {
        if (!written[i])
            continue;
        const double once = fc_load(out->type, before + LAB_GUARD_BYTES, i);
        const double twice = fc_load(out->type, after + LAB_GUARD_BYTES, i);
        const double allowed = fabs(once) <= smallest_normal ? spacing : 0;
        same = compare_difference(out->type, twice, 2 * once) <= allowed;
        if (!same)
            compare_name_element(t, LAB_OUT, i, name, name_bytes);
    }
    free(written);
    return same;
}

/* Two computations in double differ by their rounding alone; lse, dbias and dsinks of the truth
 * have passed through FP32. */
bool compare_witness(const lab_tensors *t, const lab_results *truth, const lab_results *witness,
                     double largest_score, char reason[256])
{
    for (lab_tensor tensor = LAB_OUT; tensor < LAB_TENSOR_COUNT; tensor++) {
        const double *expected = truth->values[tensor], *seen = witness->values[tensor];
        if (!expected)
            continue;
        const bool narrow = tensor == LAB_LSE || tensor == LAB_DBIAS || tensor == LAB_DSINKS;
        uint8_t *written = lab_written_elements(t, tensor);
        const int64_t count = t->buffer[tensor].elements;
        const double tolerance = (narrow ? 1e-6 : 1e-10) * (1 + largest_score) *
                                 (1 + largest_finite(expected, written, count));
        for (int64_t i = 0; i < count; i++) {
            if (!written[i] || compare_difference(FC_F64, seen[i], expected[i]) <= tolerance)
                continue;
            char name[96], first[32], second[32];
            compare_name_element(t, tensor, i, name, sizeof name);
            snprintf(reason, 256,
                     "the truth itself is in doubt: %s is %s by the reference and %s by the "
                     "unfused computation in double",
                     name, number(expected[i], first), number(seen[i], second));
            free(written);
            return false;
        }
        free(written);
    }
    return true;
}
