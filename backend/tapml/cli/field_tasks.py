"""`tapml field key`, `init` and `publish`: tasks, by git."""

from __future__ import annotations

import argparse

from rich.console import Console

from tapml.cli.outputs import Outputs
from tapml.field.signing import new_key, read_key
from tapml.field.tasks.publish import publish as make_version
from tapml.field.tasks.publish import scenario_path
from tapml.field.tasks.repository import Repository


def key(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """A new key; prints its public half."""
    made = new_key(options.output)
    progress.print(f"{options.output} is the private key: keep it; this is the public one:")
    console.print(made.public)
    return 0


def init(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """An empty repository for a scenario."""
    path = scenario_path(options.group, options.scenario)
    Repository.init(path)
    console.print(f"{path} is there: push branches TASK and tags TASK/VERSION to it")
    return 0


def publish(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """A tag as a version; prints the digest of its manifest."""
    signing_key = read_key(options.key)
    digest = make_version(options.group, options.task, options.version, signing_key)
    outputs = Outputs(progress)
    document = {
        "format": "tapml.field-version/1", "task": options.task, "version": options.version, "manifest": digest,
    }  # fmt: skip
    outputs.report(options.json, document, lambda: console.print(digest))
    return outputs.exit_code(0)
