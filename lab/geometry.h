/* geometry.h: which buffers a case has and how large they are.
 *
 * The meaning of strides, packing and paging is worked out here a second time, from flashcore.h and
 * not from the library's own code, so that a mistake there shows. */
#ifndef LAB_GEOMETRY_H
#define LAB_GEOMETRY_H

#include "tensors.h"

/* From tensors->of alone: problem, spans and all of buffer but image and memory. */
void lab_geometry_make(lab_tensors *tensors);

int64_t lab_geometry_pages(const fc_attention *problem, int64_t kv_rows);

#endif
