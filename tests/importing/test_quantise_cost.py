"""What quantising costs: the figures, and a decoder of transformers, whose logits are compared over a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tapml.importing.quantise_cost import of_logits, of_pairs, said


def test_logits_that_are_the_same_cost_nothing() -> None:
    logits = np.random.default_rng(0).standard_normal((6, 20)).astype(np.float32)
    found = of_logits(logits, logits + 3, [1, 2, 3, 4, 5])  # a constant changes no probability
    assert found["kl_divergence"] == pytest.approx(0, abs=1e-6)
    assert found["agree"] == found["tokens"] == 6
    assert found["perplexity"][0] == pytest.approx(found["perplexity"][1], rel=1e-5)
    assert found["max_abs_difference"] == pytest.approx(3, rel=1e-5)


def test_figures_of_logits() -> None:
    """Of two words: likelihoods 1/2, 3/4 and 1/4 before, 1/2, 1/4 and 1/4 after."""
    before, after = (np.log(np.float64(p)) for p in ([[1, 1], [3, 1], [1, 3]], [[1, 1], [1, 3], [1, 3]]))
    found = of_logits(before, after, [0, 0])
    assert found["agree"] == 2
    assert found["perplexity"] == pytest.approx([(2 * 4 / 3) ** 0.5, (2 * 4) ** 0.5])
    assert found["kl_divergence"] == pytest.approx((0.75 * np.log(3) - 0.25 * np.log(3)) / 3)


def test_figures_of_outputs() -> None:
    pairs = [(np.float32([3, 4]), np.float32([3, 4])), (np.float32([1, 0]), np.float32([1, 1]))]
    found = of_pairs(pairs)
    assert found == {"cosine": pytest.approx(0.5**0.5), "max_abs_difference": 1, "largest": 4}
    assert of_pairs([(np.int32([1, 2, 3, 4]), np.int32([1, 2, 3, 5]))]) == {"equal": 0.75}
    assert said({"outputs": {"y": found, "best": {"equal": 0.75}}}) == (
        "y differs by up to 1 of 4, cosine 0.707107; 75 % of best are equal"
    )


@pytest.mark.torch
@pytest.mark.slow
def test_a_decoder_of_transformers(tmp_path: Path) -> None:
    from decoders import decoder
    from tapml.carving.carve import carve
    from tapml.importing import import_decoder

    config = decoder("grouped queries", tmp_path)
    model = import_decoder(config, prompt=[3, 17, 42, 99, 7], steps=1, capacity=32, chunk=4, quantise="q844")
    assert model.quantised is not None
    assert model.quantised.cost is not None
    found = model.quantised.cost["logits"]
    assert found["tokens"] == 5 + 60
    assert 0 < found["kl_divergence"] < 2
    assert {weight.kind for weight in model.quantised.weights} == {"q8", "q4f16"}
    suite = carve(model, tmp_path / "decoder.suite", name="decoder")
    assert suite.manifest["oracle"]["agrees"]
    assert suite.manifest["model"]["quantised"]["cost"]["logits"] == found
