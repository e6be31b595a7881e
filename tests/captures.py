"""Captured calls as a page writes them, made of a suite's carved tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapml.building.kernels import compiled_kernels, kernel_documents
from tapml.files import sha256
from tapml.suite import Suite

Json = Any
DEVICE = {
    "name": "Chromium 156",
    "runtime": "browser",
    "user_agent": "Mozilla/5.0",
    "adapter": {"vendor": "nobody", "architecture": "", "device": "", "description": ""},
    "features": [],
    "limits": {"maxBufferSize": 1e9},
}


def capture_of(
    suite: Suite,
    path: Path,
    *,
    weights: bool = False,
    change: Callable[[Json, dict[str, bytes]], object] = lambda document, tensors: None,
) -> Path:
    """All tests of the suite as one captured call, with what the reference gave as what the device gave. `change` makes
    the document and its tensors, by digest, others."""
    wgsl, kernels = compiled_kernels(suite, kernel_documents(suite))
    parameters = {ref.digest for ref in suite.parameters.values()}
    tensors: dict[str, bytes] = {}

    def described(ref: Any) -> Json:
        weight = ref.digest in parameters
        if weights or not weight:
            tensors[ref.digest] = b"".join(suite.tensors.pieces(ref.digest))
        return {"name": "x", **ref.to_json(), "weight": weight}

    model = suite.manifest["model"]
    document = {
        "format": "tapml.capture/1",
        "created": "2026-11-23T00:00:00.000Z",
        "model": {
            **{"name": suite.name, "title": "small", "source": model["source"], "sha256": model["sha256"]},
            **{"suite": None, "tapml": "0.1.0", "doubts": []},
        },
        "device": DEVICE,
        "function": "main",
        "sizes": {},
        "left_out": 0,
        "wgsl": wgsl,
        "kernels": kernels,
        "operators": {kernel["kernel"]: json.dumps(suite.operator_document(kernel["kernel"])[1]) for kernel in kernels},
        "calls": [
            {
                **{"node": test.node, "kernel": test.kernel, "variant": "256", "sizes": {}},
                "inputs": [described(ref) for ref in test.inputs],
                "outputs": [described(ref) for ref in test.outputs],
            }
            for test in suite.tests
        ],
    }
    change(document, tensors)
    path.write_bytes(captured_bytes(document, tensors))
    return path


def captured_bytes(document: Json, tensors: dict[str, bytes]) -> bytes:
    """The file."""
    header: Json = {"__metadata__": {"tapml": json.dumps(document)}}
    at = 0
    for digest, data in tensors.items():
        header[digest] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(tensors.values())


def replaced(tensor: Json, tensors: dict[str, bytes], data: bytes) -> None:
    """Give a tensor other bytes."""
    tensor["digest"] = sha256(data)
    tensors[tensor["digest"]] = data
