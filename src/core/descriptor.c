/* descriptor.c: reading the structs of callers that were compiled with this header or an older one.
 *
 * A struct only ever grows at its end. Each size that was ever released stays in its list below;
 * the fields an older caller does not know of keep their default, zero. */
#include "core/internal.h"

static const size_t options_bytes[] = {48, 0};
static const size_t attention_bytes[] = {656, 0};
static const size_t buffers_bytes[] = {168, 0};
static const size_t gradients_bytes[] = {56, 0};

_Static_assert(sizeof(fc_context_options) == 48, "append the new size to options_bytes");
_Static_assert(sizeof(fc_attention) == 656, "append the new size to attention_bytes");
_Static_assert(sizeof(fc_buffers) == 168, "append the new size to buffers_bytes");
_Static_assert(sizeof(fc_gradients) == 56, "append the new size to gradients_bytes");

/* The plan cache compares descriptors byte by byte, so they must not have holes. */
_Static_assert(sizeof(fc_attention) == 72 * sizeof(int64_t) + 20 * sizeof(int32_t),
               "fc_attention has padding");

fc_status fc_read_struct(const char *name, const void *theirs, const size_t *known_bytes,
                         void *ours, size_t our_bytes)
{
    FC_REQUIRE(theirs, "%s is NULL", name);
    size_t their_bytes;
    memcpy(&their_bytes, theirs, sizeof their_bytes);
    const size_t *known = known_bytes;
    while (*known && *known != their_bytes)
        known++;
    FC_REQUIRE(*known,
               "%s.struct_size = %zu is not known to FlashCore %s (its own: %zu); "
               "start from %s_init()",
               name, their_bytes, fc_version(), our_bytes, name);
    memset(ours, 0, our_bytes);
    memcpy(ours, theirs, their_bytes);
    memcpy(ours, &our_bytes, sizeof our_bytes);
    return FC_OK;
}

fc_status fc_read_options(const fc_context_options *theirs, fc_context_options *ours)
{
    return fc_read_struct("fc_context_options", theirs, options_bytes, ours, sizeof *ours);
}

fc_status fc_read_attention(const fc_attention *theirs, fc_attention *ours)
{
    return fc_read_struct("fc_attention", theirs, attention_bytes, ours, sizeof *ours);
}

fc_status fc_read_buffers(const fc_buffers *theirs, fc_buffers *ours)
{
    return fc_read_struct("fc_buffers", theirs, buffers_bytes, ours, sizeof *ours);
}

fc_status fc_read_gradients(const fc_gradients *theirs, fc_gradients *ours)
{
    return fc_read_struct("fc_gradients", theirs, gradients_bytes, ours, sizeof *ours);
}
