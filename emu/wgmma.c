/* wgmma.c: products of a warpgroup. Each warp computes its own 16 rows, when it waits for the group
 * that holds the product: until then operands are being read and sums are nobody's.
 *
 * The sums, and the left operand where it is in registers, are arrays on the thread's own stack
 * whose address the kernel gives away: every access to them is seen. */
#include "access.h"
#include "async.h"
#include "device.h"
#include "element.h"
#include "tensor_map.h"

#include <stdlib.h>

enum { MOST_DEPTH = 32, MOST_COLUMNS = 256 }; /* k32 of 8 bits; the widest instruction */
enum { STEP_BYTES = 32, LEFT_REGISTERS = 4 }; /* of the left operand: a row, a lane's part */

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
    int depth, element_bytes;
    uint32_t group;
    bool left_in_registers, accumulates;
    operand left, right;
    const unsigned *left_registers[EMU_LANES];
    unsigned left_values[EMU_LANES][LEFT_REGISTERS]; /* what they held at the start */
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

/* The 16 bytes from element (row, k) on, or where rows run across the sum from (k, row) on: there
 * elements have two bytes. */
static uint32_t chunk_address(const operand *o, int row, int k, int element_bytes)
{
    const uint32_t width = o->swizzle_bytes ? (uint32_t)o->swizzle_bytes : 16;
    const uint32_t r = (uint32_t)row, c = (uint32_t)k, byte = c * (uint32_t)element_bytes;
    uint32_t address = o->address;
    if (!o->across)
        address += r / 8 * o->stride_bytes + r % 8 * width +
                   (o->swizzle_bytes ? byte : byte / 16 * o->leading_bytes);
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
    return product->by->block->shared +
           (int32_t)(chunk_address(o, row, k, product->element_bytes) - EMU_SHARED_BASE);
}

static void visit_chunks(const emu_product *product, const operand *o, int first, int end,
                         chunk_visitor *visit, void *user)
{
    const int row_step = o->across ? 8 : 1, k_step = o->across ? 1 : 16 / product->element_bytes;
    for (int row = first; row < end; row += row_step)
        for (int k = 0; k < product->depth; k += k_step)
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
    const unsigned *left;
} wgmma_visit;

static bool is_within(const void *memory, const void *array, size_t bytes)
{
    return (uintptr_t)memory - (uintptr_t)array < bytes;
}

static bool is_touched(const emu_fiber *fiber, const void *memory, size_t bytes)
{
    if (!is_within(memory, fiber->stack, EMU_STACK_BYTES))
        return false;
    const size_t first = (size_t)((uintptr_t)memory - (uintptr_t)fiber->stack) / EMU_WORD_BYTES;
    for (size_t word = first; word < first + bytes / EMU_WORD_BYTES; word++)
        if (fiber->registers.touched[word / 32] >> word % 32 & 1)
            return true;
    return false;
}

/* A fence must stand between the last access of a thread to registers and the product that uses
 * them, and before the first product of all. */
static void check_fence(emu_fiber *fiber, const emu_product *product)
{
    const float *sums = product->sums[fiber->lane];
    const unsigned *left = product->left_registers[fiber->lane];
    const bool sums_touched = is_touched(fiber, sums, (size_t)product->columns / 2 * sizeof *sums);
    if (fiber->registers.fenced && !sums_touched &&
        !(left && is_touched(fiber, left, LEFT_REGISTERS * sizeof *left)))
        return;
    char text[96];
    emu_describe_thread(fiber, text);
    const char here = emu_place_mark(emu_add_place(fiber->machine, product->pc));
    if (!fiber->registers.fenced)
        emu_fail(fiber->machine,
                 "missing wgmma_fence: %s multiplies (\001%c) without one before the first product",
                 text, here);
    emu_fail(fiber->machine,
             "missing wgmma_fence: %s multiplies (\001%c) with %s in registers that it touched "
             "after the last fence",
             text, here, sums_touched ? "sums" : "a left operand");
}

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
    for (int lane = 0; lane < EMU_LANES; lane++)
        check_fence(&self->warp->lanes[lane], product);
    visit_operands(product, check_chunk, NULL);
    emu_totals *totals = &self->machine->counts.totals;
    *(product->element_bytes == 2 ? &totals->wgmma_products : &totals->wgmma8_products) +=
        (uint64_t)16 * (uint64_t)product->depth * (uint64_t)product->columns;
}

void emu_wgmma(int type, int columns, float *sums, const unsigned *left_registers, uint64_t left,
               uint64_t right, int accumulates, const char *file, int line)
{
    emu_fiber *self = emu_self;
    const int element_bytes = emu_element_bytes(type);
    wgmma_visit visit = {.sums = sums, .left = left_registers};
    const emu_visit meeting = {.collective = EMU_WGMMA,
                               .mask = EMU_ALL_LANES,
                               .detail = columns * 2 + (left_registers != NULL),
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
        .depth = STEP_BYTES / element_bytes,
        .element_bytes = element_bytes,
        .group = self->warp->product_group,
        .left_in_registers = left_registers != NULL,
        .accumulates = accumulates,
        .left = decode(left, false),
        .right = decode(right, left_registers && element_bytes == 2),
        .by = self,
        .pc = EMU_CALLER,
    };
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const wgmma_visit *of = emu_arguments(self->warp, lane);
        product->sums[lane] = of->sums;
        product->left_registers[lane] = of->left;
        if (of->left)
            memcpy(product->left_values[lane], of->left, sizeof product->left_values[lane]);
    }
    enqueue(self, product);
    emu_dismiss(self->warp, EMU_ALL_LANES);
}

/* 3. Completing. */

/* `packed` elements in a register, as of a warp's own products: matrix.c. */
static void read_left(const emu_product *product, float left[16][MOST_DEPTH])
{
    const int packed = 4 / product->element_bytes, chunk = 4 * packed;
    float values[16];
    for (int lane = 0; product->left_in_registers && lane < EMU_LANES; lane++) {
        emu_widen(product->type, product->left_values[lane], values, chunk);
        for (int i = 0; i < chunk; i++)
            left[lane / 4 + i / packed % 2 * 8]
                [lane % 4 * packed + i % packed + i / packed / 2 * 4 * packed] = values[i];
    }
    for (int row = 0; !product->left_in_registers && row < 16; row++)
        for (int k = 0; k < product->depth; k += chunk)
            emu_widen(product->type, chunk_at(product, &product->left, first_row(product) + row, k),
                      &left[row][k], chunk);
}

static void read_right(const emu_product *product, float right[MOST_DEPTH][MOST_COLUMNS])
{
    const bool across = product->right.across;
    const int chunk = 16 / product->element_bytes;
    for (int column = 0; column < product->columns; column += across ? chunk : 1)
        for (int k = 0; k < product->depth; k += across ? 1 : chunk) {
            float values[16];
            emu_widen(product->type, chunk_at(product, &product->right, column, k), values, chunk);
            for (int i = 0; i < chunk; i++)
                right[across ? k : k + i][across ? column + i : column] = values[i];
        }
}

static float *sum_at(const emu_product *product, int row, int column)
{
    return &product->sums[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
}

/* A row at a time, and its columns side by side: a compiler makes vectors of them. */
static void multiply(const emu_product *product)
{
    float left[16][MOST_DEPTH], right[MOST_DEPTH][MOST_COLUMNS];
    read_left(product, left);
    read_right(product, right);
    const int columns = product->columns;
    for (int row = 0; row < 16; row++) {
        double sums[MOST_COLUMNS];
        for (int column = 0; column < columns; column++)
            sums[column] = product->accumulates ? *sum_at(product, row, column) : 0.0f;
        for (int k = 0; k < product->depth; k++)
            for (int column = 0; column < columns; column++)
                sums[column] += (double)left[row][k] * right[k][column];
        for (int column = 0; column < columns; column++)
            *sum_at(product, row, column) = emu_cut(sums[column]);
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
    emu_fiber *self = emu_self;
    const emu_visit meeting = {
        .collective = EMU_WGMMA_FENCE, .mask = EMU_ALL_LANES, .place = {file, line, EMU_CALLER}};
    if (!emu_meet(self, &meeting))
        return;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        emu_registers *registers = &self->warp->lanes[lane].registers;
        memset(registers->touched, 0, sizeof registers->touched);
        registers->fenced = true;
    }
    emu_dismiss(self->warp, EMU_ALL_LANES);
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

/* 4. Registers. */

static void check_in_flight(emu_fiber *self, const void *memory, uintptr_t pc)
{
    for (const emu_product *product = self->warp->products; product; product = product->next) {
        const bool sums = is_within(memory, product->sums[self->lane],
                                    (size_t)product->columns / 2 * sizeof(float));
        if (!sums &&
            !(product->left_in_registers && is_within(memory, product->left_registers[self->lane],
                                                      LEFT_REGISTERS * sizeof(unsigned))))
            continue;
        char text[96];
        emu_describe_thread(self, text);
        emu_fail(self->machine,
                 "unfinished wgmma: %s touches %s (\001%c) of a product (\001%c) that has not "
                 "been waited for",
                 text, sums ? "sums" : "the left operand",
                 emu_place_mark(emu_add_place(self->machine, pc)),
                 emu_place_mark(emu_add_place(self->machine, product->pc)));
    }
}

void emu_touch_registers(emu_fiber *self, const void *memory, unsigned bytes, uintptr_t pc)
{
    if (self->warp->products)
        check_in_flight(self, memory, pc);
    const size_t first = (size_t)((uintptr_t)memory - (uintptr_t)self->stack) / EMU_WORD_BYTES;
    for (size_t word = first; word <= first + (bytes - 1) / EMU_WORD_BYTES; word++)
        self->registers.touched[word / 32] |= 1u << word % 32;
}
