"""The suites a server shows, by the id their address carries."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import abort

from tapml.devices import Blobs
from tapml.files import unique
from tapml.history import Recorder
from tapml.jobs.written_text import carved_prompt
from tapml.suite import Suite
from tapml.suite.digests import read_sha256
from tapml.suite.kernels import SuiteKernel, kernels_id
from tapml.validation.operatorwise import recover

_LOG = logging.getLogger(__name__)


class SuiteRegistry:
    """Suites by id: the folder's name made fit for an address, numbered where two are alike."""

    def __init__(self, blobs: Blobs, history: Recorder | None = None) -> None:
        self._blobs = blobs
        self._history = history
        self._lock = threading.Lock()
        self._paths: dict[str, Path] = {}
        self._read: dict[str, tuple[str, Suite]] = {}
        """By id, what was read last and the digest of what it was read from."""

    def add(self, path: Path) -> str:
        """Raises InputError where `path` is no suite."""
        suite = Suite(path)
        for problem in recover(suite, self._history):
            _LOG.warning(problem)
        self._blobs.add_store(suite.tensors)
        resolved = path.resolve()
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", suite.folder_name).strip("-").lower() or "suite"
        with self._lock:
            for known, other in self._paths.items():
                if other == resolved:
                    return known
            suite_id = unique(slug, self._paths.__contains__)
            self._paths[suite_id] = resolved
        return suite_id

    def require(self, suite_id: str) -> Suite:
        """The suite as it is on disk now; an unknown id is HTTP's 404.

        Its graph and its tests are read again only where their files are others: of a deep model they take a fifth of
        a second, which each click would wait for. Kernels, tensors and results are read when they are asked for."""
        with self._lock:
            path = self._paths.get(suite_id)
            known = self._read.get(suite_id)
        if path is None:
            abort(404, f"this server shows no suite {suite_id!r}")
        # Before it is read: what is written meanwhile is another one the next time.
        digest = read_sha256(path)
        if known is not None and digest is not None and known[0] == digest:
            return known[1]
        suite = Suite(path)
        with self._lock:
            if digest is not None:
                self._read[suite_id] = digest, suite
        return suite

    def paths(self) -> list[Path]:
        """Folders of all suites."""
        with self._lock:
            return list(self._paths.values())

    def ids(self) -> list[str]:
        with self._lock:
            return list(self._paths)

    def items(self) -> list[tuple[str, Path]]:
        """Ids and folders of all suites."""
        with self._lock:
            return list(self._paths.items())


def summary(suite_id: str, suite: Suite) -> dict[str, Any]:
    """SuiteSummary of docs/http-api.md."""
    return _summary(suite_id, suite, {name: suite.kernel(name) for name in suite.kernels})


def _summary(suite_id: str, suite: Suite, kernels: Mapping[str, SuiteKernel]) -> dict[str, Any]:
    manifest: Mapping[str, Any] = suite.manifest
    model = manifest["model"]
    return {
        "id": suite_id,
        "content": suite.id,
        "kernels_id": kernels_id({name: kernel.files for name, kernel in kernels.items()}),
        "name": suite.folder_name,
        "created": manifest["created"],
        "model": {"kind": model["kind"], "source": model["source"], "title": model.get("title", suite.name)},
        "synthetic": suite.synthetic,
        "nodes": len(suite.graph.kernel_nodes),
        "kernels": len(suite.kernels),
        "tests": len(suite.tests),
        "bytes": suite.nbytes(),
        "edited": [name for name, kernel in kernels.items() if kernel.edited],
        "oracle": manifest["oracle"],
        "oracle_missing": manifest.get("oracle_missing"),
        "doubts": suite.doubts,
        "reference": manifest["reference"],
    }


def detail(suite_id: str, suite: Suite) -> dict[str, Any]:
    """SuiteDetail of docs/http-api.md."""
    # Each read and checked once.
    found = {name: suite.kernel(name) for name in suite.kernels}
    calls = Counter(node.kernel for node in suite.graph.kernel_nodes)
    kernels = []
    for name, kernel in found.items():
        bundle = kernel.document
        kernels.append(
            {
                "kernel": name,
                "nodes": calls[name],
                "edited": kernel.edited,
                "compiler": bundle["compiler"]["name"],
                "unsupported": bundle["unsupported"],
                "variants": [variant["name"] for variant in bundle["variants"]],
                "encodings": {one["name"]: one["encodings"] for one in bundle["variants"] if one.get("encodings")},
                "files": [entry["file"] for variant in bundle["variants"] for entry in variant["entry_points"]],
            }
        )
    return {
        **_summary(suite_id, suite, found),
        "steps": suite.manifest["steps"],
        "graph": suite.graph.to_json(),
        "generation": _generation(suite),
        "tests": [{"id": test.id, "node": test.node, "kernel": test.kernel, "step": test.step} for test in suite.tests],
        "kernels": kernels,
    }


def _generation(suite: Suite) -> dict[str, Any] | None:
    """What a page says of a text before it is written; null where the model writes none."""
    facts = suite.generation
    if facts is None:
        return None
    return {
        "capacity": facts.capacity,
        "vocabulary": facts.vocabulary,
        "bytes_per_token": facts.bytes_per_token,
        "tokenizer": suite.tokenizer is not None,
        "encoder": bool(facts.given),
        "prompt": carved_prompt(suite),
    }
