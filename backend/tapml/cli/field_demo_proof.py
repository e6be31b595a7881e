"""What a shared link of a failure gives to whoever opens it: the failing test, which is run again in a browser."""

from __future__ import annotations

import argparse
import shutil
import urllib.request
from pathlib import Path
from typing import TypedDict

from rich.console import Console

from tapml.cli.runs import run
from tapml.jobs import JobSpecification
from tapml.npy import opening
from tapml.sharing import read
from tapml.sharing.imports import new_suite

_SECONDS = 300


class Again(TypedDict):
    """The shared test, run anew."""

    kernel: str
    device: str
    verdict: str


def reproduced(server: str, link: str | None, folder: Path, browser: str, progress: Console) -> Again | None:
    """The test behind `link`, as its page offers it for download, run in `browser`; None where there is no link."""
    if link is None or not link.startswith(f"{server}/s/"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "failure.html"
    with urllib.request.urlopen(f"{link}/repro.html", timeout=_SECONDS) as answer, file.open("wb") as into:
        shutil.copyfileobj(answer, into)
    repro = read(file, opening(file))
    suite = new_suite(repro, folder / "failure.suite", overwrite=True)
    job = JobSpecification(kind="validation", devices=[browser])
    document = run(job, suite, argparse.Namespace(database_url=None), progress)
    device = document["devices"][0]
    verdict = next((result["verdict"] for result in document["tests"]), "error")
    return {"kernel": repro.document.test.kernel, "device": device["name"], "verdict": verdict}
