/* plans.h: contexts, plans and CPU workspaces that are kept from call to call. All of it may be
 * used from any thread, with or without Python's lock. */
#ifndef FLASHCORE_PLANS_H
#define FLASHCORE_PLANS_H

#include "dlpack.h"
#include "flashcore.h"

#include <stdbool.h>

/* The context of a device, made at its first use. */
fc_status context_of(dl_device device, fc_context **context);

typedef struct cached_plan {
    fc_attention problem;
    dl_device device;
    fc_plan *plan;
    int users;
    bool in_cache;
} cached_plan;

/* Taken plans stay alive until they are released, in the cache or not. plan_find gives NULL for
 * what is not there yet; plan_take makes it, which may take a while. */
cached_plan *plan_find(dl_device device, const fc_attention *problem);
fc_status plan_take(dl_device device, const fc_attention *problem, cached_plan **taken);
void plan_release(cached_plan *taken);

/* Host memory for one run on the CPU; blocks are kept for the next. NULL: no memory. */
typedef struct workspace {
    struct workspace *next;
    void *memory;
    size_t bytes;
} workspace;

workspace *workspace_take(size_t bytes);
void workspace_release(workspace *taken);

int plans_prepare(void); /* once, when the module is made */

#endif
