"""Decoders of GGUF files: the same numbers as the model that each was made of, and a sentence for whatever is wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf_files import Kind, tensors_of, values_of, write
from tokenizers import Tokenizer

import tapml
from tapml.errors import InputError
from tapml.importing.gguf_file import read_gguf
from tapml.importing.hf_gguf import ARCHITECTURES
from tapml.importing.hf_model import open_decoder
from tapml.zoo.configurations import configuration

TOKENS = torch.tensor([[3, 17, 42, 9, 77, 5, 100, 23, 60, 61, 1, 2]])
"""More than the sliding windows of these models."""

LLAMA: dict[str, Any] = {
    **{"vocab_size": 96, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
}
"""Whose rows are whole blocks of every type."""


def model_of(config: Any) -> Any:
    """Random weights, none of them as a new model has them: biases and norms, too."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1))
    return model


def llama(**fields: Any) -> Any:
    return model_of(transformers.LlamaConfig(**{**LLAMA, **fields}))


def logits(model: Any) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model(TOKENS % model.config.vocab_size).logits.numpy()
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_computes_what_the_model_of_the_file_does(tmp_path: Path, name: str) -> None:
    config = configuration(name)
    if name == "gemma2":
        config.tie_word_embeddings = True  # as llama.cpp has it
    model = model_of(config)
    found = open_decoder(write(tmp_path / "m.gguf", model))
    np.testing.assert_allclose(logits(found.model), logits(model), rtol=1e-4, atol=1e-5)
    assert not found.random
    assert found.notes[0].endswith(f"by type: {len(tensors_of(model))} F32")


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
def test_numbers_are_those_that_the_types_stand_for(tmp_path: Path, kind: str) -> None:
    model = llama(tie_word_embeddings=True)
    path = write(tmp_path / "m.gguf", model, Kind[kind])
    found = open_decoder(path)
    stands = torch.from_numpy(gguf.dequantize(gguf.quantize(model.lm_head.weight.numpy(), Kind[kind]), Kind[kind]))
    assert torch.equal(found.model.lm_head.weight, stands)
    assert found.model.lm_head.weight is found.model.model.embed_tokens.weight
    assert not torch.equal(stands, model.lm_head.weight)
    assert f" {kind}" in found.notes[0]
    assert ("dequantized to float32" in found.notes[0]) == (kind not in ("F16", "BF16"))


def random_blocks(kind: Kind, shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of a type that nothing here makes: any bytes are some, with scales that are small numbers."""
    block, nbytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(2).integers(0, 256, (int(np.prod(shape)) // block, nbytes), np.uint8)
    scales = slice(0, 4) if kind is Kind.Q4_K else slice(nbytes - 2, nbytes)
    count = 2 if kind is Kind.Q4_K else 1
    blocks[:, scales] = np.full(count, 1e-3, np.float16).view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def test_mixed_types_are_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    """As files of 4 bits are made: most of Q4_K, some of Q6_K."""
    model = llama()
    tensors = tensors_of(model)
    mixed = {name: Kind.Q6_K if "ffn_down" in name else Kind.Q4_K for name, array in tensors.items() if array.ndim > 1}
    packed = {name: random_blocks(kind, tensors[name].shape) for name, kind in mixed.items()}
    plain = {name: gguf.dequantize(blocks, mixed[name]) for name, blocks in packed.items()}
    expected = open_decoder(write(tmp_path / "plain.gguf", model, tensors={**tensors, **plain})).model
    found = open_decoder(write(tmp_path / "m.gguf", model, tensors={**tensors, **packed}, raw=mixed))
    assert "those of Q4_K, Q6_K are dequantized to float32" in found.notes[0]
    given = expected.state_dict()
    assert all(torch.equal(tensor, given[name]) for name, tensor in found.model.state_dict().items())


def test_rotary_factors_are_those_of_the_model(tmp_path: Path) -> None:
    """Llama 3's are a tensor of the file, which transformers leaves out."""
    rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    model = llama(rope_parameters={**rope, "original_max_position_embeddings": 16})
    plain = llama(rope_parameters={"rope_type": "default", "rope_theta": 1e4})
    factors = (plain.model.rotary_emb.inv_freq / model.model.rotary_emb.inv_freq).numpy()
    assert factors.max() > 2
    tensors = {**tensors_of(model), "rope_freqs.weight": factors}
    found = open_decoder(write(tmp_path / "m.gguf", model, tensors=tensors))
    np.testing.assert_allclose(logits(found.model), logits(model), rtol=1e-4, atol=1e-5)
    assert "rope_freqs.weight" in found.notes[1]


# ---------------------------------------------------- tokenizers


WORDS = [
    "Once upon a time",
    " two  spaces",
    "naïve café — 12345",
    "it's\n\n\tI'LL",
    "漢字かな",
    "🙂👩‍👩‍👧",
    "<|begin|>x<|end|>",
    "",
]


def test_the_tokenizer_of_the_file_is_that_of_the_model(tmp_path: Path) -> None:
    own = Tokenizer.from_file(str(Path(tapml.__file__).parent / "models" / "tiny" / "tokenizer.json"))
    document = json.loads(own.to_str())
    vocabulary = sorted(document["model"]["vocab"], key=document["model"]["vocab"].__getitem__)
    special = {token["content"] for token in document["added_tokens"]}

    def put(writer: gguf.GGUFWriter) -> None:
        writer.add_string("tokenizer.ggml.model", "gpt2")
        writer.add_string("tokenizer.ggml.pre", "qwen2")
        writer.add_array("tokenizer.ggml.tokens", vocabulary)
        writer.add_array("tokenizer.ggml.token_type", [3 if token in special else 1 for token in vocabulary])
        writer.add_array("tokenizer.ggml.merges", [" ".join(pair) for pair in document["model"]["merges"]])

    path = write(tmp_path / "m.gguf", llama(vocab_size=len(vocabulary), hidden_size=32), tokenizer=put)
    text = open_decoder(path).tokenizer
    assert text is not None
    found = Tokenizer.from_str(text)
    for word in WORDS:
        assert found.encode(word, add_special_tokens=False).ids == own.encode(word, add_special_tokens=False).ids, word
    assert open_decoder(write(tmp_path / "n.gguf", llama(), tokenizer=named("gpt2", "sanskrit"))).tokenizer is None


def named(kind: str, split: str) -> Callable[[gguf.GGUFWriter], None]:
    def put(writer: gguf.GGUFWriter) -> None:
        writer.add_string("tokenizer.ggml.model", kind)
        writer.add_string("tokenizer.ggml.pre", split)

    return put


# ---------------------------------------------------- files that are wrong


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rope.scaling.type": "yarn"}, r"m\.gguf: llama\.rope\.scaling\.type is yarn, which transformers leaves out"),
        ({"attention.sliding_window": 8}, r"llama\.attention\.sliding_window is 8"),
        ({"attention.value_length": 32}, r"llama\.attention\.value_length is 32, .*\(64 is what it computes with\)"),
        ({"expert_count": 8}, r"llama\.expert_count is 8"),
        ({"block_count": 4_000_000}, r"4000000 layers of 21 tensors"),
        ({"block_count": 3}, r"its tensors are not those of its configuration: without blk\.2\.attn_k\.weight"),
        ({"embedding_length": 2**31}, r"llama\.embedding_length is 2147483648, which is no size of a model"),
        ({"embedding_length": 128}, r"its tensors are not those .*is \[.*\], and LlamaForCausalLM takes"),
        ({"attention.head_count": 0}, r"does not say llama\.attention\.head_count"),
    ],
)
def test_values_that_make_another_model_are_refused(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_decoder(write(tmp_path / "m.gguf", llama(), values=values))


def test_missing_surplus_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    model = llama()
    tensors = tensors_of(model)
    del tensors["blk.1.ffn_up.weight"]
    tensors["blk.0.ffn_gate_exps.weight"] = np.zeros((2, 2, 2), np.float32)
    tensors["blk.0.attn_k.weight"] = tensors["blk.0.attn_k.weight"][:-2]
    with pytest.raises(InputError) as refused:
        open_decoder(write(tmp_path / "m.gguf", model, tensors=tensors))
    for said in (
        "without blk.1.ffn_up.weight",
        "with blk.0.ffn_gate_exps.weight, which LlamaForCausalLM has not",
        "blk.0.attn_k.weight is [126, 256], and LlamaForCausalLM takes [128, 256]",
    ):
        assert said in str(refused.value)


def test_architectures_and_types_that_are_not_read_are_named(tmp_path: Path) -> None:
    model = llama()
    path = write(tmp_path / "m.gguf", model)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0plamo"))
    with pytest.raises(InputError, match=r"architecture plamo, which is not read from GGUF files \(llama, "):
        open_decoder(path)
    tensors = {**tensors_of(model), "output_norm.weight": np.ones(256, np.float64)}
    with pytest.raises(InputError, match=r"the tensor output_norm\.weight is of the type F64, which is not read: conv"):
        open_decoder(write(tmp_path / "m.gguf", model, tensors=tensors))


def header(tensors: int, values: int, *parts: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + b"".join(parts)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


KIND = text("general.architecture") + struct.pack("<I", 8) + text("llama")


def entry(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read as a GGUF file"),
        (b"PK\3\4" + bytes(64), "is no GGUF file"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1), "of a big-endian machine"),
        (b"GGUF" + struct.pack("<IQQ", 1, 1, 1), "of version 1"),
        (header(2**60, 1, KIND), f"says that it has {2**60} tensors"),
        (header(0, 2**63, KIND), f"says that it has {2**63} values"),
        (header(0, 1, struct.pack("<Q", 2**62), bytes(64)), "ends within the name of value 0"),
        (header(0, 1, text("a"), struct.pack("<IIQ", 9, 6, 2**61), bytes(64)), "ends within a:"),
        (header(0, 1, text("a"), struct.pack("<IIQ", 9, 8, 2**61), bytes(64)), "ends within a:"),
        (header(0, 1, text("a"), struct.pack("<IIQ", 9, 9, 1), bytes(64)), "the value a is of the type 9"),
        (header(0, 1, text("a"), struct.pack("<I", 77), bytes(64)), "the value a is of the type 77"),
        (header(0, 1, text("a"), struct.pack("<If", 6, 1), bytes(64)), "names no general.architecture"),
        (header(0, 2, KIND, KIND), "has the value general.architecture twice"),
        (header(0, 1, struct.pack("<Q", 2) + b"\xff\xfe", bytes(64)), "is no UTF-8 text"),
        (header(1, 1, KIND, entry("w", (4,) * 9)), "the tensor w has 9 dimensions"),
        (header(1, 1, KIND, entry("w", (0, 4))), r"the tensor w of type F32 is \[4, 0\]"),
        (
            header(1, 1, KIND, entry("w", (33, 4), 8)),
            r"the tensor w of type Q8_0 is \[4, 33\], no rows of whole blocks",
        ),
        (header(1, 1, KIND, entry("w", (32,), 999)), "the tensor w is of the type number 999"),
        (header(1, 1, KIND, entry("w", (2**32, 2**32))), "ends before the tensor w does"),
        (header(1, 1, KIND, entry("w", (32,), 0, 2**62)), "ends before the tensor w does"),
        (header(1, 1, KIND, entry("w", (32,), 0, 3)), "begins at no multiple of 32"),
        (header(2, 1, KIND, entry("w", (1,)), entry("w", (1,)), bytes(256)), "has the tensor w twice"),
    ],
)
def test_damaged_files_get_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as refused:
        read_gguf(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", llama(num_hidden_layers=1, hidden_size=32, intermediate_size=32))
    content = path.read_bytes()
    for end in [*range(0, 2600, 37), *range(2600, len(content) - 32, 4001)]:
        path.write_bytes(content[:end])
        with pytest.raises(InputError):
            read_gguf(path)


def test_a_folder_has_one_of_them(tmp_path: Path) -> None:
    model = llama(num_hidden_layers=1)
    write(tmp_path / "m.gguf", model)
    np.testing.assert_array_equal(logits(open_decoder(tmp_path).model), logits(model))
    write(tmp_path / "n.gguf", model)
    with pytest.raises(InputError, match=r"several GGUF files \(m\.gguf, n\.gguf\): give one of them"):
        open_decoder(tmp_path)


def test_values_are_as_the_library_reads_them(tmp_path: Path) -> None:
    model = llama()
    path = write(tmp_path / "m.gguf", model, Kind.Q8_0)
    found, reader = read_gguf(path), gguf.GGUFReader(path)
    assert {name: (kind, shape) for name, (kind, shape) in found.tensors.items()} == {
        tensor.name: (tensor.tensor_type.name, tuple(reversed(tensor.shape.tolist()))) for tensor in reader.tensors
    }
    for key, value in values_of(model).items():
        assert found.metadata[f"llama.{key}"] == pytest.approx(value)
