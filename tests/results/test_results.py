"""Results have one definition: the schema in docs is made from it, and the pages name its fields and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tapml.results.base import ModelMetric, ModelTolerance, badness
from tapml.results.checks import RESULTS, TEST_RESULT
from tapml.results.schema import schema

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("results-format.md", "locate.md")


def test_the_schema_in_docs_is_the_definitions() -> None:
    assert json.loads((DOCS / "results.schema.json").read_text()) == schema(), "run `make schemas`"


def told() -> dict[str, tuple[list[str], set[str]]]:
    """Interfaces of the pages: name -> (what it extends, its own fields)."""
    found = {}
    for page in PAGES:
        for block in re.findall(r"```ts\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            text = re.sub(r"//[^\n]*", "", block)
            for name, bases, body in re.findall(
                r"interface (\w+)(?: extends ([\w, ]+?))? \{(.*?) ?\n?\}\n", text, re.DOTALL
            ):
                fields = set(re.findall(r"(?:^|[\s,])(\w+)\??: ", re.sub(r"\{\[name: string\]", "", body)))
                assert name not in found, f"{name} stands twice"
                found[name] = (bases.split(", ") if bases else [], fields)
    return found


def fields_of(name: str, found: dict[str, tuple[list[str], set[str]]]) -> set[str]:
    bases, own = found[name]
    return own.union(*(fields_of(base, found) for base in bases))


def test_the_pages_name_all_fields_and_no_others() -> None:
    found = told()
    defined = {name: set(form["properties"]) for name, form in schema()["$defs"].items() if "properties" in form}
    assert not defined.keys() - found.keys(), "types that no page names"
    for name, fields in defined.items():
        assert fields_of(name, found) == fields, name


def test_what_an_earlier_version_lacks_is_filled_in_and_the_unknown_is_left_out() -> None:
    old = {"id": "n000.s0", "node": "n000", "kernel": "add", "step": 0, "device": "d", "verdict": "pass", "later": 1}
    result = TEST_RESULT.validate_python(old)
    assert "later" not in result
    assert (result["unbounded"], result["tied"], result["variant"], result["tolerances"]) == (0, 0, None, [])
    properties = schema()["$defs"]["TestResult"]["properties"]
    assert result.keys() == properties.keys()


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("found", [None, [], {}, {"devices": []}, {"format": "tapml.validation/1", "tests": 7}])
def test_what_is_no_result_is_refused(kind: str, found: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RESULTS[kind].validate_python(found)


def test_the_worst_step_is_one_that_is_off_whatever_its_largest_error() -> None:
    tolerance: ModelTolerance = {"cosine": 0.999, "max_abs_error": 0.1, "reasons": []}
    good: ModelMetric = {"cosine": 1.0, "max_abs_error": 0.09, "step": 0}
    turned: ModelMetric = {"cosine": 0.5, "max_abs_error": 0.01, "step": 1}
    lost: ModelMetric = {"cosine": None, "max_abs_error": None, "step": 2}
    assert max(good, turned, key=lambda metric: badness(metric, tolerance)) is turned
    assert max(lost, good, turned, key=lambda metric: badness(metric, tolerance)) is lost
