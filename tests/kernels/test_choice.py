"""Which variant a device runs, and of which class it is: the runner gives the same for the same vectors
(runner_js/src/program/choice.test.ts)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tapml.kernels.choice import best_fitting
from tapml.kernels.device_class import device_classes
from tapml.protocol.kernels import Variant

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "choices.json").read_text())
LIMITS = {"maxComputeWorkgroupStorageSize": 16384.0}


@pytest.mark.parametrize(("adapter", "classes"), VECTORS["classes"])
def test_a_device_is_of_these_classes(adapter: dict[str, str], classes: list[str]) -> None:
    assert device_classes(adapter) == classes


@pytest.mark.parametrize("case", VECTORS["choices"], ids=lambda case: case["why"])
def test_the_variant_that_is_expected_to_be_fastest_runs(case: dict[str, Any]) -> None:
    variants = [variant(*given) for given in case["variants"]]
    best = best_fitting(variants, VECTORS["devices"][case["device"]], [], LIMITS)
    assert (best and best.name) == case["best"]


def variant(name: str, requires: dict[str, Any], expected: dict[str, float] | None) -> Variant:
    return Variant.model_validate(
        {
            "name": name,
            "requires": {"features": [], "limits": {}, **requires},
            "entry_points": [{"name": "f", "file": "f.wgsl", "code": "0" * 64, "bindings": []}],
            "launches": [],
            "temporaries": [],
            "expected": expected,
        }
    )
