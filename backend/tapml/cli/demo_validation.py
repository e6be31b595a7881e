"""The step that both demos have in common: each kernel of the suite, on a device."""

from __future__ import annotations

import argparse
from typing import cast

from rich.console import Console

from tapml.cli.runs import run
from tapml.jobs import JobSpecification
from tapml.reports.terminal import show_validation
from tapml.results.validation import ValidationDocument
from tapml.server import Server
from tapml.suite import Suite


def validate_and_show(
    suite: Suite, server: Server, options: argparse.Namespace, console: Console, progress: Console
) -> ValidationDocument:
    """What came of it, which may be `interrupted`."""
    console.rule(f"2. validate: every operator's WGSL kernel in {options.device}, on real WebGPU", align="left")
    job = JobSpecification(kind="validation", devices=[options.device])
    validation = cast(ValidationDocument, run(job, suite, options, progress, server))
    show_validation(console, validation)
    return validation
