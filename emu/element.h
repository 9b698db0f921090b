/* element.h: floating point of 16 and 8 bits to and from FP32, by the processor where it can. */
#ifndef EMU_ELEMENT_H
#define EMU_ELEMENT_H

#include "core/convert.h"
#include "device.h"

#include <math.h>

#if defined(__FLT16_MAX__)
__extension__ typedef _Float16 emu_half;
#endif

static inline float emu_widen_f16(uint16_t bits)
{
#if defined(__FLT16_MAX__)
    emu_half half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
#else
    return fc_f16_to_float(bits);
#endif
}

static inline uint16_t emu_narrow_f16(float value)
{
#if defined(__FLT16_MAX__)
    const emu_half half = (emu_half)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    return fc_f16_from_double(value);
#endif
}

static inline int emu_element_bytes(int type)
{
    return type == EMU_F16 || type == EMU_BF16 ? 2 : 1;
}

static inline void emu_widen(int type, const void *elements, float *values, int count)
{
    const uint16_t *halves = elements;
    const uint8_t *bytes = elements;
    switch (type) {
    case EMU_F16:
        for (int i = 0; i < count; i++)
            values[i] = emu_widen_f16(halves[i]);
        break;
    case EMU_BF16:
        for (int i = 0; i < count; i++)
            values[i] = fc_bf16_to_float(halves[i]);
        break;
    case EMU_E4M3:
        for (int i = 0; i < count; i++)
            values[i] = fc_e4m3_to_float(bytes[i]);
        break;
    default:
        for (int i = 0; i < count; i++)
            values[i] = fc_e5m2_to_float(bytes[i]);
    }
}

/* Tensor cores add the products of one instruction to a sum and cut what FP32 can't hold. */
static inline float emu_cut(double sum)
{
    float cut = (float)sum;
    uint32_t bits;
    memcpy(&bits, &cut, sizeof bits);
    bits -= fabs((double)cut) > fabs(sum);
    memcpy(&cut, &bits, sizeof bits);
    return cut;
}

#endif
