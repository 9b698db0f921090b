/* tuned.h: macros that the tuner found better than those of variants.txt, for a GPU and a kind of
 * problem, from the file that FLASHCORE_TUNED names when the context is made. Rows:
 *
 *     NVIDIA L4 | sm80_prefill_d64_f16 | bh64 q2048 kv2048 causal | KV_TILE=32 STAGES=3 | remarks
 *
 * A plan whose row is there uses the variant with these macros, compiled at run time or taken from
 * the cache; without the variable nothing is looked up. */
#ifndef FC_CUDA_TUNED_H
#define FC_CUDA_TUNED_H

#include "cuda/device.h"
#include "cuda/rebuild.h"

/* Problems that are tuned as one: sequences times query heads, and both lengths, each rounded up to
 * a power of two; whether a window hides keys. */
enum { FC_BUCKET_BYTES = 96 };
void fc_tuned_bucket(const fc_attention *problem, char bucket[FC_BUCKET_BYTES]);

/* The file's text, or NULL where the environment names none. */
fc_status fc_tuned_read(char **text);

/* The macros of the last row that fits, or "". Any text may be given: what is no row fits nothing.
 */
void fc_tuned_find(const char *text, const char *device, const char *variant, const char *bucket,
                   char macros[FC_MACROS_BYTES]);

/* A variant's kernel of its own name, tuned where the problem's row is there. */
fc_status fc_tuned_function(fc_cuda_device *device, const fc_cuda_variant *variant,
                            const fc_attention *problem, const fc_cuda_function **function);

#endif
