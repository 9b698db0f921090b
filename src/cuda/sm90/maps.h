/* maps.h: the tensor maps through which the sm_90 kernels read q, k and v and write out. */
#ifndef FC_SM90_MAPS_H
#define FC_SM90_MAPS_H

#include "cuda/attention.h"
#include "cuda/driver.h"
#include "cuda/sm90/sm90_args.h"

/* Whether the strides of q, k and v are such that maps can be made. */
bool fc_sm90_has_maps(const fc_attention *p);

/* Whether out can have one too, in boxes of 16 packed rows. */
bool fc_sm90_out_has_map(const fc_attention *p, int packed_heads);

/* Whether there is anything to compute and to map: no axis of a map is empty. */
bool fc_sm90_has_rows(const fc_attention *p);

/* Maps without addresses; none where there are no rows. A box of q has 64 packed rows
 * (args->attention says how many heads share them), one of k and v kv_box_rows. heads_first: the
 * heads of q and out come before their rows. */
fc_status fc_sm90_make_maps(const fc_plan *plan, bool heads_first, int kv_box_rows,
                            sm90_args *args);

fc_status fc_sm90_place_maps(sm90_args *args, const fc_buffers *b);

#endif
