"""The suites a server shows, by the id their address carries."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import abort

from tapml.devices import Blobs
from tapml.files import unique
from tapml.history import Recorder
from tapml.suite import Suite
from tapml.validation.operatorwise import recover

_LOG = logging.getLogger(__name__)


class SuiteRegistry:
    """Suites by id: the folder's name made fit for an address, numbered where two are alike."""

    def __init__(self, blobs: Blobs, history: Recorder | None = None) -> None:
        self._blobs = blobs
        self._history = history
        self._lock = threading.Lock()
        self._paths: dict[str, Path] = {}

    def add(self, path: Path) -> str:
        """Raises InputError where `path` is no suite."""
        suite = Suite(path)
        for problem in recover(suite, self._history):
            _LOG.warning(problem)
        self._blobs.add_store(suite.tensors)
        resolved = path.resolve()
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", resolved.name.removesuffix(".suite")).strip("-").lower() or "suite"
        with self._lock:
            for known, other in self._paths.items():
                if other == resolved:
                    return known
            suite_id = unique(slug, self._paths.__contains__)
            self._paths[suite_id] = resolved
        return suite_id

    def require(self, suite_id: str) -> Suite:
        """The suite as it is on disk now (kernels may have been edited since); an unknown id is HTTP's 404."""
        with self._lock:
            path = self._paths.get(suite_id)
        if path is None:
            abort(404, f"this server shows no suite {suite_id!r}")
        return Suite(path)

    def paths(self) -> list[Path]:
        """Folders of all suites."""
        with self._lock:
            return list(self._paths.values())

    def ids(self) -> list[str]:
        with self._lock:
            return list(self._paths)


def summary(suite_id: str, suite: Suite) -> dict[str, Any]:
    """SuiteSummary of docs/http-api.md."""
    manifest: Mapping[str, Any] = suite.manifest
    model = manifest["model"]
    return {
        "id": suite_id,
        "content": suite.id,
        "kernels_id": suite.kernels_id,
        "name": suite.name,
        "created": manifest["created"],
        "model": {"kind": model["kind"], "source": model["source"], "title": model.get("title", suite.name)},
        "synthetic": suite.synthetic,
        "nodes": len(suite.graph.kernel_nodes),
        "kernels": len(suite.kernels),
        "tests": len(suite.tests),
        "bytes": suite.nbytes(),
        "edited": suite.edited_kernels,
        "oracle": manifest["oracle"],
        "oracle_missing": manifest.get("oracle_missing"),
        "doubts": suite.doubts,
        "reference": manifest["reference"],
    }


def detail(suite_id: str, suite: Suite) -> dict[str, Any]:
    """SuiteDetail of docs/http-api.md."""
    edited = set(suite.edited_kernels)
    kernels = []
    for name in suite.kernels:
        bundle = suite.bundle(name)
        kernels.append(
            {
                "kernel": name,
                "nodes": len(suite.graph.nodes_of(name)),
                "edited": name in edited,
                "compiler": bundle["compiler"]["name"],
                "unsupported": bundle["unsupported"],
                "variants": [variant["name"] for variant in bundle["variants"]],
                "files": [entry["file"] for variant in bundle["variants"] for entry in variant["entry_points"]],
            }
        )
    return {
        **summary(suite_id, suite),
        "steps": suite.manifest["steps"],
        "graph": suite.graph.to_json(),
        "tests": [{"id": test.id, "node": test.node, "kernel": test.kernel, "step": test.step} for test in suite.tests],
        "kernels": kernels,
    }
