/* matrix.c: ldmatrix, stmatrix and the m16n8k16 products. src/cuda/ptx_mma.cuh shows which lane
 * holds what. */
#include "access.h"
#include "device.h"
#include "element.h"

#include <string.h>

#define VISIT(name, what, given)                                                      \
    &(const emu_visit)                                                                \
    {                                                                                 \
        .collective = (name), .mask = EMU_ALL_LANES, .detail = (what),                \
        .place = {.file = file, .line = line, .pc = EMU_CALLER}, .arguments = (given) \
    }

/* 1. 8×8 matrices of 16-bit elements: lane 8i + r has the address of row r of matrix i. */

typedef struct rows_visit {
    void *row;
    emu_uint4 values;
    uintptr_t pc;
} rows_visit;

static void check_rows(emu_fiber *self, int matrices, bool writes)
{
    emu_warp *warp = self->warp;
    uintptr_t offsets[EMU_LANES];
    for (int lane = 0; lane < 8 * matrices; lane++) {
        const rows_visit *visit = emu_arguments(warp, lane);
        emu_check_shared(&warp->lanes[lane], visit->row, 16, writes, 0, visit->pc);
        offsets[lane] = (uintptr_t)visit->row - (uintptr_t)self->block->shared;
    }
    self->machine->counts.totals.ldmatrix++;
    if (warp->trace)
        emu_count_rows(&self->machine->counts, self->visit.place.pc, writes, offsets, 8 * matrices);
}

/* Element (row, column) of matrix i is half `column % 2` of a word of the lane that holds it. */
static uint16_t *element_of(emu_warp *warp, int matrix, int row, int column, int transposed)
{
    const int r = transposed ? column : row;
    const int c = transposed ? row : column;
    rows_visit *visit = emu_arguments(warp, 4 * r + c / 2);
    return (uint16_t *)&visit->values + (2 * (size_t)matrix + (size_t)c % 2);
}

emu_uint4 emu_ldmatrix(int matrices, int transposed, const void *row, const char *file, int line)
{
    emu_fiber *self = emu_self;
    rows_visit visit = {.row = (void *)(uintptr_t)row, .pc = EMU_CALLER};
    if (!emu_meet(self, VISIT(EMU_LDMATRIX, 2 * matrices + transposed, &visit)))
        return visit.values;
    check_rows(self, matrices, false);
    for (int lane = 0; lane < 8 * matrices; lane++) {
        uint16_t elements[8];
        memcpy(elements, ((const rows_visit *)emu_arguments(self->warp, lane))->row, 16);
        for (int column = 0; column < 8; column++)
            *element_of(self->warp, lane / 8, lane % 8, column, transposed) = elements[column];
    }
    emu_dismiss(self->warp, EMU_ALL_LANES);
    return visit.values;
}

void emu_stmatrix(int matrices, int transposed, void *row, emu_uint4 values, const char *file,
                  int line)
{
    emu_fiber *self = emu_self;
    rows_visit visit = {.row = row, .values = values, .pc = EMU_CALLER};
    if (!emu_meet(self, VISIT(EMU_STMATRIX, 2 * matrices + transposed, &visit)))
        return;
    check_rows(self, matrices, true);
    for (int lane = 0; lane < 8 * matrices; lane++) {
        uint16_t elements[8];
        for (int column = 0; column < 8; column++)
            elements[column] = *element_of(self->warp, lane / 8, lane % 8, column, transposed);
        memcpy(((rows_visit *)emu_arguments(self->warp, lane))->row, elements, 16);
    }
    emu_dismiss(self->warp, EMU_ALL_LANES);
}

/* 2. Products. */

typedef struct mma_visit {
    emu_float4 sum;
    uint16_t left[8];
    uint16_t right[4];
} mma_visit;

typedef struct mma_operands {
    float left[16][16];
    float right[16][8];
    float sum[16][8];
} mma_operands;

static void gather_operands(const emu_warp *warp, int type, mma_operands *m)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const mma_visit *visit = emu_arguments(warp, lane);
        const int g = lane / 4, t = lane % 4;
        float left[8], right[4];
        emu_widen(type, visit->left, left, 8);
        emu_widen(type, visit->right, right, 4);
        for (int i = 0; i < 8; i++)
            m->left[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = left[i];
        for (int i = 0; i < 4; i++)
            m->right[2 * t + i % 2 + i / 2 * 8][g] = right[i];
        for (int i = 0; i < 4; i++)
            m->sum[g + i / 2 * 8][2 * t + i % 2] = visit->sum[i];
    }
}

/* FP32 sums, one product after another; the hardware's order and rounding are its own. */
static void multiply(mma_operands *m)
{
    for (int row = 0; row < 16; row++) {
        float sum[8];
        memcpy(sum, m->sum[row], sizeof sum);
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sum[column] += m->left[row][k] * m->right[k][column];
        memcpy(m->sum[row], sum, sizeof sum);
    }
}

emu_float4 emu_mma_m16n8k16(int type, emu_float4 sum, emu_uint4 left, unsigned right_0,
                            unsigned right_1, const char *file, int line)
{
    emu_fiber *self = emu_self;
    const unsigned right[2] = {right_0, right_1};
    mma_visit visit = {.sum = sum};
    memcpy(visit.left, &left, sizeof visit.left);
    memcpy(visit.right, right, sizeof visit.right);
    if (!emu_meet(self, VISIT(EMU_MMA, type, &visit)))
        return visit.sum;
    mma_operands m;
    gather_operands(self->warp, type, &m);
    multiply(&m);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        mma_visit *of = emu_arguments(self->warp, lane);
        for (int i = 0; i < 4; i++)
            of->sum[i] = m.sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
    self->machine->counts.totals.mma++;
    emu_dismiss(self->warp, EMU_ALL_LANES);
    return visit.sum;
}
