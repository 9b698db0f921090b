/* case_draft.h: a case while it is put together. Features edit a draft in any order; what depends
 * on the final sizes (strides, rows of packed tensors, pages) is worked out at the end. */
#ifndef FC_TESTS_CASE_DRAFT_H
#define FC_TESTS_CASE_DRAFT_H

#include "cases.h"

enum { DRAFT_BATCH = 1, DRAFT_HEAD = 2, DRAFT_ROW = 4 };

typedef struct case_draft {
    fc_case c;
    int bias_axes; /* which of batch, head and row the bias differs along */
    int mask_axes;
    int scale_axes; /* of FP8 scales: DRAFT_ROW for blocks of scale_block_rows rows */
    int64_t scale_block_rows;
    bool alibi_per_batch;
    bool has_lengths;    /* the case's lengths are there: else they are made of the problem's */
    int64_t unused_rows; /* at the end of packed tensors, belonging to no sequence */
} case_draft;

/* A dense f16 problem with unit normal values. */
case_draft draft_make(const char *group, int64_t batch, int64_t heads, int64_t q_length,
                      int64_t kv_length, int64_t head_dim);

/* Appends "-text" to the case's name, or "text" to an empty one. */
void draft_name(case_draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));

void draft_finish(case_draft *draft);

/* Finishes a draft and appends it to the list. */
void case_add(case_draft *draft);

/* Whether the library refuses such a problem because it contradicts itself. */
bool case_is_contradictory(const fc_attention *problem);

/* Parts of the list: case_shapes.c, case_kinds.c. */
void case_add_shapes(void);
void case_add_kinds(void);

/* One way in which problems differ. Two features of one axis exclude each other. */
typedef struct case_feature {
    const char *axis;
    const char *name;
    void (*apply)(case_draft *draft);
} case_feature;

extern const case_feature case_features[];
extern const size_t case_feature_count;

#endif
