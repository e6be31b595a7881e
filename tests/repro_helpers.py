"""Results and exported tests for tests, harmless and harmful."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapml.npy import opening
from tapml.results.validation import counts
from tapml.sharing import Repro, read
from tapml.sharing.document import checked, with_texts
from tapml.sharing.repro import of_memory
from tapml.suite import Suite
from tapml.validation.results import identity


def read_data(where: str, data: bytes, folder: Path) -> Repro:
    """What lies in a file of these bytes."""
    path = folder / "received"
    path.write_bytes(data)
    return read(where, opening(path))


NASTY = "<script>alert(1)</script> `|` {{tensors}} \"'\\ \u2028 é \n# heading"


def keep_result(
    suite: Suite,
    test_id: str,
    verdict: str = "fail",
    device: str = "Fake 1",
    kernels: Mapping[str, str] | None = None,
    **changes: Any,
) -> None:
    """Save one result, as a validation would. `kernels`: digests of those that ran."""
    result: Any = {
        **identity(suite.test(test_id), "d1"), "edited": False,
        "verdict": verdict, "max_abs_error": 0.5, "max_rel_error": 0.25, "max_ulp": 4096.0,
        "ulp_histogram": [90, 5, 1], "mismatched": 6, "total": 96, "nan": 0, "inf": 0,
        "first": {"output": 0, "index": [0, 3], "expected": 1.0, "got": 1.5},
        "worst": {"output": 0, "index": [5, 1], "expected": "Infinity", "got": "NaN"},
        "seconds": {"run": 0.001}, "message": "6 of 96 elements differ", "variant": "256", "error": None,
        "diagnostics": [], **changes,
    }  # fmt: skip
    described = {
        "id": "d1", "name": device, "runtime": "tests", "user_agent": "Fake/1", "features": ["shader-f16"],
        "adapter": {"vendor": "nobody", "architecture": "", "device": "", "description": ""},
        "limits": {"maxComputeInvocationsPerWorkgroup": 256},
    }  # fmt: skip
    document: Any = {
        "format": "tapml.validation/1", "suite": suite.id, "suite_name": suite.name, "synthetic": False,
        "created": "2026-11-21T10:00:00+00:00", "interrupted": False, "edited_kernels": [], "devices": [described],
        "kernel_digests": dict(kernels or {}),
        "tests": [result], "summary": {**counts([result]), "seconds": 0.1, "devices": {}},
    }  # fmt: skip
    suite.save_result(document)


def nasty(repro: Repro, wgsl: str = "// </script><script>alert(1)</script> <!-- é\r\n\x00") -> Repro:
    """The same test with names and messages that mean harm."""
    found = json.loads(repro.document.model_dump_json())
    for place in (found["suite"], found["model"]):
        for key in place:
            if isinstance(place[key], str):
                place[key] = NASTY
    found["reference"]["device"] = found["test"]["node"] = found["tapml"] = NASTY
    found["inputs"][0]["name"] = found["outputs"][0]["name"] = NASTY
    found["outputs"][0]["tolerance"]["reasons"] = [NASTY]
    found["report"]["result"]["message"] = NASTY
    found["report"]["device"]["name"] = found["report"]["device"]["user_agent"] = NASTY
    document = checked("nasty", found)
    document = with_texts("nasty", document, {file.name: file.text + wgsl for file in document.files})
    return of_memory("nasty", document, {digest: repro.read(digest) for digest in repro.digests})
