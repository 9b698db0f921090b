/* change.h: a case's inputs changed where they lie. What a kernel gives for the changed inputs is
 * known without computing it, so that one which answers from memory, by the pointers or the shape
 * it has seen before, gives itself away. */
#ifndef LAB_CHANGE_H
#define LAB_CHANGE_H

#include "tensors.h"

typedef enum lab_change {
    LAB_DOUBLE_V,    /* out doubles to the bit, lse stays: the output is linear in V */
    LAB_SHIFT_KEYS,  /* every key grows by the same vector: a row's scores all grow by the same, and
                        out stays, but for rounding */
    LAB_REVERSE_KEYS /* the last key and its value come first: out and lse stay, but for rounding */
} lab_change;

/* What LAB_SHIFT_KEYS adds to every element of a key. Multiples of 1/2 up to 4 take it exactly in
 * every type of 16 bits; a score moves by a few units up or down, row by row. */
enum { LAB_KEY_SHIFT = 4 };

/* Whether that holds for the case, and can be undone without loss. */
bool lab_change_applies(const lab_tensors *tensors, lab_change change);

/* In the image and in the device's memory. */
fc_status lab_change_make(lab_tensors *tensors, lab_change change);
fc_status lab_change_undo(lab_tensors *tensors, lab_change change);

#endif
