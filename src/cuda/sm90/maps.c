/* maps.c: see maps.h. */
#include "cuda/sm90/maps.h"

enum {
    PANEL_DIMS = 64, /* dims of a box */
    Q_BOX_ROWS = 64,
    OUT_BOX_ROWS = 16,
};

/* A tensor map steps forward, by multiples of 16 bytes below 2^40. */
static bool is_mapped(int64_t stride, int64_t size)
{
    return size <= 1 || (stride > 0 && stride < (int64_t)1 << 38);
}

static bool tensor_is_mapped(fc_strides s, int64_t rows, int64_t heads, int64_t batch)
{
    return is_mapped(s.row, rows) && is_mapped(s.head, heads) && is_mapped(s.batch, batch);
}

/* The tensors as their maps see them: pages take the place of the batch. */
static int64_t rows_of_q(const fc_attention *p)
{
    return p->packed_q ? p->packed_q_rows : p->q_length;
}

static int64_t batch_of_q(const fc_attention *p)
{
    return p->packed_q ? 1 : p->batch;
}

static int64_t rows_of_kv(const fc_attention *p)
{
    return p->packed_kv ? p->packed_kv_rows : p->paged ? p->page_size : p->kv_length;
}

static int64_t batch_of_kv(const fc_attention *p)
{
    return p->packed_kv ? 1 : p->paged ? p->page_count : p->batch;
}

bool fc_sm90_has_maps(const fc_attention *p)
{
    return tensor_is_mapped(p->q_strides, rows_of_q(p), p->q_heads, batch_of_q(p)) &&
           tensor_is_mapped(p->k_strides, rows_of_kv(p), p->kv_heads, batch_of_kv(p)) &&
           tensor_is_mapped(p->v_strides, rows_of_kv(p), p->kv_heads, batch_of_kv(p));
}

bool fc_sm90_out_has_map(const fc_attention *p, int packed_heads)
{
    return fc_cuda_writes_in_chunks(p) && packed_heads <= OUT_BOX_ROWS &&
           tensor_is_mapped(p->out_strides, rows_of_q(p), p->q_heads, batch_of_q(p));
}

bool fc_sm90_has_rows(const fc_attention *p)
{
    return p->batch > 0 && p->q_length > 0 && rows_of_q(p) > 0 && rows_of_kv(p) > 0 &&
           batch_of_kv(p) > 0;
}

/* An axis of a tensor map: its size, what lies between two of it (elements), how many a box has. */
typedef struct map_axis {
    int64_t size, stride;
    int box;
} map_axis;

/* What lies outside of the tensor reads as 0. The address comes with the call. */
static fc_status make_map(tensor_map *map, fc_type type, int64_t dims, const map_axis axes[3])
{
    enum { ELEMENT_BYTES = 2, ANY_ADDRESS = 16, NO_STEP = 16 };
    cuuint64_t sizes[4] = {(cuuint64_t)dims}, steps[3];
    cuuint32_t box[4] = {PANEL_DIMS};
    for (int i = 0; i < 3; i++) {
        sizes[i + 1] = (cuuint64_t)axes[i].size;
        steps[i] = axes[i].size > 1 ? (cuuint64_t)axes[i].stride * ELEMENT_BYTES : NO_STEP;
        box[i + 1] = (cuuint32_t)axes[i].box;
    }
    const cuuint32_t element_steps[] = {1, 1, 1, 1};
    return fc_cuda_check(
        fc_cuda()->tensor_map_encode(
            map,
            type == FC_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
            (void *)(uintptr_t)ANY_ADDRESS, sizes, steps, box, element_steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "making a tensor map");
}

/* Of q or out. Where query heads share a tile, neighbouring rows of a box are of neighbouring
 * heads. */
static fc_status make_q_map(tensor_map *map, const fc_attention *p, int64_t dims,
                            fc_strides strides, int box_rows, int packed_heads, bool heads_first)
{
    const map_axis rows = {rows_of_q(p), strides.row, box_rows / packed_heads};
    const map_axis heads = {p->q_heads, strides.head, packed_heads};
    const map_axis batch = {batch_of_q(p), strides.batch, 1};
    const map_axis axes[] = {heads_first ? heads : rows, heads_first ? rows : heads, batch};
    return make_map(map, p->q_type, dims, axes);
}

static fc_status make_kv_map(tensor_map *map, const fc_attention *p, int64_t dims,
                             fc_strides strides, int box_rows)
{
    const map_axis axes[] = {{rows_of_kv(p), strides.row, box_rows},
                             {p->kv_heads, strides.head, 1},
                             {batch_of_kv(p), strides.batch, 1}};
    return make_map(map, p->q_type, dims, axes);
}

static fc_status make_maps(const fc_attention *p, bool heads_first, int kv_box_rows,
                           sm90_args *args)
{
    const int packed = args->attention.packed_heads.divisor;
    FC_TRY(make_q_map(&args->q, p, p->head_dim, p->q_strides, Q_BOX_ROWS, packed, heads_first));
    if (args->order.stores_boxes)
        FC_TRY(make_q_map(&args->out, p, p->value_dim, p->out_strides, OUT_BOX_ROWS, packed,
                          heads_first));
    FC_TRY(make_kv_map(&args->k, p, p->head_dim, p->k_strides, kv_box_rows));
    return make_kv_map(&args->v, p, p->value_dim, p->v_strides, kv_box_rows);
}

fc_status fc_sm90_make_maps(const fc_plan *plan, bool heads_first, int kv_box_rows, sm90_args *args)
{
    bool pushed;
    if (!fc_sm90_has_rows(&plan->problem))
        return FC_OK;
    FC_TRY(fc_cuda_enter(plan->context->cuda, &pushed));
    const fc_status status = make_maps(&plan->problem, heads_first, kv_box_rows, args);
    fc_cuda_leave(pushed);
    return status;
}

fc_status fc_sm90_place_maps(sm90_args *args, const fc_buffers *b)
{
    const fc_cuda_driver *cuda = fc_cuda();
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->q, (void *)(uintptr_t)b->q), "placing q");
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->k, (void *)(uintptr_t)b->k), "placing k");
    FC_CUDA_TRY(cuda->tensor_map_replace(&args->v, (void *)(uintptr_t)b->v), "placing v");
    if (args->order.stores_boxes)
        FC_CUDA_TRY(cuda->tensor_map_replace(&args->out, b->out), "placing out");
    return FC_OK;
}
