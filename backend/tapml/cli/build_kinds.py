"""`tapml build`: with weights or without. What is not wanted is not loaded: what a cache has takes a moment."""

from __future__ import annotations

import argparse

from rich.console import Console

from tapml.cli.outputs import check_writable
from tapml.errors import InputError


def build(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_writable(options.json)
    if options.no_weights:
        from tapml.cli.unweighted_command import build_unweighted

        return build_unweighted(options, console, progress)
    if options.no_cache:
        raise InputError("--no-cache is for --no-weights: nothing else that is built is kept")
    from tapml.cli.build_command import build_model

    return build_model(options, console, progress)
