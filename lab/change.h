/* change.h: a case's inputs changed where they lie. What a kernel gives for the changed inputs is
 * known without computing it, so that one which answers from memory, by the pointers or the shape
 * it has seen before, gives itself away. */
#ifndef LAB_CHANGE_H
#define LAB_CHANGE_H

#include "tensors.h"

typedef enum lab_change {
    LAB_DOUBLE_V,    /* out doubles to the bit, lse stays: the output is linear in V */
    LAB_REVERSE_KEYS /* the last key and its value come first: out and lse stay, but for rounding */
} lab_change;

/* Whether that holds for the case, and can be undone without loss. */
bool lab_change_applies(const lab_tensors *tensors, lab_change change);

/* In the image and in the device's memory. */
fc_status lab_change_make(lab_tensors *tensors, lab_change change);
fc_status lab_change_undo(lab_tensors *tensors, lab_change change);

#endif
