/* rebuild.h: a kernel of the library with other macros, compiled at run time from the very source
 * the library was built from. */
#ifndef LAB_REBUILD_H
#define LAB_REBUILD_H

#include "flashcore.h"

#include <stdbool.h>

/* Whether a variant's source has a default for the macro, which says that it can be changed. */
bool rebuild_knows(const char *variant_name, const char *macro);

/* Compiles the variant with "NAME=VALUE" added to its macros, or put in their place, and uses it in
 * all plans of this context from now on; there may be none yet. The cache makes the second time
 * cheap. */
fc_status rebuild_variant(fc_context *context, const char *variant_name, const char *macro);

#endif
