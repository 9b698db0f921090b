/* cache.h: compiled kernels kept between runs, each in a file named by its signature. */
#ifndef FC_JIT_CACHE_H
#define FC_JIT_CACHE_H

#include "jit/jit.h"

/* The directory, made where it is missing: $FLASHCORE_CACHE, $XDG_CACHE_HOME/flashcore or
 * $HOME/.cache/flashcore. What is loaded will run, so that a directory which another user owns or
 * may write to is refused. */
fc_status jit_cache_open(int *directory);
void jit_cache_close(int directory);

/* Looks kernel->signature up and fills in the binary and the log. False where there is none, or
 * none that is whole and has this signature. */
bool jit_cache_load(int directory, jit_kernel *kernel);

/* Replaces whatever is there in one step: another process sees the old file or the new one. What
 * killed writers left in the directory long ago goes. */
fc_status jit_cache_store(int directory, const jit_kernel *kernel);

#endif
