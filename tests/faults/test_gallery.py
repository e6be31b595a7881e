"""Each bug of the gallery: the correct kernel passes, the faulty one is found and nothing else is accused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gallery
from gallery import SLUGS, Fault
from operators import BYSTANDER
from table import DOCUMENT, updated
from tapml.locating import Locate
from tapml.server import Server
from tapml.validation.context import JobContext

Entry = Callable[[str], tuple[Fault, Path]]


def entries(*marks_of_attention: pytest.MarkDecorator) -> list[Any]:
    attention = pytest.param("paged-attention", marks=[pytest.mark.torch, *marks_of_attention])
    return [attention if slug == "paged-attention" else slug for slug in SLUGS]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Its devices serve all entries: each name is started once."""
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """An entry and its carved suite, made once."""
    made: dict[str, tuple[Fault, Path]] = {}

    def get(slug: str) -> tuple[Fault, Path]:
        if slug not in made:
            fault = gallery.load(slug)
            made[slug] = fault, gallery.carved(slug, fault, tmp_path_factory.mktemp(slug))
        return made[slug]

    return get


@pytest.mark.parametrize("slug", entries())
def test_the_correct_kernel_passes(slug: str, server: Server, entry: Entry, tmp_path: Path) -> None:
    fault, carved = entry(slug)
    suite = gallery.prepared(slug, fault, fault.correct, carved, tmp_path)
    results = gallery.validated(server, suite, fault.correct.device)
    gallery.check_verdicts(results, suite, fault.correct.verdicts, race=False, innocent=True)


@pytest.mark.parametrize("slug", entries())
def test_the_fault_gets_its_verdict(slug: str, server: Server, entry: Entry, tmp_path: Path) -> None:
    fault, carved = entry(slug)
    case = fault.faulty
    suite = gallery.prepared(slug, fault, case, carved, tmp_path)
    results = gallery.validated(server, suite, case.device)
    gallery.check_verdicts(results, suite, case.verdicts, race=case.race, innocent=not fault.everywhere)
    found = results[gallery.suspect(suite)]
    assert sum(result["tied"] for result in found) == fault.tied
    wrong = next((result for result in found if result["verdict"] != "pass"), found[0])
    assert [word for word in case.words if word not in wrong["message"]] == [], wrong["message"]
    if case.first is not None:
        assert tuple(wrong["first"]["index"]) == case.first


@pytest.mark.parametrize("slug", entries(pytest.mark.slow))
def test_locating_names_exactly_what_is_faulty(slug: str, server: Server, entry: Entry, tmp_path: Path) -> None:
    fault, carved = entry(slug)
    suite = gallery.prepared(slug, fault, fault.faulty, carved, tmp_path)
    device = server.state.device(fault.faulty.device)
    # A race may give the same result three times in a row.
    runs = 20 if fault.faulty.race else 3
    document = Locate(JobContext(suite, [device], server.state.blobs), runs=runs, model=False).run()
    kernel = gallery.suspect(suite)
    accused = {kernel, BYSTANDER} if fault.everywhere else {kernel}
    assert set(document["summary"]["faulty_kernels"]) == (accused if fault.pattern else set())
    told = {each["kernel"]: each for each in document["kernels"]}
    if fault.says:
        assert fault.says in told[kernel]["reason"]
    if fault.pattern:
        assert told[kernel]["findings"][0]["pattern"] == fault.pattern, told[kernel]["findings"]
    if fault.faulty.race:
        assert told[kernel]["deterministic"] is False


def test_the_table_in_the_documents_is_the_gallery() -> None:
    assert DOCUMENT.read_text() == updated(DOCUMENT.read_text()), "run `.venv/bin/python tests/faults/table.py`"
