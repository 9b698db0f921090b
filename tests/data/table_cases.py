"""The problems of tables.txt: every field of fc_attention alone, then in telling combinations.

A case is the fields that differ from the default (strides as dicts), integer and float inputs as
lists, and `hidden_bias`: the offsets of the bias that hold -inf. Everything else about the inputs
comes from the generator.
"""

CASES = []
SMALL = dict(batch=1, q_heads=2, kv_heads=2, q_length=3, kv_length=4, head_dim=2, q_type="f64")
TALL = dict(SMALL, q_heads=1, kv_heads=1, q_length=6, kv_length=4)
WIDE = dict(SMALL, q_heads=1, kv_heads=1, q_length=4, kv_length=7)
PACKED = dict(
    SMALL, batch=3, q_length=3, kv_length=4, packed_q=1, packed_kv=1,
    packed_q_rows=5, packed_kv_rows=7, cu_q=[0, 3, 3, 5], cu_kv=[0, 4, 4, 7],
)
PAGED = dict(
    SMALL, batch=2, q_heads=2, kv_heads=1, q_length=2, kv_length=5, paged=1, page_size=2,
    page_count=7, page_table=[5, 0, 3, 6, 2, 1],
)
BIAS_BHIJ = dict(batch=24, head=12, row=4)
SLOPES = [0.5, 0.125]
SINKS = [0.75, -1.25]
DROPOUT = dict(dropout_p=0.375, dropout_seed=0x0123456789ABCDEF, dropout_offset=0x0000000500000007)


def case(name, base=SMALL, **fields):
    CASES.append((name, {**base, **fields}))


def plain_and_types():
    case("plain")
    case("batch_of_two", batch=2)
    case("one_key", kv_length=1)
    case("one_query", q_length=1)
    case("head_dim_one", head_dim=1)
    case("scale_given", scale=0.75)
    case("scale_negative", scale=-0.5)
    case("scale_default_is_not_a_power_of_two", head_dim=3)
    case("value_dim_larger", value_dim=5)
    case("value_dim_smaller", head_dim=5, value_dim=1)
    for element in ("f32", "f16", "bf16"):
        case(f"type_{element}", q_type=element)
    case("f16_queries_bf16_keys", q_type="f16", kv_type="bf16", out_type="f32")
    case("f32_queries_f16_keys", q_type="f32", kv_type="f16")
    case("f16_in_f64_out", q_type="f16", out_type="f64")
    case("bf16_in_f16_out", q_type="bf16", out_type="f16")


def heads():
    case("gqa_4_to_2", q_heads=4, kv_heads=2)
    case("gqa_6_to_2", q_heads=6, kv_heads=2, q_length=2, kv_length=3)
    case("mqa_3_to_1", q_heads=3, kv_heads=1)


def diagonals():
    for where, diagonal in (("bottom_right", 0), ("top_left", 1)):
        both = dict(diagonal=diagonal)
        case(f"causal_{where}_square", TALL, causal=1, kv_length=6, **both)
        case(f"causal_{where}_more_keys", WIDE, causal=1, **both)
        case(f"causal_{where}_more_queries", TALL, causal=1, **both)
        for left, right in ((1, 0), (0, 2), (2, -1), (-1, 1), (0, 0)):
            name = f"window_{left}_{right}_{where}".replace("-1", "any")
            case(name, WIDE, has_window=1, window_left=left, window_right=right, **both)
        case(f"window_more_queries_{where}", TALL, has_window=1, window_left=1, window_right=1,
             **both)
        case(f"window_causal_{where}", WIDE, causal=1, has_window=1, window_left=2,
             window_right=-1, **both)
        case(f"alibi_{where}", WIDE, q_heads=2, kv_heads=2, has_alibi=1, alibi=SLOPES, **both)
    case("no_window", WIDE)


def scores():
    case("softcap", softcap=1.5)
    case("softcap_with_bias_and_alibi", softcap=0.75, has_alibi=1, alibi=SLOPES, has_bias=1,
         bias_strides=dict(head=12, row=4))
    case("alibi_per_batch", batch=2, has_alibi=1, alibi_batch_stride=3,
         alibi=[0.5, 0.25, 9.0, 1.5, -0.125])
    case("bias_full", batch=2, has_bias=1, bias_strides=BIAS_BHIJ)
    case("bias_over_keys_only", batch=2, has_bias=1, bias_strides=dict(key=1))
    case("bias_per_batch", batch=2, has_bias=1, bias_strides=dict(batch=4))
    case("bias_per_head", batch=2, has_bias=1, bias_strides=dict(head=4))
    case("bias_per_row", batch=2, has_bias=1, bias_strides=dict(row=4))
    case("bias_padded_rows_and_keys", batch=1, has_bias=1,
         bias_strides=dict(head=30, row=9, key=2))
    case("bias_f16", has_bias=1, bias_type="f16", bias_strides=dict(head=12, row=4))
    case("bias_f64_in_f16_problem", q_type="f16", has_bias=1, bias_type="f64",
         bias_strides=dict(row=4))
    case("bias_bf16", has_bias=1, bias_type="bf16", bias_strides=dict(row=4))
    case("bias_minus_infinity_hides", has_bias=1, bias_strides=dict(row=4),
         hidden_bias=[0, 5, 6, 8, 9, 10, 11])
    case("mask_full", batch=2, has_mask=1, mask_strides=BIAS_BHIJ)
    case("mask_per_batch_over_keys", batch=2, has_mask=1, mask_strides=dict(batch=4))
    case("mask_per_head_over_rows", has_mask=1, mask_strides=dict(head=12, row=4))
    case("mask_key_stride", has_mask=1, mask_strides=dict(row=11, key=3))
    case("mask_and_causal_and_bias", WIDE, causal=1, has_mask=1, mask_strides=dict(row=7),
         has_bias=1, bias_strides=dict(row=7), hidden_bias=[1, 9])


def sinks_and_dropout():
    case("sinks", has_sinks=1, sinks=SINKS)
    case("sinks_on_hidden_rows", TALL, causal=1, has_sinks=1, sinks=[0.5])
    case("sinks_gqa_alibi", q_heads=4, kv_heads=2, has_sinks=1, sinks=[0.5, -2.0, 3.0, 0.0],
         has_alibi=1, alibi=[0.5, 0.25, 0.125, 1.0])
    case("dropout", kv_length=9, **DROPOUT)
    case("dropout_batch_and_heads", batch=2, kv_length=5, q_length=2, **DROPOUT)
    case("dropout_gqa", q_heads=4, kv_heads=2, **dict(DROPOUT, dropout_offset=1 << 40))
    case("dropout_sinks_causal", WIDE, causal=1, has_sinks=1, sinks=[1.0], **DROPOUT)
    case("dropout_packed", PACKED, **DROPOUT)
    case("dropout_half_seed_zero", q_length=2, kv_length=8, dropout_p=0.5, dropout_seed=0,
         dropout_offset=0)


def layouts():
    bshd = dict(batch=12, head=2, row=4)
    case("bshd", batch=2, kv_length=3, **{f"{t}_strides": bshd for t in
         ("q", "k", "v", "out", "dout", "dq", "dk", "dv")})
    qkv = dict(batch=36, head=2, row=12)
    case("packed_qkv_strides", batch=2, kv_length=3, q_strides=qkv, k_strides=qkv, v_strides=qkv,
         out_strides=bshd)
    case("padded_rows", q_strides=dict(batch=40, head=17, row=5),
         k_strides=dict(batch=50, head=21, row=4), v_strides=dict(batch=50, head=23, row=5),
         out_strides=dict(batch=30, head=14, row=4), lse_strides=dict(batch=9, head=4, row=1),
         dout_strides=dict(batch=60, head=29, row=9), dq_strides=dict(batch=60, head=13, row=3),
         dk_strides=dict(batch=60, head=27, row=6), dv_strides=dict(batch=60, head=31, row=7))
    case("dim_is_not_the_last_axis", q_strides=dict(batch=12, head=6, row=1, dim=3),
         k_strides=dict(batch=16, head=8, row=1, dim=4), v_strides=dict(batch=16, head=1, row=2,
         dim=8), out_strides=dict(batch=12, head=1, row=4, dim=2))
    case("lse_rows_before_heads", batch=2, lse_strides=dict(batch=6, head=1, row=2))
    case("negative_strides", q_strides=dict(batch=12, head=-6, row=-2),
         k_strides=dict(batch=16, head=8, row=-2), v_strides=dict(batch=16, head=8, row=2, dim=-1))
    case("zero_head_stride", k_strides=dict(batch=8, row=2), v_strides=dict(batch=8, row=2))
    case("zero_batch_stride", batch=2, k_strides=dict(head=8, row=2), q_strides=dict(head=6, row=2))
    case("zero_row_stride_of_keys", k_strides=dict(batch=4, head=2), has_alibi=1, alibi=SLOPES)


def sequences():
    case("kv_lengths", batch=3, q_length=2, has_kv_lengths=1, kv_lengths=[4, 2, 0])
    case("kv_lengths_causal", batch=2, has_kv_lengths=1, kv_lengths=[2, 3], causal=1)
    case("kv_lengths_top_left_window", batch=2, has_kv_lengths=1, kv_lengths=[4, 3], diagonal=1,
         has_window=1, window_left=1, window_right=0)
    case("kv_lengths_with_bias", batch=2, has_kv_lengths=1, kv_lengths=[3, 1], has_bias=1,
         bias_strides=BIAS_BHIJ)
    case("packed_with_an_empty_sequence", PACKED)
    case("packed_causal", PACKED, causal=1)
    case("packed_alibi_bias_mask", PACKED, has_alibi=1, alibi_batch_stride=2,
         alibi=[0.5, 0.25, 1.0, 2.0, 0.125, 0.75], has_bias=1, bias_strides=BIAS_BHIJ, has_mask=1,
         mask_strides=dict(batch=12, row=4))
    case("packed_queries_padded_keys", PACKED, packed_kv=0, packed_kv_rows=0, cu_kv=None,
         has_kv_lengths=1, kv_lengths=[3, 4, 2], causal=1)
    case("padded_queries_packed_keys", PACKED, packed_q=0, packed_q_rows=0, cu_q=None, q_length=2,
         causal=1)
    case("packed_queries_without_keys", PACKED, cu_kv=[0, 0, 4, 7], has_sinks=1, sinks=SINKS)
    case("packed_strides_gqa", PACKED, kv_heads=1, k_strides=dict(row=7), v_strides=dict(row=3),
         q_strides=dict(head=12, row=2), out_strides=dict(head=3, row=6),
         lse_strides=dict(head=1, row=2))
    case("paged_shuffled", PAGED)
    case("paged_shared_pages", PAGED, page_table=[5, 0, 3, 5, 0, 1], has_kv_lengths=1,
         kv_lengths=[5, 3])
    case("paged_lengths_causal", PAGED, has_kv_lengths=1, kv_lengths=[2, 5], causal=1)
    case("paged_table_stride", PAGED, page_table_stride=4, page_table=[5, 0, 3, 1, 6, 2, 4, 0],
         has_window=1, window_left=2, window_right=-1)
    case("paged_heads_before_rows", PAGED, kv_heads=2, k_strides=dict(batch=8, head=4, row=2),
         v_strides=dict(batch=9, head=4, row=2), dk_strides=dict(batch=8, head=4, row=2))
    case("paged_one_row_pages", PAGED, page_size=1, kv_length=3, page_table=[6, 0, 2, 1, 4, 2])
    case("paged_packed_queries", PAGED, packed_q=1, packed_q_rows=3, cu_q=[0, 1, 3], causal=1,
         has_kv_lengths=1, kv_lengths=[5, 4])


def fp8():
    for element in ("f8_e4m3", "f8_e5m2"):
        few = dict(SMALL, q_type=element, out_type="f64")
        case(f"{element}_no_scale", few)
        case(f"{element}_scale_per_tensor", few, q_scale=[1.5], k_scale=[0.75],
             v_scale=[2.5])
        case(f"{element}_scale_per_head", few, q_heads=4, batch=2,
             q_scale=[1.5, 0.5, 2.0, 0.75], k_scale=[0.75, 2.0], v_scale=[2.5, 0.25],
             q_scaling=dict(head=1), k_scaling=dict(head=1), v_scaling=dict(head=1))
        case(f"{element}_scale_per_batch_head_block", few, batch=2,
             q_scale=[1.5, 0.5, 2.0, 0.75, 1.25, 0.625, 3.0, 1.0], k_scale=[0.75, 2.0, 0.5, 1.5],
             v_scale=[2.5, 0.25, 1.0, 0.5, 3.0, 1.5, 0.875, 2.0],
             q_scaling=dict(batch=4, head=2, block=1, block_rows=2),
             k_scaling=dict(head=2, block=1, block_rows=3),
             v_scaling=dict(batch=4, head=1, block=2, block_rows=2))
    case("f16_queries_fp8_keys", q_type="f16", kv_type="f8_e4m3",
         k_scale=[0.5, 2.0], k_scaling=dict(head=1), v_scale=[1.25])
    case("fp8_gives_bf16", q_type="f8_e4m3")
    case("fp8_packed_blocks", PACKED, q_type="f8_e4m3", out_type="f64",
         k_scale=[0.5, 2.0, 1.5, 0.75, 1.0, 3.0], k_scaling=dict(batch=2, block=1, block_rows=2),
         q_scale=[2.0, 0.5], q_scaling=dict(block=1, block_rows=2))
    case("fp8_paged_blocks", PAGED, q_type="f16", kv_type="f8_e5m2",
         out_type="f64", k_scale=[0.5, 2.0, 1.5, 0.75], v_scale=[1.0, 0.5, 4.0, 1.25],
         k_scaling=dict(batch=2, block=1, block_rows=3),
         v_scaling=dict(batch=2, block=1, block_rows=4))


def combinations():
    case("everything_dense", batch=2, q_heads=4, kv_heads=2, q_length=4, kv_length=5, value_dim=3,
         scale=0.625, softcap=2.0, causal=1, has_window=1, window_left=3, window_right=0,
         has_alibi=1, alibi=[0.5, 0.25, 0.125, 1.0], has_bias=1,
         bias_strides=dict(batch=80, head=20, row=5), has_mask=1,
         mask_strides=dict(batch=20, row=5), has_sinks=1, sinks=[0.5, -2.0, 3.0, 0.0],
         has_kv_lengths=1, kv_lengths=[5, 3], **DROPOUT)
    case("everything_packed", PACKED, causal=1, softcap=3.0, has_alibi=1, alibi=SLOPES,
         has_sinks=1, sinks=SINKS, has_mask=1, mask_strides=BIAS_BHIJ, **DROPOUT)
    case("everything_paged", PAGED, q_heads=4, kv_heads=2, softcap=3.0, has_alibi=1,
         alibi=[0.5, 0.25, 0.125, 1.0], has_bias=1, bias_strides=dict(head=5), has_sinks=1,
         sinks=[0.5, -2.0, 3.0, 0.0], has_kv_lengths=1, kv_lengths=[4, 5], causal=1, has_window=1,
         window_left=2, window_right=-1, **DROPOUT)


for build in (plain_and_types, heads, diagonals, scores, sinks_and_dropout, layouts, sequences, fp8,
              combinations):
    build()
