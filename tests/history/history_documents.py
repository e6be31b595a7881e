"""Documents of runs that never were."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from tapml.suite import Suite

BEGIN = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


WORST = {"output": 0, "index": [3], "expected": 1.0, "got": 1.5, "bound": 0.25}


def device(name: str = "Chromium 150", **changes: Any) -> Any:
    adapter = {"vendor": "google", "architecture": "swiftshader", "device": "", "description": "SwiftShader 5.0"}
    return {
        "id": name.replace(" ", "-").lower(), "name": name, "runtime": "browser", "user_agent": f"Mozilla ({name})",
        "adapter": adapter, "features": [], "limits": {}, **changes,
    }  # fmt: skip


def result(test: str = "n000.s0", verdict: str = "pass", **changes: Any) -> Any:
    return {
        "id": test, "kernel": "softmax", "verdict": verdict, "max_abs_error": 1e-7, "max_rel_error": 1e-6,
        "max_ulp": 2, "worst": WORST, "tolerances": [],
        "mismatched": 0 if verdict == "pass" else 3, "total": 96, "message": "", "variant": "256",
        "seconds": {"fetch": 0, "compile": 0, "run": 0.002, "compare": 0, "gpu": 0.001}, **changes,
    }  # fmt: skip


def document(
    suite: Suite,
    day: float,
    tests: Sequence[Mapping[str, Any]],
    *,
    devices: Sequence[Mapping[str, Any]] | None = None,
    digest: str = "aaaa",
    **changes: Any,
) -> Any:
    """A run on that day (0 is the first) in which every device got the same results."""
    found = devices or [device()]
    return {
        "format": "tapml.validation/1", "run": f"run {day}", "suite": suite.id, "suite_name": suite.name,
        "created": (BEGIN + datetime.timedelta(days=day)).isoformat(),
        "kernel_digests": {test["kernel"]: digest for test in tests},
        "devices": list(found),
        "tests": [{**test, "device": entry["id"]} for entry in found for test in tests],
        **changes,
    }  # fmt: skip


def day_of(moment: Mapping[str, Any]) -> float:
    """Which day a trend's moment is of."""
    return (datetime.datetime.fromisoformat(moment["created"]) - BEGIN) / datetime.timedelta(days=1)
