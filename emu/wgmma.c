/* wgmma.c: products of a warpgroup. Each warp computes its own 16 rows, when it waits for the group
 * that holds the product: until then operands are being read and sums are nobody's. */
#include "access.h"
#include "async.h"
#include "device.h"
#include "element.h"
#include "tensor_map.h"

#include <stdlib.h>

enum { DEPTH = 16, MOST_COLUMNS = 256 }; /* k16; the widest instruction */

/* An operand in shared memory, as its descriptor tells. */
typedef struct operand {
    uint32_t address;
    uint32_t leading_bytes, stride_bytes;
    int swizzle_bytes;
    bool across; /* rows run across the sum */
} operand;

struct emu_product {
    emu_product *next;
    int type, columns;
    uint32_t group;
    bool left_in_registers, accumulates;
    operand left, right;
    uint16_t left_values[EMU_LANES][8];
    float *sums[EMU_LANES];
    emu_fiber *by;
    uintptr_t pc;
};

/* 1. Descriptors: src/cuda/ptx_wgmma.cuh, matrix_descriptor. */

static operand decode(uint64_t descriptor, bool across)
{
    static const int swizzles[] = {0, 128, 64, 32};
    return (operand){
        .address = (uint32_t)(descriptor & 0x3fff) << 4,
        .leading_bytes = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
        .stride_bytes = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
        .swizzle_bytes = swizzles[descriptor >> 62],
        .across = across,
    };
}

/* The 8 elements from (row, k) on, or where rows run across the sum from (k, row) on. */
static uint32_t chunk_address(const operand *o, int row, int k)
{
    const uint32_t width = o->swizzle_bytes ? (uint32_t)o->swizzle_bytes : 16;
    const uint32_t r = (uint32_t)row, c = (uint32_t)k;
    uint32_t address = o->address;
    if (!o->across)
        address += r / 8 * o->stride_bytes + r % 8 * width +
                   (o->swizzle_bytes ? c * 2 : c / 8 * o->leading_bytes);
    else if (o->swizzle_bytes)
        address += r * 2 % width + r * 2 / width * o->leading_bytes + c % 8 * width +
                   c / 8 * o->stride_bytes;
    else
        address += r / 8 * o->stride_bytes + c % 8 * width + c / 8 * o->leading_bytes;
    return emu_swizzle(address, o->swizzle_bytes);
}

/* Visits every chunk of rows [first, end) of an operand. */
typedef void chunk_visitor(const emu_product *product, unsigned char *chunk, void *user);

static unsigned char *chunk_at(const emu_product *product, const operand *o, int row, int k)
{
    return product->by->block->shared + (int32_t)(chunk_address(o, row, k) - EMU_SHARED_BASE);
}

static void visit_chunks(const emu_product *product, const operand *o, int first, int end,
                         chunk_visitor *visit, void *user)
{
    const int row_step = o->across ? 8 : 1, k_step = o->across ? 1 : 8;
    for (int row = first; row < end; row += row_step)
        for (int k = 0; k < DEPTH; k += k_step)
            visit(product, chunk_at(product, o, row, k), user);
}

static int first_row(const emu_product *product)
{
    return (int)(product->by->thread / EMU_LANES) % 4 * 16;
}

static void visit_operands(const emu_product *product, chunk_visitor *visit, void *user)
{
    const int first = first_row(product);
    if (!product->left_in_registers)
        visit_chunks(product, &product->left, first, first + 16, visit, user);
    visit_chunks(product, &product->right, 0, product->columns, visit, user);
}

/* 2. Starting. */

typedef struct wgmma_visit {
    float *sums;
    emu_uint4 left;
} wgmma_visit;

static void check_chunk(const emu_product *product, unsigned char *chunk, void *user)
{
    (void)user;
    emu_check_shared(product->by, chunk, 16, false, EMU_IN_FLIGHT | EMU_PROXY, product->pc);
}

static void enqueue(emu_fiber *self, emu_product *product)
{
    emu_product **end = &self->warp->products;
    while (*end)
        end = &(*end)->next;
    *end = product;
    visit_operands(product, check_chunk, NULL);
    self->machine->counts.totals.wgmma_products +=
        (uint64_t)16 * DEPTH * (uint64_t)product->columns;
}

void emu_wgmma(int type, int columns, float *sums, emu_uint4 left, uint64_t right,
               int left_in_registers, int accumulates, const char *file, int line)
{
    emu_fiber *self = emu_self;
    wgmma_visit visit = {.sums = sums, .left = left};
    const emu_visit meeting = {.collective = EMU_WGMMA,
                               .mask = EMU_ALL_LANES,
                               .detail = columns * 2 + left_in_registers,
                               .place = {file, line, EMU_CALLER},
                               .arguments = &visit};
    if (!emu_meet(self, &meeting))
        return;
    emu_product *product = calloc(1, sizeof *product);
    if (!product)
        abort();
    *product = (emu_product){
        .type = type,
        .columns = columns,
        .group = self->warp->product_group,
        .left_in_registers = left_in_registers,
        .accumulates = accumulates,
        .left = decode(left[0] | (uint64_t)left[1] << 32, false),
        .right = decode(right, left_in_registers),
        .by = self,
        .pc = EMU_CALLER,
    };
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const wgmma_visit *of = emu_arguments(self->warp, lane);
        product->sums[lane] = of->sums;
        memcpy(product->left_values[lane], &of->left, sizeof of->left);
    }
    enqueue(self, product);
    emu_dismiss(self->warp, EMU_ALL_LANES);
}

/* 3. Completing. */

static void read_left(const emu_product *product, float left[16][DEPTH])
{
    for (int lane = 0; product->left_in_registers && lane < EMU_LANES; lane++) {
        float values[8];
        emu_widen(product->type, product->left_values[lane], values, 8);
        for (int i = 0; i < 8; i++)
            left[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = values[i];
    }
    for (int row = 0; !product->left_in_registers && row < 16; row++)
        for (int k = 0; k < DEPTH; k += 8) {
            uint16_t bits[8];
            memcpy(bits, chunk_at(product, &product->left, first_row(product) + row, k), 16);
            emu_widen(product->type, bits, &left[row][k], 8);
        }
}

static void read_right(const emu_product *product, float right[DEPTH][MOST_COLUMNS])
{
    const bool across = product->right.across;
    for (int column = 0; column < product->columns; column += across ? 8 : 1)
        for (int k = 0; k < DEPTH; k += across ? 1 : 8) {
            uint16_t bits[8];
            float values[8];
            memcpy(bits, chunk_at(product, &product->right, column, k), 16);
            emu_widen(product->type, bits, values, 8);
            for (int i = 0; i < 8; i++)
                right[across ? k : k + i][across ? column + i : column] = values[i];
        }
}

static float *sum_at(const emu_product *product, int row, int column)
{
    return &product->sums[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
}

static void multiply(const emu_product *product)
{
    float left[16][DEPTH], right[DEPTH][MOST_COLUMNS];
    read_left(product, left);
    read_right(product, right);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < product->columns; column++) {
            float *place = sum_at(product, row, column);
            float sum = product->accumulates ? *place : 0.0f;
            for (int k = 0; k < DEPTH; k++)
                sum += left[row][k] * right[k][column];
            *place = sum;
        }
}

static void land_chunk(const emu_product *product, unsigned char *chunk, void *user)
{
    (void)user;
    emu_block *block;
    size_t offset;
    const emu_warp *warp = product->by->warp;
    if (!emu_find_shared(product->by->machine, chunk, 16, &block, &offset))
        return;
    const emu_access access = {.by = product->by,
                               .shadow = &block->shadow,
                               .offset = offset,
                               .bytes = 16,
                               .pc = product->pc};
    emu_shadow_land(&access, emu_product_engine(warp), warp->product_clock);
}

void emu_wgmma_fence(const char *file, int line)
{
    (void)file, (void)line;
}

void emu_wgmma_commit(const char *file, int line)
{
    emu_fiber *self = emu_self;
    const emu_visit meeting = {
        .collective = EMU_WGMMA_COMMIT, .mask = EMU_ALL_LANES, .place = {file, line, EMU_CALLER}};
    if (!emu_meet(self, &meeting))
        return;
    self->warp->product_group++;
    emu_dismiss(self->warp, EMU_ALL_LANES);
}

void emu_wgmma_wait(int pending, const char *file, int line)
{
    emu_fiber *self = emu_self;
    emu_warp *warp = self->warp;
    const emu_visit meeting = {.collective = EMU_WGMMA_WAIT,
                               .mask = EMU_ALL_LANES,
                               .detail = pending,
                               .place = {file, line, EMU_CALLER}};
    if (!emu_meet(self, &meeting))
        return;
    warp->product_clock++;
    while (warp->products && warp->products->group + (uint32_t)pending < warp->product_group) {
        emu_product *product = warp->products;
        multiply(product);
        visit_operands(product, land_chunk, NULL);
        warp->products = product->next;
        free(product);
    }
    for (int lane = 0; lane < EMU_LANES; lane++)
        emu_knowledge_learn(&self->machine->vectors, &warp->lanes[lane].knowledge,
                            emu_product_engine(warp), warp->product_clock);
    emu_dismiss(warp, EMU_ALL_LANES);
}

void emu_products_end(emu_warp *warp)
{
    while (warp->products) {
        emu_product *product = warp->products;
        warp->products = product->next;
        free(product);
    }
}

/* Sums that are being computed are in the thread's own memory: its stack. */
void emu_check_sums(emu_fiber *self, const void *memory, uintptr_t pc)
{
    for (const emu_product *product = self->warp->products; product; product = product->next) {
        const float *sums = product->sums[self->lane];
        if ((const float *)memory < sums || (const float *)memory >= sums + product->columns / 2)
            continue;
        char text[96];
        emu_describe_thread(self, text);
        emu_fail(self->machine,
                 "unfinished wgmma: %s touches sums (\001%c) of a product (\001%c) that has not "
                 "been waited for",
                 text, emu_place_mark(emu_add_place(self->machine, pc)),
                 emu_place_mark(emu_add_place(self->machine, product->pc)));
    }
}
