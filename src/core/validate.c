/* validate.c: is this a problem that makes sense? Every refusal names the field, its value and what
 * was allowed. What lies behind the pointers is checked per call, in buffers.c. */
#include "core/convert.h"
#include "core/internal.h"

#include <math.h>

static int64_t field64(const fc_attention *p, size_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)p + offset, sizeof value);
    return value;
}

static int32_t field32(const fc_attention *p, size_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)p + offset, sizeof value);
    return value;
}

#define AT(field) #field, offsetof(fc_attention, field)

/* Sizes are at most 2^31 - 1, so that kernels may index with 32 bits where that is faster. */
static fc_status check_sizes(const fc_attention *p)
{
    static const struct {
        const char *name;
        size_t offset;
        int64_t least, most;
    } fields[] = {
        {AT(batch), 0, INT32_MAX},          {AT(q_heads), 1, INT32_MAX},
        {AT(kv_heads), 1, INT32_MAX},       {AT(q_length), 0, INT32_MAX},
        {AT(kv_length), 0, INT32_MAX},      {AT(head_dim), 1, FC_MAX_DIM},
        {AT(value_dim), 0, FC_MAX_DIM},     {AT(packed_q_rows), 0, INT32_MAX},
        {AT(packed_kv_rows), 0, INT32_MAX}, {AT(page_size), 0, INT32_MAX},
        {AT(page_count), 0, INT32_MAX},     {AT(page_table_stride), 0, INT32_MAX},
        {AT(window_left), -1, INT32_MAX},   {AT(window_right), -1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const int64_t value = field64(p, fields[i].offset);
        FC_REQUIRE(value >= fields[i].least && value <= fields[i].most,
                   "%s = " I64 " is out of range; allowed: " I64 " to " I64, fields[i].name, value,
                   fields[i].least, fields[i].most);
    }
    FC_REQUIRE(p->q_heads % p->kv_heads == 0, "kv_heads = " I64 " does not divide q_heads = " I64,
               p->kv_heads, p->q_heads);
    return FC_OK;
}

static fc_status check_switches(const fc_attention *p)
{
    static const struct {
        const char *name;
        size_t offset;
    } switches[] = {
        {AT(causal)},           {AT(diagonal)},  {AT(has_window)}, {AT(has_alibi)},
        {AT(has_bias)},         {AT(has_mask)},  {AT(has_sinks)},  {AT(has_kv_lengths)},
        {AT(packed_q)},         {AT(packed_kv)}, {AT(paged)},      {AT(batch_invariant)},
        {AT(dependent_launch)},
    };
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const int32_t value = field32(p, switches[i].offset);
        FC_REQUIRE(value == 0 || value == 1, "%s = %" PRId32 " is not 0 or 1", switches[i].name,
                   value);
    }
    return FC_OK;
}

static fc_status check_types(const fc_attention *p)
{
    static const char *const any = "f32, f16, bf16, e4m3, e5m2 or f64";
    FC_REQUIRE(p->q_type >= FC_F32 && p->q_type <= FC_F64,
               "q_type = %" PRId32 " is no type; allowed: %s", p->q_type, any);
    FC_REQUIRE(p->kv_type >= FC_TYPE_AUTO && p->kv_type <= FC_F64,
               "kv_type = %" PRId32 " is no type; allowed: auto, %s", p->kv_type, any);
    FC_REQUIRE(fc_type_name(p->out_type) && !fc_type_is_f8(p->out_type),
               "out_type = %" PRId32 " is not allowed; allowed: auto, f32, f16, bf16 or f64",
               p->out_type);
    FC_REQUIRE(fc_type_name(p->bias_type) && !fc_type_is_f8(p->bias_type),
               "bias_type = %" PRId32 " is not allowed; allowed: auto, f32, f16, bf16 or f64",
               p->bias_type);
    return FC_OK;
}

static fc_status check_numbers(const fc_attention *p)
{
    FC_REQUIRE(isfinite(p->scale), "scale = %g is not finite", (double)p->scale);
    FC_REQUIRE(isfinite(p->softcap) && p->softcap >= 0,
               "softcap = %g is not allowed; allowed: 0 (off) or a positive number",
               (double)p->softcap);
    FC_REQUIRE(p->dropout_p >= 0 && p->dropout_p < 1,
               "dropout_p = %g is out of range; allowed: 0 <= p < 1", (double)p->dropout_p);
    int64_t heads;
    FC_REQUIRE(p->dropout_p == 0 ||
                   (!__builtin_mul_overflow(p->batch, p->q_heads, &heads) && heads <= UINT32_MAX),
               "dropout numbers batch x q_heads with 32 bits; " I64 " x " I64 " are too many",
               p->batch, p->q_heads);
    return FC_OK;
}

/* A field that only means something together with a switch must be 0 without it: a caller who sets
 * one and forgets the other is told, not ignored. */
static fc_status check_unused_fields(const fc_attention *p)
{
    static const struct {
        const char *name;
        size_t offset;
        const char *switch_name;
        size_t switch_offset;
    } fields[] = {
        {AT(window_left), AT(has_window)},
        {AT(window_right), AT(has_window)},
        {AT(packed_q_rows), AT(packed_q)},
        {AT(packed_kv_rows), AT(packed_kv)},
        {AT(page_size), AT(paged)},
        {AT(page_count), AT(paged)},
        {AT(page_table_stride), AT(paged)},
        {AT(alibi_batch_stride), AT(has_alibi)},
        {AT(bias_strides.batch), AT(has_bias)},
        {AT(bias_strides.head), AT(has_bias)},
        {AT(bias_strides.row), AT(has_bias)},
        {AT(bias_strides.key), AT(has_bias)},
        {AT(mask_strides.batch), AT(has_mask)},
        {AT(mask_strides.head), AT(has_mask)},
        {AT(mask_strides.row), AT(has_mask)},
        {AT(mask_strides.key), AT(has_mask)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const int64_t value = field64(p, fields[i].offset);
        FC_REQUIRE(!value || field32(p, fields[i].switch_offset),
                   "%s = " I64 " is set, but %s is 0", fields[i].name, value,
                   fields[i].switch_name);
    }
    FC_REQUIRE(!p->bias_type || p->has_bias, "bias_type = %s is set, but has_bias is 0",
               fc_type_name(p->bias_type));
    return FC_OK;
}

static fc_status check_combinations(const fc_attention *p)
{
    FC_REQUIRE(!p->causal || p->window_right <= 0,
               "window_right = " I64 " contradicts causal; allowed: 0 or -1", p->window_right);
    FC_REQUIRE(!p->paged || !p->packed_kv, "paged and packed_kv are both set; keys are one or the "
                                           "other");
    FC_REQUIRE(!p->has_kv_lengths || !p->packed_kv,
               "has_kv_lengths and packed_kv are both set; cu_kv already gives the lengths");
    FC_REQUIRE(!p->paged || p->page_size >= 1,
               "page_size = " I64 " of paged keys must be at least "
               "1",
               p->page_size);
    const int64_t pages = p->paged ? (p->kv_length + p->page_size - 1) / p->page_size : 0;
    FC_REQUIRE(!p->page_table_stride || p->page_table_stride >= pages,
               "page_table_stride = " I64 " is less than the " I64 " pages that kv_length = " I64
               " needs with page_size = " I64,
               p->page_table_stride, pages, p->kv_length, p->page_size);
    return FC_OK;
}

static fc_status check_scaling(const char *name, const fc_scaling *s, fc_type type)
{
    const bool set = s->batch || s->head || s->block || s->block_rows;
    FC_REQUIRE(!set || fc_type_is_f8(type),
               "%s is set, but %s elements have no scale; only FP8 "
               "ones do",
               name, fc_type_name(type));
    FC_REQUIRE(s->batch >= 0 && s->head >= 0 && s->block >= 0 && s->block_rows >= 0 &&
                   s->batch <= INT32_MAX && s->head <= INT32_MAX && s->block <= INT32_MAX &&
                   s->block_rows <= INT32_MAX,
               "%s = {" I64 ", " I64 ", " I64 ", " I64 "} is out of range; each: 0 to 2147483647",
               name, s->batch, s->head, s->block, s->block_rows);
    FC_REQUIRE(!s->block == !s->block_rows,
               "%s.block = " I64 " and block_rows = " I64 ": both or neither must be 0", name,
               s->block, s->block_rows);
    return FC_OK;
}

static fc_status check_scalings(const fc_attention *p)
{
    const fc_type kv_type = p->kv_type ? p->kv_type : p->q_type;
    FC_TRY(check_scaling("q_scaling", &p->q_scaling, p->q_type));
    FC_TRY(check_scaling("k_scaling", &p->k_scaling, kv_type));
    FC_TRY(check_scaling("v_scaling", &p->v_scaling, kv_type));
    return FC_OK;
}

static fc_status check_layouts(const fc_attention *p)
{
    for (fc_tensor tensor = 0; tensor < FC_TENSOR_COUNT; tensor++) {
        const fc_layout layout = fc_tensor_layout(p, tensor);
        FC_TRY(fc_layout_fits_memory(&layout));
        if (layout.output)
            FC_TRY(fc_layout_does_not_overlap(&layout));
    }
    if (p->has_bias) {
        const fc_layout bias = fc_broadcast_layout(p, "bias", p->bias_type, p->bias_strides);
        FC_TRY(fc_layout_fits_memory(&bias));
        const fc_layout dbias = fc_broadcast_layout(p, "dbias", FC_F32, p->bias_strides);
        FC_TRY(fc_layout_fits_memory(&dbias));
    }
    if (p->has_mask) {
        const fc_layout mask = fc_broadcast_layout(p, "mask", FC_F8_E4M3, p->mask_strides);
        FC_TRY(fc_layout_fits_memory(&mask));
    }
    FC_REQUIRE(p->alibi_batch_stride >= 0 && p->alibi_batch_stride <= INT32_MAX,
               "alibi_batch_stride = " I64 " is out of range; allowed: 0 to 2147483647",
               p->alibi_batch_stride);
    return FC_OK;
}

fc_status fc_validate(const fc_attention *given, fc_attention *resolved)
{
    FC_TRY(check_sizes(given));
    FC_TRY(check_switches(given));
    FC_TRY(check_types(given));
    FC_TRY(check_numbers(given));
    FC_TRY(check_unused_fields(given));
    FC_TRY(check_combinations(given));
    FC_TRY(check_scalings(given));
    *resolved = *given;
    fc_resolve(resolved);
    return check_layouts(resolved);
}
