/* run.h: one run of a kernel with everything around it watched. */
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "check.h"
#include "tensors.h"

/* What outputs and workspace hold beforehand. The first pattern is finite in every type and far
 * from any result (-65376 in f16, -2.6e36 in bf16 and f32), so that an element which still has it
 * was never written. The second may be a result; an element that was not written shows by
 * differing. */
enum { LAB_FIRST_POISON = 0xFB, LAB_SECOND_POISON = 0xA5 };

/* What a run is given and what it leaves. */
typedef struct lab_run {
    const check_target *target;
    const lab_tensors *tensors;
    fc_context *context;
    uint8_t poison;
    bool each_alone; /* forward only, every sequence by a call of its own with batch = 1 */
    bool forward_only;
    const char *kernel, *backward_kernel;
    fc_status status;                 /* of the first library call that failed */
    uint8_t *image[LAB_TENSOR_COUNT]; /* the outputs afterwards, guards included */
    char reason[1024];                /* what is wrong; "" when nothing is */
} lab_run;

/* False when something is wrong. Either way the images are to be freed. */
bool lab_run_guarded(lab_run *run);
void lab_run_free(lab_run *run);

/* Whether two runs left the same bits in every output both have; or else names an element. */
bool lab_run_same_bits(const lab_run *a, const lab_run *b, char *element, size_t bytes);

#endif
