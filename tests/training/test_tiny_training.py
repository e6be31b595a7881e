"""training/tiny: the model is transformers' Llama, and training it goes down, ends, and goes on where it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.torch

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = CHECKOUT / "training/tiny"
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.mark.usefixtures("scripts")
def test_logits_are_those_of_transformers() -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from llama import Config, Llama  # type: ignore[import-not-found]

    torch.manual_seed(0)
    config = Config(vocab_size=300, **SIZES)
    ours = Llama(config).eval()
    for parameter in ours.parameters():
        torch.nn.init.uniform_(parameter, *((-0.3, 0.3) if parameter.dim() == 2 else (0.5, 1.5)))
    theirs = LlamaForCausalLM(LlamaConfig(**{**config.as_transformers(), "dtype": "float32"})).eval()
    state = {**ours.state_dict(), "lm_head.weight": ours.model.embed_tokens.weight}
    theirs.load_state_dict(state, strict=True)
    tokens = torch.randint(0, 300, (2, 64))
    with torch.no_grad():
        found, expected = ours(tokens), theirs(tokens).logits
    assert expected.abs().max() > 1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Sentences that repeat, of two sources, the way prepare.py writes them."""
    random = np.random.default_rng(0)
    phrases = random.integers(2, 60, (8, 12))
    documents = [np.concatenate(([0], phrases[random.integers(0, 8, 3)].ravel(), [1])) for _ in range(60)]
    path = tmp_path / "corpus.npz"
    np.savez(
        path,
        tokens=np.concatenate(documents).astype(np.uint16),
        starts=np.cumsum([0, *map(len, documents)], dtype=np.int64),
        sources=np.arange(60, dtype=np.int8) % 2,
        bytes=np.full(60, 100, np.int32),
        held_out=np.arange(60) % 7 == 3,
        names=np.array(["even", "odd"]),
        repeats=np.array([1, 2], np.int8),
        vocabulary=np.int32(64),
    )
    return path


@pytest.fixture
def train(corpus: Path, tmp_path: Path) -> Callable[..., Path]:
    def run(name: str, *more: str) -> Path:
        folder = tmp_path / name
        options = ["--corpus", corpus, "--output", folder, "--device", "cpu", "--config", json.dumps(SIZES)]
        sizes = ["--batch", "4", "--length", "32", "--warm-up", "5", "--report", "20", "--steps", "40"]
        command = [sys.executable, SCRIPTS / "train.py", *options, *sizes, *more]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        return folder

    return run


def weights(folder: Path) -> dict[str, np.ndarray]:
    return dict(np.load(folder / "weights-0.npz"))


@pytest.mark.slow
def test_a_run_learns_and_one_that_ended_early_goes_on_as_if_it_had_not(
    train: Callable[..., Path], tmp_path: Path
) -> None:
    whole = train("whole")
    document = json.loads((whole / "training.json").read_text())
    first, last = document["history"][0], document["history"][-1]
    assert last["step"] == document["steps"] == 40
    assert document["held_out_float32"]["all"]["perplexity"] < 0.8 * 64  # of 64 tokens, all as likely
    assert last["train_loss"] < first["train_loss"]
    assert document["held_out_float32"].keys() == {"all", "even", "odd"}

    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint.pt")]
    train("half", *checkpoint)  # leaves the checkpoint of step 20
    resumed = weights(train("resumed", *checkpoint))
    for name, expected in weights(whole).items():
        np.testing.assert_allclose(resumed[name], expected, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.usefixtures("scripts")
def test_an_export_is_what_transformers_reads_and_refuses_what_float16_cannot_hold(tmp_path: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models
    from transformers import LlamaForCausalLM

    from export import export  # type: ignore[import-not-found]
    from llama import Config, Llama

    model = Llama(Config(vocab_size=64, **SIZES)).eval()
    trained = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    np.savez(tmp_path / "weights-0.npz", **trained)
    (tmp_path / "training.json").write_text(json.dumps({"config": {"vocab_size": 64, **SIZES}}))
    Tokenizer(models.BPE()).save(str(tmp_path / "tokenizer.json"))
    folder = tmp_path / "model"
    export(tmp_path, folder, tmp_path / "tokenizer.json")
    read, information = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not information["missing_keys"]
    assert not information["unexpected_keys"]
    tokens = torch.arange(40)[None]
    with torch.no_grad():
        torch.testing.assert_close(read(tokens).logits, model(tokens), rtol=0, atol=1e-3)

    trained["model.norm.weight"][0] = 1e6
    np.savez(tmp_path / "weights-0.npz", **trained)
    with pytest.raises(SystemExit, match=r"model\.norm\.weight has numbers that float16 cannot hold"):
        export(tmp_path, folder, tmp_path / "tokenizer.json")
