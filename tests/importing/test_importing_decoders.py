"""Decoders of transformers: what is captured computes what they do, and is refused where it does not."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoders import CAPACITY, CHUNK, DECODERS, PROMPT, decoder, saved
from tapml.carving.prepare import lowered_with_documents, prepared
from tapml.errors import InputError, ToolchainError
from tapml.importing import ImportedModel, import_decoder
from tapml.importing.inputs import RawStep
from tapml.zoo.configurations import GROUPED, configuration

pytestmark = pytest.mark.torch

STEPS = 24
SEEDS = {"parallel residual": 3, "own attention": 3, "biases of the whole length": 4}
"""Others than 0, of which the tokens are almost all the same."""


def imported(config: Path, **options: Any) -> ImportedModel:
    return import_decoder(config, **{"prompt": PROMPT, "steps": 1, "capacity": CAPACITY, "chunk": CHUNK, **options})


def of(fields: Any, tmp_path: Path, **options: Any) -> ImportedModel:
    return imported(saved(fields, tmp_path), **options)


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind == "soft cap and window" else pytest.param(kind, marks=pytest.mark.slow)
        for kind in DECODERS
        if not kind.startswith("encoder")
    ],
)
def test_greedy_tokens_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    """The steps' tokens are what transformers generates with its own cache; each has to be what the step before it
    gives on the reference platform, whose states are its own."""
    model = imported(decoder(kind, tmp_path), steps=STEPS, seed=SEEDS.get(kind, 0))
    assert model.oracle is not None, model.oracle_missing
    opened = prepared(model, *lowered_with_documents(model))
    runs = opened.reference.record(opened.graphs)
    place = model.outputs.index("logits")
    got = [int(np.argmax(run.outputs[place])) for run in runs]
    tokens = [int(step.inputs["input_ids"][0, 0]) for step in model.steps]
    prompt = -(-len(PROMPT) // model.steps[0].inputs["input_ids"].shape[1])
    assert got[prompt - 1 : -1] == tokens[prompt:]
    assert len(set(tokens[prompt:])) >= 5


@pytest.mark.slow
def test_views_of_sizes_that_vary(tmp_path: Path) -> None:
    """By views that TVM cannot compare."""
    model = imported(saved(configuration("gpt_bigcode"), tmp_path))
    assert all(operator.external is None for operator in lowered_with_documents(model)[0].operators)


def test_a_step_has_its_cache_as_states_of_the_capacity(tmp_path: Path) -> None:
    model = imported(decoder("grouped queries", tmp_path))
    assert [(symbol.name, symbol.minimum, symbol.maximum) for symbol in model.symbols] == [("tokens", 1, CHUNK)]
    assert list(model.states) == ["keys0", "values0", "keys1", "values1"]
    assert {model.steps[0].inputs[name].shape for name in model.states} == {(2, CAPACITY, 16)}
    assert [step.description for step in model.steps] == ["prompt, tokens 0 to 7", "prompt, tokens 8 to 10", "token 11"]
    kernels = {operator.name for operator in lowered_with_documents(model)[0].operators}
    assert {"cache_append", "cached_attention"} <= kernels
    assert not any("cos" in name or "sin" in name for name in kernels), kernels


@pytest.mark.slow
def test_layers_that_share_keys_and_values_keep_them_once(tmp_path: Path) -> None:
    """Gemma 3n's last two of four layers attend to what the two before them keep."""
    model = of(configuration("gemma3n"), tmp_path)
    assert [*model.states] == ["keys0", "values0", "keys1", "values1"]


def test_it_says_how_tokens_are_generated(tmp_path: Path) -> None:
    """Of tokens that begin and end a text, those of the vocabulary: configurations name others by default."""
    config = configuration("llama")
    config.bos_token_id, config.eos_token_id = 5, [9, 100_000]
    model = of(config, tmp_path)
    assert model.generation is not None
    assert model.generation.model_dump() == {
        **{
            "prefill": "prefill",
            "decode": "decode",
            "verify": None,
            "places": None,
            "blocks": None,
            "chunk": CHUNK,
            "capacity": CAPACITY,
            "vocabulary": 128,
            "next": "next",
            "draw": None,
            "given": [],
        },
        **{"begin": 5, "end": [9], "bytes_per_token": 2 * 2 * 2 * 16 * 4},  # keys, values; layers, heads, floats
    }


def test_a_prompt_that_nobody_gave_is_marked(tmp_path: Path) -> None:
    model = imported(decoder("grouped queries", tmp_path), prompt=None)
    assert all(step.synthetic for step in model.steps)


# ---------------------------------------------------- encoders


@pytest.mark.parametrize("kind", ["encoder of tokens", pytest.param("encoder of features", marks=pytest.mark.slow)])
def test_an_encoder_leaves_what_its_decoder_attends_to(kind: str, tmp_path: Path) -> None:
    """Both are carved from one configuration, with the same source."""
    config = decoder(kind, tmp_path)
    encoder = imported(config, encoder=True)
    model = imported(config)
    step = encoder.steps[0]
    assert [*encoder.outputs] == ["cross_keys0", "cross_values0", "cross_keys1", "cross_values1"]
    assert step.expected is not None
    for name, left in zip(encoder.outputs, step.expected, strict=True):
        np.testing.assert_allclose(model.steps[0].inputs[name], left, rtol=1e-5, atol=1e-6)
    assert model.generation is not None
    assert model.generation.given == [*encoder.outputs]
    assert model.generation.begin == (0 if kind == "encoder of tokens" else 1)
    sources = ["source"] if kind == "encoder of tokens" else []
    assert [symbol.name for symbol in encoder.symbols] == sources
    assert [symbol.name for symbol in model.symbols] == ["tokens", *sources]


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("grouped queries", {"encoder": True}, "LlamaForCausalLM has no encoder"),
        ("grouped queries", {"source": [3]}, "LlamaForCausalLM has no encoder"),
        ("encoder of tokens", {"source": [3, 128]}, "is tokens from 0 to 127"),
        (
            "encoder of features",
            {"source": np.zeros((8, 3), np.float32)},
            r"float32 \[1, 8, 24\]: this is float32 \[8, 3\]",
        ),
    ],
)
def test_sources_that_do_not_fit(kind: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        imported(decoder(kind, tmp_path), **options)


# ---------------------------------------------------- what is lost


def test_what_is_lost_in_the_export_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a window would be that the mask does not have."""
    from tapml.importing import hf_step

    right = hf_step.cached_attention

    def without_window(*given: Any) -> Any:
        *others, _, softcap, block = given
        return right(*others, 0, softcap, block)

    monkeypatch.setattr(hf_step, "cached_attention", without_window)
    with pytest.raises(InputError, match=r"MistralForCausalLM.* differs .* position (8|9|10|12) .*sliding_window = 8"):
        imported(decoder("window", tmp_path))


@pytest.mark.slow
def test_chunks_of_a_mask_and_scales_of_positions_are_kept(tmp_path: Path) -> None:
    """Llama 4's, which exist in its masks, and in what its own cache says of the tokens before: more of both than the
    comparison takes for equal."""
    model = imported(decoder("chunks of a mask", tmp_path))
    operators = lowered_with_documents(model)[0].operators
    attention = [operator for operator in operators if operator.name.startswith("cached_attention")]
    assert {len(operator.arguments) for operator in attention} == {5, 6}, attention


def test_what_masks_tell() -> None:
    import torch
    from transformers import masking_utils

    from tapml.importing.hf_masks import mask_kind

    assert mask_kind(masking_utils.causal_mask_function, 32) == 0
    assert mask_kind(masking_utils.sliding_window_causal_mask_function(8), 32) == 8
    assert mask_kind(masking_utils.sliding_window_causal_mask_function(32), 32) == 0
    assert mask_kind(masking_utils.chunked_causal_mask_function(8, torch.zeros(1, dtype=torch.long)), 32) is None
    with pytest.raises(InputError, match="lets tokens see later ones"):
        mask_kind(masking_utils.bidirectional_mask_function, 32)


def long_rope() -> Any:
    import transformers

    scaling = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32}
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    return transformers.Phi3Config(
        **GROUPED, original_max_position_embeddings=32, rope_parameters={**scaling, **factors}
    )


def test_positions_that_depend_on_the_length_are_refused_beyond_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no function of each .*original_max_position_embeddings = 32: .*capacity 32"):
        of(long_rope(), tmp_path)


@pytest.mark.slow
def test_positions_that_depend_on_the_length_are_kept_below_it(tmp_path: Path) -> None:
    assert of(long_rope(), tmp_path, capacity=32).symbols


@pytest.mark.parametrize(
    "kind",
    ["own attention", pytest.param("biases of the whole length", marks=pytest.mark.slow), "states of its own"],
)
def test_what_a_model_keeps_in_its_own_way_is_kept(kind: str, tmp_path: Path) -> None:
    """Its own attention over the cache, and recurrences: these take one token a call."""
    model = imported(decoder(kind, tmp_path))
    recurrent = kind == "states of its own"
    assert [(symbol.minimum, symbol.maximum) for symbol in model.symbols] == ([] if recurrent else [(1, CHUNK)])
    assert len(model.steps) == (len(PROMPT) + 1 if recurrent else 3)
    assert model.generation is not None
    assert model.generation.chunk == (1 if recurrent else CHUNK)
    assert (model.generation.bytes_per_token == 0) is recurrent
    assert set(model.states) == (
        {f"state{n}" for n in range(5)} if recurrent else {"keys0", "values0", "keys1", "values1"}
    )


def test_a_recurrence_begins_anew_at_position_0(tmp_path: Path) -> None:
    """Whatever its states hold."""
    import torch

    from tapml.importing.hf_capture import cached_program
    from tapml.importing.hf_model import open_decoder

    program, most = cached_program(open_decoder(decoder("states of a cache", tmp_path)).model, CAPACITY)
    step = program.module()
    given = (
        torch.tensor([[3]], dtype=torch.int32),
        torch.tensor([0], dtype=torch.int32),
        torch.tensor([0], dtype=torch.int32),
    )
    with torch.no_grad():
        first, again = step(*given)[0], step(*given)[0]
        further = step(given[0], given[1] + 1, given[2])[0]
    assert most == 1
    assert torch.equal(first, again)
    assert not torch.equal(first, further)


def test_a_recurrence_and_attention_in_one_model_are_kept(tmp_path: Path) -> None:
    """Positions of its only token are read from tables as well."""
    import transformers

    config = transformers.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"])
    model = of(config, tmp_path)
    assert [*model.states] == ["keys0", "values0", "conv0_0"]
    assert model.generation is not None
    assert model.generation.chunk == 1


def test_a_model_that_keeps_nothing_is_refused(tmp_path: Path) -> None:
    import transformers

    config = transformers.OpenAIGPTConfig(n_embd=64, n_layer=2, n_head=4, vocab_size=128)
    with pytest.raises(InputError, match="takes nothing that it kept before"):
        of(config, tmp_path)


def test_a_configuration_that_transformers_cannot_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    import transformers

    sizes = {"hidden_size": 32, "attention_hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 128}
    with pytest.raises(
        InputError, match=r"RwkvForCausalLM of transformers .* fails when .* \(The size of tensor a \(32\)"
    ):
        of(transformers.RwkvConfig(**sizes), tmp_path)


def test_what_cannot_be_exported_is_refused_in_a_sentence(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """PyTorch prints all that it had of the program, hundreds of lines."""
    with pytest.raises(InputError, match=r"DbrxForCausalLM cannot be exported .* of modeling_dbrx.py, for expert_idx"):
        imported(saved(configuration("dbrx"), tmp_path))
    assert capfd.readouterr() == ("", "")


def test_what_attention_is_given_and_nobody_knows_is_refused() -> None:
    import torch

    from tapml.importing import hf_attention

    module, x = torch.nn.Linear(1, 1), torch.zeros(1, 1, 2, 4)
    with pytest.raises(InputError, match="gives its attention temperature, and"):
        hf_attention._attention(module, x, x, x, None, temperature=2.0)
    with pytest.raises(InputError, match="see later ones"):
        hf_attention._attention(module, x, x, x, None, is_causal=False)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch uses what it deprecates
def test_a_table_of_what_depends_on_all_positions_is_refused() -> None:
    import torch

    from tapml.importing.hf_tables import with_tables

    class Relative(torch.nn.Module):
        def forward(self, x: Any, positions: Any) -> Any:
            return x * torch.cos(positions.float() / positions.max())

    n = torch.export.Dim("n", min=1, max=16)
    arguments = torch.ones(5), torch.arange(5, dtype=torch.int32)
    program = torch.export.export(Relative(), arguments, dynamic_shapes=({0: n}, {0: n})).run_decompositions({})
    with pytest.raises(InputError, match="is no function of each position by itself"):
        with_tables(program, "positions", 16)


# ---------------------------------------------------- folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of float16 weights, as transformers saves it."""
    import torch
    import transformers

    path = tmp_path_factory.mktemp("folder")
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(configuration("llama"))
    model.half().save_pretrained(path)
    return path


def changed(folder: Path, tmp_path: Path, tensors: dict[str, np.ndarray | None]) -> Path:
    """The folder with some tensors more, others or (None) less."""
    from safetensors.numpy import load_file, save_file

    for file in folder.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    held = {**load_file(folder / "model.safetensors"), **tensors}
    save_file({k: v for k, v in held.items() if v is not None}, tmp_path / "model.safetensors", {"format": "pt"})
    return tmp_path


def test_weights_of_a_folder_are_those_that_are_computed_with(folder: Path) -> None:
    from safetensors.numpy import load_file

    model = imported(folder)
    held = load_file(folder / "model.safetensors")
    found = dict(model.parameters)["model.model.norm.weight"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, held["model.norm.weight"].astype(np.float32))


def test_transformers_writes_nothing_to_the_terminal(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No bars of weights that are loaded, and no warnings about how tokens are generated."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    opened = open_decoder(folder)
    opened.model.generation_config.temperature = 0.5  # which greedy generation does not use
    greedy(opened.model, PROMPT, 1)
    assert capfd.readouterr() == ("", "")


def test_missing_surplus_and_misshapen_tensors_are_named(folder: Path, tmp_path: Path) -> None:
    wrong = {
        "model.norm.weight": None,
        "model.layers.1.extra": np.zeros(3, np.float16),
        "lm_head.weight": np.zeros((128, 32), np.float16),
    }
    with pytest.raises(InputError) as refused:
        imported(changed(folder, tmp_path, wrong))
    said = str(refused.value)
    assert "without model.norm.weight" in said
    assert "with model.layers.1.extra, which LlamaForCausalLM has not" in said
    assert "lm_head.weight is [128, 32], and LlamaForCausalLM takes [128, 64]" in said


def test_weights_in_pieces_and_of_bfloat16_are_read(folder: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    held = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    held.save_pretrained(tmp_path, max_shard_size="60KB")
    assert len([*tmp_path.glob("model-*-of-*.safetensors")]) > 1
    found = dict(imported(tmp_path).parameters)["model.model.norm.weight"]
    np.testing.assert_array_equal(found, held.model.norm.weight.detach().float().numpy())


def test_a_tokenizer_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    many = {f"t{number}": number for number in range(129)}
    Tokenizer(models.WordLevel(many, unk_token="t0")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"token 128 \('t128'\), and LlamaForCausalLM an embedding of 128 tokens"):
        imported(tmp_path)
    few = {f"t{number}": number for number in range(63)}
    Tokenizer(models.WordLevel(few, unk_token="t0")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="has 63 tokens, and LlamaForCausalLM an embedding of 128: it is"):
        imported(tmp_path)
    for damaged in (b"{}", b"\xff\xfe"):
        (tmp_path / "tokenizer.json").write_bytes(damaged)
        with pytest.raises(InputError, match=r"is no tokenizer that tokenizers reads"):
            imported(tmp_path)


def test_weights_that_lie_in_a_file_anyhow_give_the_oracle_the_same_bits_in_detail(tmp_path: Path) -> None:
    """PyTorch's sums depend on where numbers lie: what only moves the logits was told as wrong."""
    import torch
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**sizes, vocab_size=32, max_position_embeddings=32, tie_word_embeddings=False)
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    model = imported(tmp_path, prompt=[3, 4, 5], capacity=32)
    assert model.intermediates is not None
    place = model.outputs.index("logits")
    found = {step: array for step, said, array in model.intermediates(False) if said.startswith("'squeeze_")}
    for number, step in enumerate(model.steps):
        assert step.expected is not None
        np.testing.assert_array_equal(found[number], step.expected[place])
    # The oracle wrote the program's own caches: what runs in detail began with what the last step had left.
    assert model.in_detail is not None
    for name, array in model.in_detail().steps[0].inputs.items():
        np.testing.assert_array_equal(array, model.steps[0].inputs[name])


def test_weights_that_are_no_numbers_are_told(folder: Path, tmp_path: Path) -> None:
    nan = np.full(64, np.nan, np.float16)
    with pytest.raises(
        InputError, match="LlamaForCausalLM gives logits that are NaN or infinite, in transformers itself"
    ):
        imported(changed(folder, tmp_path, {"model.norm.weight": nan}))


def test_a_folder_without_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(InputError, match=r"has no \*\.safetensors"):
        imported(tmp_path)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "no such model"}, "is no config that transformers can read"),
        ({"hidden_size": 3}, "names no model_type"),
        ({"model_type": "llama", "auto_map": {"AutoModel": "x.Y"}}, "wants code of its own"),
        ({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}}, "in a format of gptq"),
    ],
)
def test_configs_that_are_not_taken(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=said):
        imported(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": [3]}, "the prompt has 1 token, and 1 behind it are to be carved"),
        ({"prompt": [3, 128]}, "has token 128, and the vocabulary of LlamaForCausalLM goes from 0 to 127"),
        ({"prompt": [3, -1]}, "has token -1"),
        ({"prompt": PROMPT * 6}, "66 tokens and 1 behind them are more than the 64 that fit"),
        ({"prompt": "Once upon a time"}, "has no tokenizer.json"),
        ({"capacity": 129}, "takes 128 tokens"),
    ],
)
def test_prompts_that_do_not_fit(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        imported(decoder("grouped queries", tmp_path), **options)


def test_calls_that_are_to_be_of_one_token_draw_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"take none back, as a draw .*: give --chunk 2 or more, or leave out --draws"):
        imported(decoder("grouped queries", tmp_path), chunk=1, draws=True)


@pytest.mark.slow
def test_a_recurrence_draws_none(tmp_path: Path) -> None:
    """Its calls are of one token whatever is asked for."""
    with pytest.raises(InputError, match="takes one token a call, of which none can be taken back: leave out --draws"):
        imported(decoder("states of a cache", tmp_path), draws=True)


def test_without_transformers_the_command_that_installs_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "transformers":
            raise ImportError(name, name=name)
        return there(name, *rest)

    config = decoder("grouped queries", tmp_path)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ToolchainError, match=r"needs transformers: pip install 'tapml\[transformers\]'"):
        imported(config)


def test_raw_steps_are_chunks_then_tokens() -> None:
    from tapml.importing.hf_import import _calls

    found: list[RawStep] = _calls(range(10, 17), 5, 2, 0, None, 8, synthetic=False)
    assert [step.arrays["input_ids"].tolist() for step in found] == [[[10, 11]], [[12, 13]], [[14]], [[15]], [[16]]]
    assert [step.arrays["positions"].tolist() for step in found] == [[0, 1], [2, 3], [4], [5], [6]]
    assert [step.arrays["last"].tolist() for step in found] == [[1], [1], [0], [0], [0]]


def test_what_transformers_continues_with_is_the_most_likely_whatever_penalties_a_folder_asks_for(
    tmp_path: Path,
) -> None:
    import torch

    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    model = open_decoder(decoder("grouped queries", tmp_path)).model
    prompt = [*range(22)]
    plain = greedy(model, prompt, 20)
    own = model.generation_config
    own.repetition_penalty = 8.0
    assert greedy(model, prompt, 20) == plain
    assert model.generation_config is own
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *plain]]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    assert logits.argmax(-1).tolist() == plain
