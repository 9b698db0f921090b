"""Small, randomly initialised models by FlashCore and by transformers' eager attention: the same
logits, greedy tokens and gradients, with padding, grouped heads, windows, soft-capping, sinks and
caches."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="4.53")

import flashcore.huggingface  # noqa: E402
from torch_tools import close, draw, expected_sdpa  # noqa: E402

SIZES = dict(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
MODELS = {
    "Llama": {},
    "Gemma2": {"sliding_window": 6, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16},
    "Gemma3": {"sliding_window": 6},
    "GptOss": {"sliding_window": 6, "num_local_experts": 2, "num_experts_per_tok": 1},
}


def make(name):
    kind = "Gemma3Text" if name == "Gemma3" else name
    config = getattr(transformers, f"{kind}Config")(**SIZES, **MODELS[name])
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():  # gates, norms and sinks too: nothing may be constant
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def inputs():
    torch.manual_seed(1)
    ids = torch.randint(3, 97, (3, 13))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0  # padded on the left
    mask[1, :1] = 0
    return ids * mask, mask


@pytest.fixture(params=MODELS)
def both_ways(request, monkeypatch):
    """function -> (its result by eager attention, its result by FlashCore's)"""
    flashcore.huggingface.register()
    model = make(request.param)

    def run(function):
        model.set_attn_implementation("eager")
        expected = function(model)
        model.set_attn_implementation("flashcore")
        called = []
        ours = flashcore.huggingface.attention
        monkeypatch.setattr(
            flashcore.huggingface, "attention", lambda *a, **o: called.append(1) or ours(*a, **o)
        )
        found = function(model)
        monkeypatch.undo()
        assert called, "FlashCore was not asked"
        return expected, found

    return run


@torch.no_grad()
def logits(model, **options):
    return model(**options).logits


def test_logits(both_ways):
    ids, mask = inputs()
    expected, found = both_ways(lambda m: logits(m, input_ids=ids))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    expected, found = both_ways(lambda m: logits(m, input_ids=ids, attention_mask=mask))
    shown = mask.bool()
    torch.testing.assert_close(found[shown], expected[shown], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_greedy_tokens(both_ways, cache):
    ids, mask = inputs()
    options = dict(attention_mask=mask, max_new_tokens=12, do_sample=False)
    if cache == "static":
        options["cache_implementation"] = "static"
    expected, found = both_ways(lambda m: m.generate(ids, **options))
    assert torch.equal(found, expected)


def test_gradients(both_ways):
    ids, mask = inputs()

    def gradients(model):
        model.zero_grad()
        out = model(input_ids=ids, attention_mask=mask).logits[mask.bool()]
        out.logsumexp(-1).sum().backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    expected, found = both_ways(gradients)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        allowed = 1e-4 * max(gradient.abs().max().item(), 1e-3)
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=allowed, msg=name)


def attend(q, k, v, **options):
    out, _ = flashcore.huggingface.attention_forward(torch.nn.Module(), q, k, v, **options)
    return out.transpose(1, 2)


def test_calls_without_a_mask():
    """Causal from the upper-left corner, but one row sees everything."""
    q, k, v = (draw(2, 3, n, 16, device="cpu") for n in (5, 9, 9))
    close(attend(q, k, v), expected_sdpa(q, k, v, is_causal=True))
    close(attend(q, k, v, is_causal=False), expected_sdpa(q, k, v))
    close(attend(q[:, :, :1], k, v), expected_sdpa(q[:, :, :1], k, v))


def test_position_bias_is_added_to_a_mask_of_numbers():
    q, k, v = (draw(2, 3, n, 16, device="cpu") for n in (5, 9, 9))
    mask, bias = draw(2, 1, 5, 9, device="cpu"), draw(1, 3, 5, 9, device="cpu")
    found = attend(q, k, v, attention_mask=mask, position_bias=bias)
    close(found, expected_sdpa(q, k, v, mask + bias))


def test_dropout():
    q, k, v = (draw(2, 3, 9, 16, device="cpu") for _ in range(3))
    assert not torch.equal(attend(q, k, v, dropout=0.5), attend(q, k, v, dropout=0.5))


def test_any_other_name_leaves_transformers_alone():
    flashcore.huggingface.register("core_attention")
    model = make("Llama")
    model.set_attn_implementation("core_attention")
    assert model.config._attn_implementation == "core_attention"
    assert logits(model, input_ids=inputs()[0]).shape == (3, 13, 97)


def test_names_of_flash_attention_are_still_known():
    generic = pytest.importorskip("transformers.utils.generic")
    if not hasattr(generic, "is_flash_attention_requested"):
        pytest.skip("this version of transformers does not ask")
    flashcore.huggingface.register()
    asked = generic.is_flash_attention_requested
    assert asked(requested_attention_implementation="flash_attention_2")
    assert not asked(requested_attention_implementation="flashcore")
    assert not asked(requested_attention_implementation="sdpa")
