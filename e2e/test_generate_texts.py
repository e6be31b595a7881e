"""Several texts in one call, and guesses: each text is the one that transformers writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pages import BROWSERS
from preloaded import tapml
from written import PROMPT, SECONDS, STEPS, check, of_transformers

pytestmark = [
    pytest.mark.slow,  # as test_generate.py
    pytest.mark.torch,
]


def test_guesses_change_nothing_but_the_calls(wanted: list[int], tiny: Path, tmp_path: Path) -> None:
    cache = {**os.environ, "TAPML_CACHE": str(tiny.parents[1])}
    for device in ("cpu", "node-dawn"):
        report = tmp_path / f"{device}.json"
        given = ["--prompt", PROMPT, "--tokens", 40, "--greedy", "--device", device, "--json", report]
        said = tapml("generate", "tiny", *given, "--speculate", "ngram", environment=cache, timeout=SECONDS)
        assert said.code == 0, said.err
        found = json.loads(report.read_text())
        check(found["ids"], wanted[:40], tiny)
        assert found["guessed"] > 10
        assert "tokens guessed rightly" in said.err


@pytest.mark.parametrize("device", ["cpu", "node-dawn", *BROWSERS])
def test_texts_in_one_call_are_those_of_transformers(device: str, tiny: Path, tmp_path: Path) -> None:
    """Of different lengths; two begin alike with more than a block."""
    prompts = ["Once upon a time", PROMPT * 3, "The", f"{PROMPT * 3}, and"]
    report = tmp_path / "written.json"
    given = [part for prompt in prompts for part in ("--prompt", prompt)]
    cache = {**os.environ, "TAPML_CACHE": str(tiny.parents[1])}
    options = ["--tokens", STEPS, "--greedy", "--device", device, "--json", report]
    said = tapml("generate", "tiny", *given, *map(str, options), environment=cache, timeout=SECONDS)
    assert said.code == 0, said.err
    # Built once, for one text and for several.
    assert list(tiny.parent.glob("*.tapml")) == [tiny]
    texts = json.loads(report.read_text())["texts"]
    for prompt, text in zip(prompts, texts, strict=True):
        expected = of_transformers(prompt)
        assert text["ids"] == expected[: len(text["ids"])], prompt
        assert text["reason"] == "end" or len(text["ids"]) == STEPS
