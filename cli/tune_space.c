/* tune_space.c: the choices of every kernel, and their combinations. */
#include "cuda/rebuild.h"
#include "output.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the tuner tries, by file below src/cuda. Values that the kernel cannot be built with fall
 * out at its static_asserts. */
static const struct {
    const char *file;
    const char *axes;
} spaces[] = {
    {"sm80/prefill.cu",
     "WARPS=4,8 ROW_GROUPS=1,2 KV_TILE=32,64,128 STAGES=2,3 RESIDENT_BLOCKS=1,2"},
    {"sm80/latency.cu", "WARPS=4,8 TEAM_WARPS=1,2 ROW_GROUPS=1,2 WARP_KEYS=32,64,128 "
                        "SLOT_KEYS=16,32,64 SLOTS=2,3,5 RESIDENT_BLOCKS=1,2"},
    {"sm90/prefill.cu",
     "KV_TILE=64,80,96,128,176,192 CONSUMERS=2,3 STAGES=2,3 PING_PONG=0,1 STAGED_PANELS=1,2"},
    {"sm90/latency.cu", "KV_TILE=64,128,256 GROUP_KEYS=16,32,64 PIECE=64,128 STAGES=1,2,3"},
    {"ladder/registers.cu", "KV_TILE=32,64,128"},
    {"ladder/double_buffer.cu", "KV_TILE=32,64,128"},
    {"ladder/three_stages.cu", "KV_TILE=32,64,128 STAGES=2,3,4"},
    {"ladder/swizzle.cu", "KV_TILE=32,64,128 STAGES=2,3,4"},
    {"ladder/specialised.cu", "KV_TILE=32,64 STAGES=2,3,4 PRODUCER_WARPS=1,2"},
    {"ladder/persistent.cu", "KV_TILE=32,64 STAGES=2,3,4 PRODUCER_WARPS=1,2"},
};

jit_source tune_own_source(const tune_search *search)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(search->variant);
    return (jit_source){.name = search->source ? variant->file : NULL, .text = search->source};
}

/* 1. Axes. */

static bool add_value(tune_axis *axis, const char *text, size_t length)
{
    if (axis->count == TUNE_MOST_VALUES || length == 0 || length >= sizeof axis->values[0])
        return cli_refuse("%s has more than %d values, or one without characters", axis->name,
                          TUNE_MOST_VALUES);
    snprintf(axis->values[axis->count++], sizeof axis->values[0], "%.*s", (int)length, text);
    return true;
}

/* "KV_TILE=32,64" */
static bool add_axis(tune_search *search, const char *word, size_t length)
{
    const size_t name = strcspn(word, "=");
    tune_axis *axis = &search->axes[search->axis_count];
    if (name >= length || name >= sizeof axis->name || search->axis_count == TUNE_MOST_AXES)
        return cli_refuse("--macro: '%.*s' is not NAME=VALUE,VALUE, or there are more than %d",
                          (int)length, word, TUNE_MOST_AXES);
    snprintf(axis->name, sizeof axis->name, "%.*s", (int)name, word);
    search->axis_count++;
    for (size_t at = name + 1; at <= length;) {
        const size_t value = strcspn(word + at, ", ");
        if (!add_value(axis, word + at, value))
            return false;
        at += value + 1;
    }
    return true;
}

static bool add_axes(tune_search *search, const char *words)
{
    while (*words != '\0') {
        const size_t length = strcspn(words, " ");
        if (!add_axis(search, words, length))
            return false;
        words += length + strspn(words + length, " ");
    }
    return true;
}

static bool add_kernel_axes(tune_search *search)
{
    const fc_cuda_variant *variant = fc_cuda_find_variant(search->variant);
    const char *axes = search->arguments->macro;
    const jit_source own = tune_own_source(search);
    for (size_t i = 0; axes == NULL && i < sizeof spaces / sizeof spaces[0]; i++)
        if (strcmp(spaces[i].file, variant->file) == 0)
            axes = spaces[i].axes;
    if (axes == NULL)
        return cli_refuse("no choices are listed for %s; name them: --macro 'KV_TILE=32,64 "
                          "STAGES=2,3'",
                          variant->file);
    if (!add_axes(search, axes))
        return false;
    for (int i = 0; i < search->axis_count; i++)
        if (!fc_rebuild_knows(variant, search->axes[i].name, &own))
            return cli_refuse("%s has no macro %s with a default",
                              search->source ? search->arguments->source_path : variant->file,
                              search->axes[i].name);
    return true;
}

/* On a CPU: which kernel, with how many threads. */
static bool add_cpu_axes(tune_search *search)
{
    tune_axis *kernels = &search->axes[search->axis_count++];
    tune_axis *threads = &search->axes[search->axis_count++];
    snprintf(kernels->name, sizeof kernels->name, "kernel");
    snprintf(threads->name, sizeof threads->name, "threads");
    for (int i = 0; i < search->kernel_count; i++)
        add_value(kernels, search->kernels[i], strlen(search->kernels[i]));
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (long count = 1; count <= online;
         count = count < online && 2 * count > online ? online : 2 * count) {
        char text[24];
        add_value(threads, text, (size_t)snprintf(text, sizeof text, "%ld", count));
    }
    return kernels->count > 0 || cli_refuse("no CPU kernel accepts the problem");
}

/* 2. Combinations. */

static void describe(const tune_search *search, tune_candidate *candidate)
{
    size_t used = 0;
    for (int axis = 0; axis < search->axis_count; axis++)
        used += (size_t)snprintf(candidate->text + used, sizeof candidate->text - used, "%s%s=%s",
                                 axis > 0 ? " " : "", search->axes[axis].name,
                                 search->axes[axis].values[candidate->choice[axis]]);
}

bool tune_make_candidates(tune_search *search)
{
    if (!(search->mode == TUNE_CPU ? add_cpu_axes(search) : add_kernel_axes(search)))
        return false;
    int combinations = 1;
    for (int axis = 0; axis < search->axis_count; axis++)
        combinations *= search->axes[axis].count;
    search->candidates = cli_allocate((size_t)(combinations + 1) * sizeof *search->candidates);
    search->count = combinations + 1;
    for (int axis = 0; axis < search->axis_count; axis++)
        search->candidates[0].choice[axis] = -1;
    for (int i = 0; i < combinations; i++) {
        tune_candidate *candidate = &search->candidates[i + 1];
        for (int axis = 0, rest = i; axis < search->axis_count; axis++) {
            candidate->choice[axis] = rest % search->axes[axis].count;
            rest /= search->axes[axis].count;
        }
        describe(search, candidate);
    }
    return true;
}
