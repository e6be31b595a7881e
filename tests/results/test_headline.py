"""What a verdict comes to is said in the same words by every report and every page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tapml.results.headline import of_bound, share_of, share_text

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "headline.json").read_text())["results"]


@pytest.mark.parametrize("vector", VECTORS, ids=json.dumps)
def test_the_worst_element_is_told_by_its_bound(vector: dict[str, Any]) -> None:
    worst = vector["worst"] and {
        "output": 0, "index": [0], **dict(zip(("expected", "got", "bound"), vector["worst"], strict=True))
    }  # fmt: skip
    absolute, relative = vector.get("tolerance", (None, None))
    tolerances: list[Any] = [] if absolute is None else [{"absolute": absolute, "relative": relative}]
    result = {"worst": worst, "tolerances": tolerances, "max_abs_error": vector.get("max_abs_error", 1.0)}
    share = share_of(worst, tolerances, result["max_abs_error"])
    assert of_bound(result) == vector["says"]
    assert (None if share is None else share_text(share)) == vector["cell"]
