/* matrix.c: ldmatrix, stmatrix and the products of a warp. src/cuda/ptx_mma.cuh and ptx_mma8.cuh
 * show which lane holds what. */
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

enum { MOST_DEPTH = 32, LEFT_BYTES = 16, RIGHT_BYTES = 8 };

typedef struct mma_visit {
    emu_uint4 sum; /* FP32 or integers */
    unsigned char left[LEFT_BYTES], right[RIGHT_BYTES];
} mma_visit;

/* Where element i of a lane's left, or right, operand stands, `packed` of them in a register. */
static int depth_of(int lane, int i, int packed, int registers_apart)
{
    return lane % 4 * packed + i % packed + i / packed / registers_apart * 4 * packed;
}

static int left_row(int lane, int i, int packed)
{
    return lane / 4 + i / packed % 2 * 8;
}

/* The sums of all lanes, or back to them. */
static void move_sums(const emu_warp *warp, uint32_t sums[16][8], bool back)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        mma_visit *visit = emu_arguments(warp, lane);
        for (int i = 0; i < 4; i++) {
            uint32_t *sum = &sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
            if (back)
                visit->sum[i] = *sum;
            else
                *sum = visit->sum[i];
        }
    }
}

static void multiply(const emu_warp *warp, int type, uint32_t sums[16][8])
{
    const int packed = 4 / emu_element_bytes(type), depth = 8 * packed;
    float left[16][MOST_DEPTH], right[MOST_DEPTH][8];
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const mma_visit *visit = emu_arguments(warp, lane);
        float values[LEFT_BYTES];
        emu_widen(type, visit->left, values, 4 * packed);
        for (int i = 0; i < 4 * packed; i++)
            left[left_row(lane, i, packed)][depth_of(lane, i, packed, 2)] = values[i];
        emu_widen(type, visit->right, values, 2 * packed);
        for (int i = 0; i < 2 * packed; i++)
            right[depth_of(lane, i, packed, 1)][lane / 4] = values[i];
    }
    for (int row = 0; row < 16; row++) {
        float sum[8];
        double exact[8];
        memcpy(sum, sums[row], sizeof sum);
        for (int column = 0; column < 8; column++)
            exact[column] = sum[column];
        for (int k = 0; k < depth; k++)
            for (int column = 0; column < 8; column++)
                exact[column] += (double)left[row][k] * right[k][column];
        for (int column = 0; column < 8; column++)
            sum[column] = emu_cut(exact[column]);
        memcpy(sums[row], sum, sizeof sum);
    }
}

/* Sums wrap around. */
static void multiply_integers(const emu_warp *warp, uint32_t sums[16][8])
{
    int8_t left[16][MOST_DEPTH], right[MOST_DEPTH][8];
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const mma_visit *visit = emu_arguments(warp, lane);
        for (int i = 0; i < LEFT_BYTES; i++)
            left[left_row(lane, i, 4)][depth_of(lane, i, 4, 2)] = (int8_t)visit->left[i];
        for (int i = 0; i < RIGHT_BYTES; i++)
            right[depth_of(lane, i, 4, 1)][lane / 4] = (int8_t)visit->right[i];
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++)
            for (int k = 0; k < MOST_DEPTH; k++)
                sums[row][column] += (uint32_t)(left[row][k] * right[k][column]);
}

static emu_uint4 mma(int type, emu_uint4 sum, emu_uint4 left, unsigned right_0, unsigned right_1,
                     emu_place place)
{
    emu_fiber *self = emu_self;
    emu_totals *totals = &self->machine->counts.totals;
    const unsigned right[2] = {right_0, right_1};
    mma_visit visit = {.sum = sum};
    memcpy(visit.left, &left, sizeof visit.left);
    memcpy(visit.right, right, sizeof visit.right);
    const emu_visit meeting = {.collective = EMU_MMA,
                               .mask = EMU_ALL_LANES,
                               .detail = type,
                               .place = place,
                               .arguments = &visit};
    if (!emu_meet(self, &meeting))
        return visit.sum;
    uint32_t sums[16][8];
    move_sums(self->warp, sums, false);
    if (type == EMU_S8)
        multiply_integers(self->warp, sums);
    else
        multiply(self->warp, type, sums);
    move_sums(self->warp, sums, true);
    *(emu_element_bytes(type) == 2 ? &totals->mma : &totals->mma8) += 1;
    emu_dismiss(self->warp, EMU_ALL_LANES);
    return visit.sum;
}

emu_float4 emu_mma(int type, emu_float4 sum, emu_uint4 left, unsigned right_0, unsigned right_1,
                   const char *file, int line)
{
    const emu_place place = {.file = file, .line = line, .pc = EMU_CALLER};
    return (emu_float4)mma(type, (emu_uint4)sum, left, right_0, right_1, place);
}

emu_uint4 emu_mma_s8(emu_uint4 sum, emu_uint4 left, unsigned right_0, unsigned right_1,
                     const char *file, int line)
{
    const emu_place place = {.file = file, .line = line, .pc = EMU_CALLER};
    return mma(EMU_S8, sum, left, right_0, right_1, place);
}
