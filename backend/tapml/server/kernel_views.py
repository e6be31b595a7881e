"""HTTP of one kernel: what it is made of, and writing it (docs/http-api.md)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

from flask import Blueprint, Response, abort, jsonify
from pydantic import Field

from tapml.devices.messages import digest_now
from tapml.errors import InputError
from tapml.files import sha256
from tapml.formats import validated
from tapml.protocol.base import Digest, Message
from tapml.server.bodies import json_object
from tapml.server.state import State
from tapml.server.watching import state_of
from tapml.suite import Suite
from tapml.suite.suite import MOST_KERNEL_BYTES
from tapml.suite.texts import keep_text, read_texts, text_of
from tapml.suite.trial import WrittenMeanwhile, files_of, with_files, write_file
from tapml.validation.events import now


class _Written(Message):
    text: Annotated[str, Field(max_length=1 << 20)]
    was: Digest
    """SHA-256 of the text that this one was made from."""


class _Tried(Message):
    files: Annotated[dict[str, Annotated[str, Field(max_length=MOST_KERNEL_BYTES)]], Field(min_length=1, max_length=64)]


def add(routes: Blueprint, state: State) -> None:
    """All routes of this module."""

    @routes.get("/api/suites/<suite_id>/kernels/<kernel>")
    def kernel_detail(suite_id: str, kernel: str) -> Response:
        return jsonify(_detail(state.suites.require(suite_id), kernel))

    @routes.get("/api/suites/<suite_id>/kernels/<kernel>/versions")
    def versions(suite_id: str, kernel: str) -> Response:
        suite = state.suites.require(suite_id)
        suite.bundle(kernel)
        return jsonify({"versions": read_texts(suite, kernel)})

    @routes.post("/api/suites/<suite_id>/kernels/<kernel>/check")
    def check(suite_id: str, kernel: str) -> Response:
        suite = state.suites.require(suite_id)
        suite.bundle(kernel)
        body = validated("the texts", _Tried, json_object(), ": see docs/http-api.md")
        try:
            with_files(suite, [kernel], body.files)
        except InputError as error:
            return jsonify({"problem": str(error)})
        return jsonify({"problem": None})

    @routes.put("/api/suites/<suite_id>/kernels/<kernel>/files/<name>")
    def write(suite_id: str, kernel: str, name: str) -> Response:
        suite = state.suites.require(suite_id)
        body = validated("the file", _Written, json_object(), ": see docs/http-api.md")
        if name not in files_of(suite, kernel):
            abort(404, f"kernel {kernel} has no file {name!r}")
        try:
            with state.writing:
                _keep_generated(suite, kernel)
                write_file(suite, kernel, name, body.text, body.was)
        except WrittenMeanwhile as error:
            abort(409, str(error))
        return jsonify({"digest": sha256(body.text), "kernel": state_of(suite, kernel)})


def _keep_generated(suite: Suite, kernel: str) -> None:
    """Before it is edited: what was generated and never ran is nowhere else."""
    with contextlib.suppress(InputError, OSError):  # a damaged one is there to be mended, with its text or without
        found = text_of(suite, kernel, digest_now(suite, kernel), now())
        if not found["edited"]:
            keep_text(suite, kernel, found)


def _detail(suite: Suite, kernel: str) -> dict[str, Any]:
    bundle = suite.bundle(kernel)
    folder = suite.path.resolve() / "kernels"
    files = [{**_file(folder, found.name, found.text), "edited": found.edited} for found in suite.kernel_files(kernel)]
    document = f"{kernel}.json"
    return {
        "kernel": kernel,
        "files": files,
        "document": _file(folder, document, suite.folder.read_text(f"kernels/{document}", MOST_KERNEL_BYTES)),
        "nodes": [node.id for node in suite.graph.nodes_of(kernel)],
        "bundle": bundle,
        "unsupported": bundle["unsupported"],
        "digest": state_of(suite, kernel)["digest"],
    }


def _file(folder: Path, name: str, text: str) -> dict[str, Any]:
    return {"name": name, "text": text, "digest": sha256(text), "path": str(folder / name)}
