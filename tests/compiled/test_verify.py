"""The proof of a compiled model: documents, and the sentence that refuses each (tests/vectors/compiled.json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from compiled_models import appended, beside, chained, doubled, generating, growing, looped
from tapml.compiled.model import CompiledModel
from tapml.compiled.verify import verify
from tapml.errors import InputError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "compiled.json").read_text())


def test_the_documents_are_those_by_hand() -> None:
    assert VECTORS["documents"] == {
        "chained": chained(),
        "looped": looped(),
        "generating": generating(),
        "growing": growing(),
        "appended": appended(),
        "beside": beside(),
    }


@pytest.mark.parametrize(
    "document",
    [chained(), looped(), generating(), growing(), appended(), beside(), doubled()[0].model_dump(by_alias=True)],
)
def test_a_whole_model_is_proven(document: Any) -> None:
    verify(CompiledModel.model_validate(document))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["title"])
def test_what_cannot_be_shown_is_refused_in_one_sentence(case: Any) -> None:
    document = changed(VECTORS["documents"][case["document"]], case["changes"])
    if case.get("form"):
        with pytest.raises(ValidationError):
            CompiledModel.model_validate(document)
        return
    model = CompiledModel.model_validate(document)
    if case["error"] is None:
        verify(model)
    else:
        with pytest.raises(InputError) as refused:
            verify(model)
        assert str(refused.value) == case["error"]


def changed(document: Any, changes: list[Any]) -> Any:
    document = copy.deepcopy(document)
    for (*path, last), value in changes:
        place = document
        for part in path:
            place = place[part]
        if isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return document
