/* case_features.c: what a problem may have, one small edit each. */
#include "case_draft.h"

static void causal(case_draft *d)
{
    d->c.problem.causal = 1;
}

static void causal_top_left(case_draft *d)
{
    d->c.problem.causal = 1;
    d->c.problem.diagonal = FC_TOP_LEFT;
}

static void window(case_draft *d, int64_t left, int64_t right)
{
    d->c.problem.has_window = 1;
    d->c.problem.window_left = left;
    d->c.problem.window_right = right;
}

static void window_both(case_draft *d)
{
    window(d, 9, 4);
}

static void window_left(case_draft *d)
{
    window(d, 13, -1);
}

static void window_right(case_draft *d)
{
    window(d, -1, 0);
}

static void scale(case_draft *d)
{
    d->c.problem.scale = 0.3f;
}

static void softcap(case_draft *d)
{
    d->c.problem.softcap = 1.5f;
}

static void alibi(case_draft *d)
{
    d->c.problem.has_alibi = 1;
}

static void alibi_per_batch(case_draft *d)
{
    d->c.problem.has_alibi = 1;
    d->alibi_per_batch = true;
}

static void bias(case_draft *d, int axes)
{
    d->c.problem.has_bias = 1;
    d->bias_axes = axes;
}

static void bias_full(case_draft *d)
{
    bias(d, DRAFT_BATCH | DRAFT_HEAD | DRAFT_ROW);
}

static void bias_per_head(case_draft *d)
{
    bias(d, DRAFT_HEAD | DRAFT_ROW);
}

static void bias_per_batch(case_draft *d)
{
    bias(d, DRAFT_BATCH | DRAFT_ROW);
}

static void bias_per_row(case_draft *d)
{
    bias(d, DRAFT_ROW);
}

static void bias_per_key(case_draft *d)
{
    bias(d, 0);
}

static void bias_f16(case_draft *d)
{
    bias(d, DRAFT_HEAD);
    d->c.problem.bias_type = FC_F16;
}

static void bias_bf16(case_draft *d)
{
    bias(d, DRAFT_BATCH);
    d->c.problem.bias_type = FC_BF16;
}

static void mask(case_draft *d, int axes)
{
    d->c.problem.has_mask = 1;
    d->mask_axes = axes;
}

static void mask_full(case_draft *d)
{
    mask(d, DRAFT_BATCH | DRAFT_HEAD | DRAFT_ROW);
}

static void mask_per_row(case_draft *d)
{
    mask(d, DRAFT_ROW);
}

static void mask_per_batch(case_draft *d)
{
    mask(d, DRAFT_BATCH);
}

static void sinks(case_draft *d)
{
    d->c.problem.has_sinks = 1;
}

static void dropout(case_draft *d)
{
    d->c.problem.dropout_p = 0.25f;
}

static void packed_q(case_draft *d)
{
    d->c.problem.packed_q = 1;
    d->c.problem.batch = 3;
}

static void packed_kv(case_draft *d)
{
    d->c.problem.packed_kv = 1;
    d->c.problem.batch = 3;
}

static void paged(case_draft *d)
{
    d->c.problem.paged = 1;
    d->c.problem.page_size = 16;
}

static void paged_shared(case_draft *d)
{
    paged(d);
    d->c.problem.page_size = 7;
    d->c.shares_pages = true;
}

static void kv_lengths(case_draft *d)
{
    d->c.problem.has_kv_lengths = 1;
    d->c.problem.batch = 3;
}

static void gqa(case_draft *d)
{
    d->c.problem.q_heads = 6;
    d->c.problem.kv_heads = 2;
}

static void mqa(case_draft *d)
{
    d->c.problem.q_heads = 4;
    d->c.problem.kv_heads = 1;
}

static void smaller_values(case_draft *d)
{
    d->c.problem.value_dim = d->c.problem.head_dim / 2;
}

static void odd_dims(case_draft *d)
{
    d->c.problem.head_dim = 33;
    d->c.problem.value_dim = 37;
}

static void swapped(case_draft *d)
{
    d->c.layout = CASE_SWAPPED;
}

static void padded(case_draft *d)
{
    d->c.layout = CASE_PADDED;
}

static void qkv(case_draft *d)
{
    d->c.layout = CASE_QKV;
    d->c.problem.q_length = d->c.problem.kv_length = 35;
}

static void reversed(case_draft *d)
{
    d->c.layout = CASE_REVERSED;
}

static void repeated(case_draft *d)
{
    d->c.layout = CASE_REPEATED;
}

static void spread(case_draft *d)
{
    d->c.layout = CASE_SPREAD;
}

static void f32(case_draft *d)
{
    d->c.problem.q_type = FC_F32;
}

static void bf16(case_draft *d)
{
    d->c.problem.q_type = FC_BF16;
}

static void f64(case_draft *d)
{
    d->c.problem.q_type = FC_F64;
}

static void e4m3(case_draft *d)
{
    d->c.problem.q_type = FC_F8_E4M3;
}

static void e5m2(case_draft *d)
{
    d->c.problem.q_type = FC_F8_E5M2;
    d->c.with_scales = true; /* one for the tensor */
}

static void e4m3_per_head(case_draft *d)
{
    e4m3(d);
    d->c.with_scales = true;
    d->scale_axes = DRAFT_BATCH | DRAFT_HEAD;
}

static void e4m3_per_block(case_draft *d)
{
    e4m3(d);
    d->c.with_scales = true;
    d->scale_axes = DRAFT_BATCH | DRAFT_HEAD | DRAFT_ROW;
    d->scale_block_rows = 16;
}

static void f16_with_e4m3(case_draft *d)
{
    d->c.problem.kv_type = FC_F8_E4M3;
    d->c.with_scales = true;
    d->scale_axes = DRAFT_HEAD;
}

static void bf16_with_f32(case_draft *d)
{
    d->c.problem.q_type = FC_BF16;
    d->c.problem.kv_type = FC_F32;
}

static void out_f32(case_draft *d)
{
    d->c.problem.out_type = FC_F32;
}

static void out_bf16(case_draft *d)
{
    d->c.problem.out_type = FC_BF16;
}

static void batch_invariant(case_draft *d)
{
    d->c.problem.batch_invariant = 1;
}

static void longer_q(case_draft *d)
{
    d->c.problem.q_length = 41;
    d->c.problem.kv_length = 23;
}

const case_feature case_features[] = {
    {"causal", "causal", causal},
    {"causal", "causal_top_left", causal_top_left},
    {"window", "window", window_both},
    {"window", "window_left", window_left},
    {"window", "window_right", window_right},
    {"scale", "scale", scale},
    {"softcap", "softcap", softcap},
    {"alibi", "alibi", alibi},
    {"alibi", "alibi_per_batch", alibi_per_batch},
    {"bias", "bias", bias_full},
    {"bias", "bias_per_head", bias_per_head},
    {"bias", "bias_per_batch", bias_per_batch},
    {"bias", "bias_per_row", bias_per_row},
    {"bias", "bias_per_key", bias_per_key},
    {"bias", "bias_f16", bias_f16},
    {"bias", "bias_bf16", bias_bf16},
    {"mask", "mask", mask_full},
    {"mask", "mask_per_row", mask_per_row},
    {"mask", "mask_per_batch", mask_per_batch},
    {"sinks", "sinks", sinks},
    {"dropout", "dropout", dropout},
    {"queries", "packed_q", packed_q},
    {"keys", "packed_kv", packed_kv},
    {"keys", "paged", paged},
    {"keys", "paged_shared", paged_shared},
    {"lengths", "kv_lengths", kv_lengths},
    {"heads", "gqa3", gqa},
    {"heads", "mqa4", mqa},
    {"dims", "smaller_values", smaller_values},
    {"dims", "odd_dims", odd_dims},
    {"layout", "swapped", swapped},
    {"layout", "padded", padded},
    {"layout", "qkv", qkv},
    {"layout", "reversed", reversed},
    {"layout", "repeated", repeated},
    {"layout", "spread", spread},
    {"type", "f32", f32},
    {"type", "bf16", bf16},
    {"type", "f64", f64},
    {"type", "e4m3", e4m3},
    {"type", "e5m2", e5m2},
    {"type", "e4m3_per_head", e4m3_per_head},
    {"type", "e4m3_per_block", e4m3_per_block},
    {"type", "f16_with_e4m3", f16_with_e4m3},
    {"type", "bf16_with_f32", bf16_with_f32},
    {"out", "out_f32", out_f32},
    {"out", "out_bf16", out_bf16},
    {"invariance", "batch_invariant", batch_invariant},
    {"shape", "longer_q", longer_q},
};
const size_t case_feature_count = sizeof case_features / sizeof case_features[0];
