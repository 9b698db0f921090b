/* run.h: runs a fuzzed problem on memory that is exactly as large as it may touch. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

#include "stream.h"

#include "flashcore.h"

#include <stdio.h>
#include <stdlib.h>

/* A broken promise ends the run as a sanitizer report would. */
#define FUZZ_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\nlast error: %s\n", __FILE__, __LINE__, #condition, \
                    fc_last_error());                                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A known status, with a sentence when it is a refusal. */
static inline void fuzz_check_status(fc_status status)
{
    FUZZ_REQUIRE(fc_status_name(status) && fc_status_text(status));
    FUZZ_REQUIRE(status == FC_OK || fc_last_error()[0]);
}

/* Forward, forward once more, fc_attend and backward; nothing for what is too large to be quick.
 * The rest of the stream fills index arrays and data, and sometimes spoils a pointer. */
void fuzz_run(fuzz_stream *in, fc_context *context, const fc_attention *problem,
              const fc_plan *plan);

#endif
