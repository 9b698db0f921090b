/* cases.h: the one list of attention problems that every backend is held to.
 *
 * A case is a problem with everything the harness (lab/check.h) needs to make its data: lengths of
 * the sequences, kind of values, kind of mask, layout. The library's strides are already in the
 * problem. The list is built on first use; call case_count once before threads share it. */
#ifndef FC_TESTS_CASES_H
#define FC_TESTS_CASES_H

#include "flashcore.h"

#include <stdbool.h>

typedef enum case_values {
    CASE_NORMAL, /* unit normal, cut off at ±3.9 so that rounding an f16 stays below 1e-3 */
    CASE_HUGE,   /* logits up to about ±1e4 */
    CASE_LOW,    /* every logit near -120: exp underflows in FP32 unless the maximum is taken off */
    CASE_HIGH,   /* every logit near +120: exp overflows likewise */
    CASE_RISING, /* logits rise along the keys, until the last leave the first far behind */
    CASE_SUBNORMAL, /* q, k and v below the smallest normal number of their type */
    CASE_CONSTANT,  /* all elements equal */
    CASE_ONE_HOT,   /* unit vectors: each row picks the keys with its own */
    CASE_OFFSET,    /* unit normal around a large mean */
    CASE_COARSE,  /* unit normal, the keys multiples of 1/2: most types can add 4 to them exactly */
    CASE_HEAVY,   /* heavy-tailed: one element in a hundred is beyond ±10, up to ±200 */
    CASE_NAN_KEY, /* one NaN in the middle key of sequence 0, KV head 0 */
    CASE_NAN_VALUE,
    CASE_INF_VALUE
} case_values;

typedef enum case_mask {
    CASE_MASK_RANDOM,  /* three of four keys shown */
    CASE_MASK_LEADING, /* the first third of the rows sees nothing, the others all */
    CASE_MASK_TRAILING,
    CASE_MASK_ALL,
    CASE_MASK_KEYS /* the second half of the keys is hidden from all rows */
} case_mask;

typedef enum case_layout {
    CASE_DENSE,    /* the library's default: strides 0 */
    CASE_SWAPPED,  /* heads and rows the other way round: BSHD for BHSD */
    CASE_PADDED,   /* gaps after rows, heads and batches; pointers aligned to one element only */
    CASE_QKV,      /* rows of q, k and v side by side, in one allocation where their sizes allow */
    CASE_REVERSED, /* inputs with negative strides */
    CASE_REPEATED, /* inputs with zero strides: K and V shared by batch and heads */
    CASE_SPREAD    /* neighbours along the dim are two elements apart */
} case_layout;

enum { CASE_LENGTHS = 4, CASE_NAME_BYTES = 192 };

typedef struct fc_case {
    char name[CASE_NAME_BYTES];
    const char *group;
    fc_attention problem;
    uint64_t seed;
    /* Sequence b has lengths [b % CASE_LENGTHS]: where the problem lets lengths differ. */
    int64_t q_lengths[CASE_LENGTHS];
    int64_t kv_lengths[CASE_LENGTHS];
    case_values values;
    case_mask mask;
    case_layout layout;
    bool backward;     /* check the gradients too */
    bool without_lse;  /* the caller asks for no LSE */
    bool with_scales;  /* FP8 tensors bring scales */
    bool shares_pages; /* the first page of every sequence is the same one */
} fc_case;

size_t case_count(void);
void case_get(size_t index, fc_case *out);

/* A case of unit normal values around any problem, e.g. to check a shape before timing it. All
 * sequences have the problem's own lengths. */
void case_from_problem(const fc_attention *problem, fc_case *out);

/* A case that no list has. Everything about it follows from its number; its name begins with
 * CASE_RANDOM and the number. */
#define CASE_RANDOM "random-"
void case_random(uint64_t number, fc_case *out);

/* How many pairs of features the library refuses as contradictory, which are not in the list. */
size_t case_contradictions(void);

#endif
