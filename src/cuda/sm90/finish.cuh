/* finish.cuh: the end of a warp's rows: what their sums are multiplied by, LSE, and the way to memory. */
#ifndef FC_SM90_FINISH_CUH
#define FC_SM90_FINISH_CUH

#include "sm80/again.cuh"
#include "sm90/panel.cuh"
#include "sm90/store.cuh"
#include "sm90/weights.cuh"
#include "sm90/work.cuh"

/* Where a warp writes panels of its result for the tensor map. */
typedef element staged_panels[STAGED_PANELS][WARP_ROWS * PANEL_DIMS];

static __device__ __forceinline__ void store_rows(const attention_args *args,
                                                  const sequence_share *share, int warp_row,
                                                  const out_sums out,
                                                  const float factor[LANE_ROWS])
{
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++) {
        const int row = warp_row + lane_row(r);
        if (row < share->rows)
            store_words(row_place(args, share, row), out[0], r, factor[r], OUT_TILES,
                        args->value_dim);
    }
}

/* The same through a tensor map: all panels at a time where there is a place for each, otherwise one
 * after the other. A place is written again when its last store has read it. */
static __device__ __forceinline__ void store_boxes(const sm90_args *args,
                                                   const sequence_share *share,
                                                   staged_panels staged, int warp_row,
                                                   const out_sums out,
                                                   const float factor[LANE_ROWS])
{
    const int panels = PANELS(VALUE_DIM), at_once = panels == STAGED_PANELS ? panels : 1;
    const int batch = map_batch(share, args->attention.cu_q);
    const int row = share->q_first + row_of(&args->attention, warp_row);
#pragma unroll
    for (int first = 0; first < panels; first += at_once) {
        bulk_wait_read(STAGED_PANELS / at_once - 1);
        __syncwarp();
#pragma unroll
        for (int panel = first; panel < first + at_once; panel++)
            write_panel(staged[panel % STAGED_PANELS], &out[0][panel * PANEL_TILES], factor,
                        min(PANEL_TILES, OUT_TILES - panel * PANEL_TILES));
        fence_async();
        __syncwarp();
        if (lane_id() == 0) {
#pragma unroll
            for (int panel = first; panel < first + at_once; panel++)
                tensor_store(&args->out, staged[panel % STAGED_PANELS], panel * PANEL_DIMS,
                             share->head, row, batch);
            bulk_commit();
        }
    }
}

/* Whether a box of rows ends with its sequence, or with the tensor. */
static __device__ __forceinline__ int is_boxed(const sm90_args *args, const sequence_share *share,
                                               int warp_row)
{
    return ALL_KEYS || (args->order.stores_boxes &&
                        (!args->attention.cu_q || warp_row + WARP_ROWS <= share->rows));
}

/* Of the four lanes that share two rows, two store a row's. */
static __device__ __forceinline__ void store_lses(const attention_args *args, const work *w,
                                                  const row_end end[LANE_ROWS])
{
    const int r = lane_id() % 4, row = warp_row_of(w) + lane_row(r);
    if (!args->lse)
        return;
    if (r < LANE_ROWS && row < w->share.rows)
        store_lse(args, &w->share, row, r == 0 ? end[0] : end[1]);
}

/* Ends the rows of the warp but for their values. Rows side by side, and branches that all lanes take:
 * the warp starts no product meanwhile. */
static __device__ __forceinline__ void finish_softmax(const attention_args *args, const work *w,
                                                      const softmax_state *softmax,
                                                      row_end end[LANE_ROWS])
{
    float sum[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; r++)
        sum[r] = quad_sum(softmax->sum[r]);
    if (!ALL_KEYS && args->sinks) {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            end[r] = finish_row(args, softmax->max[r], sum[r],
                                head_of(args, &w->share, warp_row_of(w) + lane_row(r)), 1);
    } else {
#pragma unroll
        for (int r = 0; r < LANE_ROWS; r++)
            end[r] = finish_row(args, softmax->max[r], sum[r], 0, 0);
    }
}

static __device__ __forceinline__ void store(const sm90_args *args, const work *w,
                                             staged_panels staged, const out_sums out,
                                             const row_end end[LANE_ROWS])
{
    const attention_args *a = &args->attention;
    const sequence_share *share = &w->share;
    const int warp_row = warp_row_of(w);
    const float factor[LANE_ROWS] = {end[0].factor, end[1].factor};
    if (is_boxed(args, share, warp_row))
        store_boxes(args, share, staged, warp_row, out, factor);
    else if (!FEATURES || a->more.vector_stores)
        store_rows(a, share, warp_row, out, factor);
    else
        store_rows_by_element(a, share, warp_row, 0, out[0], OUT_TILES, factor, ~0u);
    if (are_finite(out[0], OUT_TILES))
        return;
    bulk_wait(0); /* until the boxes are in memory, where some rows are written again */
    __syncwarp();
    compute_again(a, share, warp_row, out[0], OUT_TILES, 0);
}

#endif
