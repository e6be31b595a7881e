"""Each bug of the gallery: the correct kernel passes, the faulty one is found and nothing else is accused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gallery
from gallery import SLUGS, Case, Fault
from operators import BYSTANDER
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.operatorwise import OperatorRun


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Its devices serve all entries: each name is started once."""
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Fault, Path]]:
    """An entry and its carved suite, made once."""
    made: dict[str, tuple[Fault, Path]] = {}

    def get(slug: str) -> tuple[Fault, Path]:
        if slug not in made:
            fault = gallery.load(slug)
            made[slug] = fault, gallery.carved(slug, fault, tmp_path_factory.mktemp(slug))
        return made[slug]

    return get


Entry = Callable[[str], tuple[Fault, Path]]


def validated(server: Server, suite: Suite, device: str) -> dict[str, list[dict[str, Any]]]:
    """The results by kernel."""
    run = OperatorRun(suite, [server.state.device(device)], server.state.blobs)
    by_kernel: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in suite.kernels}
    for result in run.run()["tests"]:
        by_kernel[result["kernel"]].append(result)
    return by_kernel


def check(server: Server, fault: Fault, case: Case, suite: Suite) -> list[dict[str, Any]]:
    results = validated(server, suite, case.device)
    found = results[gallery.suspect(suite)]
    told = json.dumps([{key: each[key] for key in ("verdict", "message")} for each in found])
    verdicts = tuple(result["verdict"] for result in found)
    if case.race:
        assert len(verdicts) == len(case.verdicts), told
        assert set(verdicts) - {"pass"} == set(case.verdicts), told
    else:
        assert verdicts == case.verdicts, told
    wrong = next((result for result in found if result["verdict"] != "pass"), found[0])
    assert [word for word in case.words if word not in wrong["message"]] == [], wrong["message"]
    if case.first is not None:
        assert tuple(wrong["first"]["index"]) == case.first
    innocent = {result["verdict"] for result in results[BYSTANDER]}
    if not (fault.everywhere and case is fault.faulty):
        assert innocent == {"pass"}, results[BYSTANDER]
    return found


@pytest.mark.parametrize("slug", SLUGS)
def test_the_correct_kernel_passes(slug: str, server: Server, entry: Entry, tmp_path: Path) -> None:
    fault, suite = entry(slug)
    check(server, fault, fault.correct, gallery.prepared(slug, fault, fault.correct, suite, tmp_path))


@pytest.mark.parametrize("slug", SLUGS)
def test_the_fault_gets_its_verdict(slug: str, server: Server, entry: Entry, tmp_path: Path) -> None:
    fault, suite = entry(slug)
    found = check(server, fault, fault.faulty, gallery.prepared(slug, fault, fault.faulty, suite, tmp_path))
    assert sum(result["tied"] for result in found) == fault.tied
